"""Layers and environments of a cluster as lines of a list."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TypeVar

from regatta.frameworks import registry
from regatta.hosts.remote import Remote
from regatta.text import clean
from regatta_protocol.operations.layers import EnvironmentThere, LayerThere, LookAtEnvironments, LookAtLayers

_There = TypeVar("_There")
HEADINGS = ("what", "size", "last used", "on", "for", "packages")
_MOST = 3
"""The number of a layer's packages that are shown."""


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
        known = [clean(f"{name} {version}") for name, version in self.packages.items()]
        most = _MOST if self.kind == "layer" else len(known)
        packages = ", ".join(known[:most]) + (f" and {len(known) - most} more" if len(known) > most else "")
        size = "-" if self.bytes is None else f"{self.bytes / 1e6:.1f} MB"
        used = "now" if self.going else _since(self.used)
        whose = ", ".join(map(clean, self.whose)) if self.kind == "layer" else "all runs"
        return f"{self.kind} {self.name}", size, used, ", ".join(self.nodes), whose, packages


def look(remote: Remote) -> tuple[list[Layer], dict[str, Exception]]:
    """Each environment and each layer, and the nodes that could not be asked."""
    nodes, packages = remote.cluster.nodes, registry.packages()
    layers, failed = remote.gather(nodes, lambda node: remote.call(node, LookAtLayers()).layers)
    said, unasked = remote.gather(nodes, lambda node: remote.call(node, LookAtEnvironments(packages)).there)
    found = [_environment(name, there) for name, there in _together(said, lambda one: one.hash).items()]
    found += [_layer(key, there) for key, there in _together(layers, lambda one: one.key).items()]
    return found, failed | unasked


def _together(said: Mapping[str, Sequence[_There]], named: Callable[[_There], str]) -> dict[str, dict[str, _There]]:
    """Return what nodes have told of the same thing: by its name, then by node."""
    found: dict[str, dict[str, _There]] = {}
    for node, items in said.items():
        for item in items:
            found.setdefault(named(item), {})[node] = item
    return found


def _layer(key: str, there: Mapping[str, LayerThere]) -> Layer:
    newest = max(there.values(), key=lambda one: one.used)
    whose = sorted({label for one in there.values() for label in one.whose})
    going = any(one.going for one in there.values())
    return Layer("layer", key, newest.bytes, newest.used, going, [*there], whose, newest.packages)


def _environment(name: str, there: Mapping[str, EnvironmentThere]) -> Layer:
    one = next(iter(there.values()))
    packages = {package: version for package, version in one.packages.items() if version}
    return Layer("environment", name, None, one.since, False, [*there], [], packages)


def _since(moment: float) -> str:
    if time.time() - moment < 90:
        return "just now"
    return datetime.fromtimestamp(moment, timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
