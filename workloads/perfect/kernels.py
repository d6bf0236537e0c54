"""The loop of the workload, compiled by numba: load with ``compiled.load``."""

from __future__ import annotations

from numba import njit


@njit("boolean(int64)", nogil=True, cache=True)
def is_perfect(number):  # type: ignore[no-untyped-def]
    """Whether a number is the sum of its divisors below it."""
    total = 0
    for divisor in range(1, number):
        if number % divisor == 0:
            total += divisor
    return total == number
