"""Facts of a node: hardware, system, versions. Read from files, in a few milliseconds."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
from typing import TYPE_CHECKING, Any, Sequence

from regatta.node import cgroup, gpus

if TYPE_CHECKING:
    from regatta_protocol.place import Place


def facts(place: Place, packages: Sequence[str] = ()) -> dict[str, Any]:
    """Facts for the record and for spreading ranks, versions of these packages among them; unknown ones are None."""
    env = environment(place)
    there = env.get("packages", {})
    limit, cpus = cgroup.cpu_limit(), len(os.sched_getaffinity(0))
    return {
        "cores": cpus if limit is None else max(1, min(cpus, round(limit))),
        "cpu_limit": limit if limit is not None and limit < cpus else None,
        "cpus": sorted(os.sched_getaffinity(0)),
        "kernel_began": _kernel_began(),
        "hardware": _hardware(),
        "cpu_model": _field("/proc/cpuinfo", "model name"),
        "ram_bytes": _kilobytes("MemTotal"),
        "available_bytes": _kilobytes("MemAvailable"),
        "load": os.getloadavg()[0],
        "kernel": platform.release(),
        "os": _os_name(),
        "hostname": platform.node(),
        "environment": env.get("hash"),
        "gpus": gpus.look(),
        "versions": {
            "python": env.get("python"),
            **{name: there.get(name) for name in packages},
            "java": None,
            "hadoop": None,
        },
    }


def environment(place: Place) -> dict[str, Any]:
    """The Python environment of runs: at least {"python", "packages": {name: version}}, and "hash" where it has one."""
    python = place["python"]
    described = os.path.join(os.path.dirname(os.path.dirname(python)), "regatta-env.json")
    try:
        with open(described) as file:
            return dict(json.load(file))
    except (OSError, ValueError):
        return _look(python)


def _look(python: str) -> dict[str, Any]:
    """An environment without a description (inventory/local): read the names of its installed packages."""
    base = os.path.join(os.path.dirname(os.path.dirname(python)), "lib")
    packages, version = {}, None
    for name in sorted(os.listdir(base)) if os.path.isdir(base) else []:
        site = os.path.join(base, name, "site-packages")
        if name.startswith("python") and os.path.isdir(site):
            version = _field(os.path.join(base, "..", "pyvenv.cfg"), "version", "=") or name[len("python") :]
            for item in os.listdir(site):
                if item.endswith(".dist-info"):
                    package, _, number = item[: -len(".dist-info")].partition("-")
                    packages[package.lower().replace("_", "-")] = number
    return {"python": version, "packages": packages}


def _kernel_began() -> float:
    """When this kernel began, to less than a millisecond: the same on all hosts that are containers of one machine."""
    narrowest, began = float("inf"), 0.0
    for _ in range(5):  # whoever is interrupted between two timers is not believed
        before = time.clock_gettime(time.CLOCK_BOOTTIME)
        now = time.time()
        after = time.clock_gettime(time.CLOCK_BOOTTIME)
        if after - before < narrowest:
            narrowest, began = after - before, now - (before + after) / 2
    return began


def _hardware() -> str | None:
    """A name for the machine that its maker, or its hypervisor, has given it; None where it has none, or hides it."""
    try:
        with open("/sys/class/dmi/id/product_uuid") as file:
            return hashlib.sha256(file.read().strip().lower().encode()).hexdigest()[:16]
    except OSError:
        return None


def _field(path: str, name: str, separator: str = ":") -> str | None:
    try:
        with open(path) as file:
            for line in file:
                key, found, value = line.partition(separator)
                if found and key.strip() == name:
                    return value.strip()
    except OSError:
        pass
    return None


def _kilobytes(name: str) -> int | None:
    value = _field("/proc/meminfo", name)
    return int(value.split()[0]) * 1024 if value else None


def _os_name() -> str | None:
    name = _field("/etc/os-release", "PRETTY_NAME", "=")
    return name.strip('"') if name else None
