"""Layers and environments of a cluster as lines of a list."""

import time
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from regatta.frameworks import registry
from regatta.hosts.remote import Remote

HEADINGS = ("what", "size", "last used", "on", "for", "packages")


def lines(remote: Remote) -> tuple[list[tuple[str, ...]], dict[str, Exception]]:
    """A line for each layer and each environment, and the nodes that could not be asked."""
    nodes, packages = remote.cluster.nodes, registry.packages()
    layers, failed = remote.gather(nodes, lambda node: remote.call(node, "layer.look")["layers"])
    said, unasked = remote.gather(nodes, lambda node: remote.call(node, "env.look", packages=packages)["there"])
    found = [_environment(name, there) for name, there in _together(said, "hash").items()]
    found += [_layer(key, there) for key, there in _together(layers, "key").items()]
    return found, failed | unasked


def _together(said: Mapping[str, list[dict[str, Any]]], name: str) -> dict[str, dict[str, dict[str, Any]]]:
    """What nodes have told of the same thing: by its name, then by node."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for node, items in said.items():
        for item in items:
            found.setdefault(str(item[name]), {})[node] = item
    return found


def _layer(key: str, there: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    newest = max(there.values(), key=lambda one: float(one["used"]))
    whom = sorted({str(label) for one in there.values() for label in one["for"]})
    packages = [f"{name} {version}" for name, version in newest["packages"].items()]
    shown = ", ".join(packages[:3]) + (f" and {len(packages) - 3} more" if len(packages) > 3 else "")
    used = "now" if any(one["going"] for one in there.values()) else _since(float(newest["used"]))
    return f"layer {key}", f"{newest['bytes'] / 1e6:.1f} MB", used, ", ".join(there), ", ".join(whom), shown


def _environment(name: str, there: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    one = next(iter(there.values()))
    packages = ", ".join(f"{package} {version}" for package, version in one["packages"].items() if version)
    return f"environment {name}", "-", _since(float(one["since"])), ", ".join(there), "all runs", packages


def _since(moment: float) -> str:
    if time.time() - moment < 90:
        return "just now"
    return datetime.fromtimestamp(moment, timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
