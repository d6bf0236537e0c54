"""What a node is: hardware, system, versions. Read from files, in a few milliseconds."""

from __future__ import annotations

import json
import os
import platform
from typing import Any


def facts(place: dict[str, Any]) -> dict[str, Any]:
    """Facts for the record and for spreading ranks; unknown ones are None."""
    env = environment(place)
    packages = env.get("packages", {})
    return {
        "cores": len(os.sched_getaffinity(0)),
        "cpu_model": _field("/proc/cpuinfo", "model name"),
        "ram_bytes": _kilobytes("MemTotal"),
        "available_bytes": _kilobytes("MemAvailable"),
        "load": os.getloadavg()[0],
        "kernel": platform.release(),
        "os": _os_name(),
        "hostname": platform.node(),
        "environment": env.get("hash"),
        "versions": {
            "python": env.get("python"),
            "torch": packages.get("torch"),
            "ray": packages.get("ray"),
            "java": None,
            "hadoop": None,
        },
    }


def environment(place: dict[str, Any]) -> dict[str, Any]:
    """The Python environment of runs: at least {"python", "packages": {name: version}}, and "hash" where it has one."""
    python = place["python"]
    described = os.path.join(os.path.dirname(os.path.dirname(python)), "regatta-env.json")
    try:
        with open(described) as file:
            return dict(json.load(file))
    except (OSError, ValueError):
        return _look(python)


def _look(python: str) -> dict[str, Any]:
    """An environment that nobody described (inventory/local): read the names of its installed packages."""
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
