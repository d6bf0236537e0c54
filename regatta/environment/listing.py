"""Layers and environments of a cluster as lines of a list."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from regatta.frameworks import registry
from regatta.hosts.remote import Remote

HEADINGS = ("what", "size", "last used", "on", "for", "packages")
_MOST = 3
"""So many packages of a layer are shown."""


@dataclass(frozen=True)
class Layer:
    """A layer or (`kind`) an environment: `used` when last, by Unix; `going` if runs have it now; `whose` its projects.

    `bytes` is null for an environment.
    """

    kind: str
    name: str
    bytes: int | None
    used: float
    going: bool
    nodes: list[str]
    whose: list[str]
    packages: dict[str, str]

    def cells(self) -> tuple[str, ...]:
        """The row under `HEADINGS`."""
        known = [f"{name} {version}" for name, version in self.packages.items()]
        most = _MOST if self.kind == "layer" else len(known)
        packages = ", ".join(known[:most]) + (f" and {len(known) - most} more" if len(known) > most else "")
        size = "-" if self.bytes is None else f"{self.bytes / 1e6:.1f} MB"
        used = "now" if self.going else _since(self.used)
        whose = ", ".join(self.whose) if self.kind == "layer" else "all runs"
        return f"{self.kind} {self.name}", size, used, ", ".join(self.nodes), whose, packages


def look(remote: Remote) -> tuple[list[Layer], dict[str, Exception]]:
    """Each environment and each layer, and the nodes that could not be asked."""
    nodes, packages = remote.cluster.nodes, registry.packages()
    layers, failed = remote.gather(nodes, lambda node: remote.call(node, "layer.look")["layers"])
    said, unasked = remote.gather(nodes, lambda node: remote.call(node, "env.look", packages=packages)["there"])
    found = [_environment(name, there) for name, there in _together(said, "hash").items()]
    found += [_layer(key, there) for key, there in _together(layers, "key").items()]
    return found, failed | unasked


def _together(said: Mapping[str, list[dict[str, Any]]], name: str) -> dict[str, dict[str, dict[str, Any]]]:
    """Return what nodes have told of the same thing: by its name, then by node."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for node, items in said.items():
        for item in items:
            found.setdefault(str(item[name]), {})[node] = item
    return found


def _layer(key: str, there: Mapping[str, Mapping[str, Any]]) -> Layer:
    newest = max(there.values(), key=lambda one: float(one["used"]))
    whose = sorted({str(label) for one in there.values() for label in one["for"]})
    going = any(one["going"] for one in there.values())
    packages = {str(name): str(version) for name, version in newest["packages"].items()}
    return Layer("layer", key, int(newest["bytes"]), float(newest["used"]), going, [*there], whose, packages)


def _environment(name: str, there: Mapping[str, Mapping[str, Any]]) -> Layer:
    one = next(iter(there.values()))
    packages = {str(package): str(version) for package, version in one["packages"].items() if version}
    return Layer("environment", name, None, float(one["since"]), False, [*there], [], packages)


def _since(moment: float) -> str:
    if time.time() - moment < 90:
        return "just now"
    return datetime.fromtimestamp(moment, timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
