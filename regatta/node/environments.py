"""The Python environments of a node: which there are, and the switch to another one."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Sequence

from regatta.node import disk
from regatta_protocol.operations.layers import EnvironmentsThere, EnvironmentThere

if TYPE_CHECKING:
    from regatta_protocol.place import Place

STARTED = "/etc/regatta/started"


def look(place: Place, packages: Sequence[str]) -> EnvironmentsThere:
    """Whole environments, the one that was switched to last first, and of each the versions of these packages."""
    root, there = place["root"], []
    for name in os.listdir(root) if os.path.isdir(root) else []:
        described = os.path.join(root, name, "regatta-env.json")
        if name.startswith("env-") and os.path.isfile(described):
            with open(described) as file:
                value = json.load(file)
            since = os.path.getmtime(os.path.join(root, name))
            versions = {key: value["packages"].get(key) for key in packages}
            there.append(EnvironmentThere(value["hash"], since, versions))
    there.sort(key=lambda item: -item.since)
    link = os.path.join(root, "env")
    current = os.path.basename(os.path.realpath(link))[len("env-") :] if os.path.islink(link) else None
    return EnvironmentsThere(current, tuple(there))


def switch(place: Place, name: str, units: Sequence[str]) -> None:
    """Point the link at an environment in one step. The next provisioning then knows to restart what is made of it:
    these units."""
    root = place["root"]
    if not os.path.isfile(os.path.join(root, f"env-{name}", "regatta-env.json")):
        raise FileNotFoundError(2, "no such environment", f"{root}/env-{name}")
    for unit in os.listdir(STARTED) if os.path.isdir(STARTED) else []:
        if unit in units:
            with open(os.path.join(STARTED, unit), "w") as file:
                file.write("another environment\n")
    disk.point(os.path.join(root, "env"), f"env-{name}")
    disk.settle_all(root)


def resolved(place: Place, path: str) -> str:
    """A path below the link `env` as one below the environment that it leads to now, which later switches leave."""
    link = os.path.join(place["root"], "env")
    if path.startswith(link + "/") and os.path.islink(link):
        return os.path.realpath(link) + path[len(link) :]
    return path
