"""The loop of the workload, compiled by numba: load with ``compiled.load``."""

from __future__ import annotations

import numpy as np
from numba import njit

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_A, _B, _C, _D = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)
_UNIT = 1.0 / (1 << 53)


@njit("float64(uint64)", nogil=True, cache=True, inline="always")
def _drawn(state):  # type: ignore[no-untyped-def]
    """A number of [0, 1) out of a state of SplitMix64 (Steele, Lea, Flood 2014)."""
    mixed = (state ^ (state >> _A)) * _FIRST
    mixed = (mixed ^ (mixed >> _B)) * _SECOND
    return float((mixed ^ (mixed >> _C)) >> _D) * _UNIT


@njit("int64(uint64, int64)", nogil=True, cache=True)
def inside(seed, points):  # type: ignore[no-untyped-def]
    """Return how many of so many random points of the unit square are in the circle."""
    state, found = seed, 0
    for _ in range(points):
        state += _STEP
        x = _drawn(state)
        state += _STEP
        y = _drawn(state)
        if x * x + y * y <= 1.0:
            found += 1
    return found
