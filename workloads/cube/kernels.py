"""The loop of the workload, compiled by numba: load with ``compiled.load``."""

from __future__ import annotations

from numba import njit


@njit("UniTuple(int64, 2)(int64, int64, boolean)", nogil=True, cache=True)
def slice(edge, i, whole):  # type: ignore[no-untyped-def]
    """Sum and number of i x j x k for one i: j and k up to the edge, or j up to i and k up to j."""
    total, count = 0, 0
    for j in range(1, (edge if whole else i) + 1):
        for k in range(1, (edge if whole else j) + 1):
            total += i * j * k
            count += 1
    return total, count
