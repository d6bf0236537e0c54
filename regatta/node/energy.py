"""Energy of this node's processors and their memory, and of its GPUs, by their own counters.

Those of processors (RAPL) only root may read. Those of NVIDIA's cards come from the driver's library, on which
nvidia-smi stands; nvidia-smi itself tells power, and no energy.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
import time
from typing import Dict, List

from regatta.node import gpus

ROOT = "/sys/class/powercap"
COUNTED = ("package", "dram")
"""Beginnings of the names of zones that add up; others are parts of these (core, uncore), or have them in it (psys)."""
MOST_WATTS = 1000.0
"""More than a zone takes: how soon its counter may begin again at 0."""
AT = "at"
LIBRARY = "libnvidia-ml.so.1"
CARD = "gpu:"
_SECONDS = 5.0
"""A driver that hangs stops no run: it is waited for so long."""
_UUID_BYTES = 96


def counters(root: str = ROOT) -> Dict[str, float]:
    """Microjoules now of each zone, by its folder, and of each GPU, by `CARD` and its UUID; and `at`: when.

    Empty where this host shows none.
    """
    found = {**_cards(), **_processors(root)}
    return {**found, AT: time.monotonic()} if found else {}


def joules(before: Dict[str, float], root: str = ROOT) -> float | None:
    """Joules since `before`, whoever used them; None: not measured, as where a counter may have begun again twice."""
    now, total = _processors(root), 0.0
    if not now or set(now) != {name for name in before if name != AT and not name.startswith(CARD)}:
        return None
    passed = time.monotonic() - before[AT]
    for folder in now:
        with contextlib.suppress(OSError, ValueError):
            most = _number(root, folder, "max_energy_range_uj")
            if passed * MOST_WATTS * 1e6 > most:
                return None
            total += (now[folder] - before[folder]) % (most + 1)
            continue
        return None
    return round(total / 1e6, 3)


def of_cards(before: Dict[str, float]) -> float | None:
    """Joules of all GPUs since `before`, whoever used them; None: not measured, as where their driver began again."""
    now = _cards()
    if not now or set(now) != {name for name in before if name.startswith(CARD)}:
        return None
    if any(now[name] < before[name] for name in now):
        return None
    return round(sum(now[name] - before[name] for name in now) / 1e6, 3)


def _processors(root: str) -> Dict[str, float]:
    """Microjoules of each zone now, by its folder."""
    found: Dict[str, float] = {}
    for folder in _zones(root):
        with contextlib.suppress(OSError, ValueError):
            found[folder] = _number(root, folder, "energy_uj")
    return found


def _cards() -> Dict[str, float]:
    """Microjoules of each GPU since its driver was loaded; empty where one does not tell, or nothing answers."""
    found: Dict[str, float] = {}
    if not os.path.exists(gpus.LOADED):
        return found
    reader = threading.Thread(target=_read_cards, args=(found,), daemon=True)
    reader.start()
    reader.join(_SECONDS)
    return {} if reader.is_alive() else found


def _read_cards(found: Dict[str, float]) -> None:
    with contextlib.suppress(OSError, AttributeError):  # no such library, or an old one
        library, told = ctypes.CDLL(LIBRARY), {}
        if library.nvmlInit_v2():
            return
        try:
            count = ctypes.c_uint()
            if library.nvmlDeviceGetCount_v2(ctypes.byref(count)):
                return
            for index in range(count.value):
                card, millijoules = ctypes.c_void_p(), ctypes.c_ulonglong()
                uuid = ctypes.create_string_buffer(_UUID_BYTES)
                if (
                    library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(card))
                    or library.nvmlDeviceGetUUID(card, uuid, ctypes.c_uint(_UUID_BYTES))
                    or library.nvmlDeviceGetTotalEnergyConsumption(card, ctypes.byref(millijoules))
                ):
                    return
                told[CARD + uuid.value.decode(errors="replace")] = millijoules.value * 1000.0
            found.update(told)
        finally:
            library.nvmlShutdown()


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
