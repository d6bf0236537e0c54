"""Energy of this node's processors and their memory by their own counters (RAPL), which only root may read."""

from __future__ import annotations

import contextlib
import os
import time
from typing import Dict, List

ROOT = "/sys/class/powercap"
COUNTED = ("package", "dram")
"""Beginnings of the names of zones that add up; others are parts of these (core, uncore), or have them in it (psys)."""
MOST_WATTS = 1000.0
"""More than a zone takes: how soon its counter may begin again at 0."""
AT = "at"


def counters(root: str = ROOT) -> Dict[str, float]:
    """Microjoules of each zone now, by its folder, and `at`: when; empty where this host shows none."""
    found: Dict[str, float] = {}
    for folder in _zones(root):
        with contextlib.suppress(OSError, ValueError):
            found[folder] = _number(root, folder, "energy_uj")
    return {**found, AT: time.monotonic()} if found else {}


def joules(before: Dict[str, float], root: str = ROOT) -> float | None:
    """Joules since `before`, whoever used them; None: not measured, as where a counter may have begun again twice."""
    now, total = counters(root), 0.0
    if not now or set(now) != set(before):
        return None
    for folder in set(now) - {AT}:
        with contextlib.suppress(OSError, ValueError):
            most = _number(root, folder, "max_energy_range_uj")
            if (now[AT] - before[AT]) * MOST_WATTS * 1e6 > most:
                return None
            total += (now[folder] - before[folder]) % (most + 1)
            continue
        return None
    return round(total / 1e6, 3)


def _zones(root: str) -> List[str]:
    found: List[str] = []
    with contextlib.suppress(OSError):
        for folder in sorted(os.listdir(root)):
            with contextlib.suppress(OSError), open(os.path.join(root, folder, "name")) as file:
                if folder.startswith("intel-rapl:") and file.read().startswith(COUNTED):
                    found.append(folder)
    return found


def _number(root: str, folder: str, name: str) -> float:
    with open(os.path.join(root, folder, name)) as file:
        return float(int(file.read()))
