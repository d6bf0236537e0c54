"""The kernel's limits of a run on a node: its unit's limits of memory and processes, and whether it met them."""

from __future__ import annotations

import contextlib
import os
from typing import Dict, Iterator

from regatta_protocol.run import Limits

ROOT = "/sys/fs/cgroup"
CONTROLLERS = {"memory": "memory", "pids": "processes"}
LEAST_PROCESSES, PROCESSES_A_CORE = 4096, 1024
RANK_OOM_SCORE, RUN_OOM_SCORE = 1000, 500
"""Ranks go first where the memory of a host is used up, as Ray's workers do; daemons come last."""


def properties(limits: Limits) -> Dict[str, str]:
    """The unit's properties for the limits of a run."""
    default = max(LEAST_PROCESSES, PROCESSES_A_CORE * len(os.sched_getaffinity(0)))
    share = limits.memory_share
    if limits.memory:
        share = min(share, limits.memory / (os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")))
    return {
        "MemoryMax": f"{share * 100:.2f}%",
        "TasksMax": str(limits.processes or default),
        "OOMPolicy": "continue",  # the supervisor says which rank it was, and ends the others
        "OOMScoreAdjust": str(RUN_OOM_SCORE),
    }


def missing() -> list[str]:
    """Limits that units of this host cannot have, as in a container that may not write to its cgroups."""
    return [name for controller, name in CONTROLLERS.items() if not _usable(controller)]


def _usable(controller: str) -> bool:
    own = os.path.join(ROOT, controller)
    if os.path.isdir(own):
        return not os.statvfs(own).f_flag & os.ST_RDONLY
    with contextlib.suppress(OSError), open(os.path.join(ROOT, "cgroup.controllers")) as file:
        return controller in file.read().split() and not os.statvfs(ROOT).f_flag & os.ST_RDONLY
    return False


def folders(pid: int | str = "self", unit: str = "regatta-") -> Iterator[str]:
    """The cgroups of a process's unit, one a hierarchy, where the unit is Regatta's, with such a name."""
    with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/cgroup") as file:
        for line in file:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            words = path.split("/")
            depth = next((n for n, word in enumerate(words) if word.startswith(unit) and word.endswith(".service")), 0)
            for base in ("", "/unified") if not controllers else [f"/{name}" for name in controllers.split(",")]:
                if depth:
                    yield f"{ROOT}{base}{'/'.join(words[: depth + 1])}"


def cpu_limit(pid: int | str = 1) -> float | None:
    """The cores' worth of time that a process may have by the quotas of its cgroups; None: no quota."""
    return min(filter(None, map(_quota, cpu_folders(pid))), default=None)


def cpu_folders(pid: int | str = 1) -> Iterator[str]:
    """The cgroups that give a process its processor time: its own, and those above it."""
    with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/cgroup") as file:
        for line in file:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            if not controllers or "cpu" in controllers.split(","):
                base = f"{ROOT}/{controllers}" if controllers else ROOT
                while path not in ("", "/"):
                    yield base + path
                    path = os.path.dirname(path)
                yield base


def _quota(folder: str) -> float | None:
    with contextlib.suppress(OSError, ValueError):
        with open(f"{folder}/cpu.max") as file:
            quota, period = file.read().split()
        return None if quota == "max" else int(quota) / int(period)
    with contextlib.suppress(OSError, ValueError):
        with open(f"{folder}/cpu.cfs_quota_us") as file, open(f"{folder}/cpu.cfs_period_us") as each:
            quota_us, period_us = int(file.read()), int(each.read())
        return quota_us / period_us if quota_us > 0 else None
    return None


def hits(pid: int | str = "self") -> Dict[str, int]:
    """Return how often the unit of a process has met a limit since its start: {"memory": processes killed,
    "processes"}.
    """
    found: Dict[str, int] = {}
    for folder in folders(pid):
        take(found, "memory", f"{folder}/memory.events", "oom")
        take(found, "memory", f"{folder}/memory.oom_control", "oom_kill")
        take(found, "processes", f"{folder}/pids.events", "max")
    return found


def limits(pid: int | str = "self") -> Dict[str, int]:
    """Limits that the unit of a process has: {"memory": bytes, "processes"}; those that are not set are left out."""
    found: Dict[str, int] = {}
    for folder in folders(pid):
        take(found, "memory", f"{folder}/memory.max")
        take(found, "memory", f"{folder}/memory.limit_in_bytes")
        take(found, "processes", f"{folder}/pids.max")
    return {name: value for name, value in found.items() if value < 1 << 62}


def reached(before: Dict[str, int], pid: int | str = "self") -> Dict[str, int]:
    """Limits that were met since `hits` said `before`, as `limits` has them."""
    have = limits(pid)
    return {name: have[name] for name, now in hits(pid).items() if name in have and now > before.get(name, 0)}


def take(found: Dict[str, int], name: str, file: str, key: str = "") -> None:
    """The number behind a key of a file of the kernel's, or in its only line; `max` there is none."""
    with contextlib.suppress(OSError, ValueError, IndexError), open(file) as handle:
        for line in handle:
            words = line.split()
            if not key or words[0] == key:
                found[name] = int(words[-1])
