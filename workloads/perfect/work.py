"""The items: the numbers from 1 on, each with the sum of those below it that divide it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from workloads.common.compiled import load
from workloads.common.items.work import Work

TOLERANCE: dict[str, float] = {}


@dataclass(frozen=True)
class Options:
    """The parameters of a run: numbers `below` this; `method`: see the card."""

    below: int
    method: str


def by_loop(number: int) -> bool:
    """Whether a number is the sum of its divisors below it: in Python, as people write it first."""
    total = 0
    for divisor in range(1, number):
        if number % divisor == 0:
            total += divisor
    return total == number


def by_numba(number: int) -> bool:
    """The same loop, compiled."""
    return bool(_kernels().is_perfect(number))


def by_sieve(below: int) -> list[int]:
    """All perfect numbers below a bound: each number is added to its multiples, n log n steps for all together."""
    import numpy as np

    sums = np.zeros(below, np.int64)
    for divisor in range(1, (below + 1) // 2):
        sums[2 * divisor :: divisor] += divisor
    numbers = np.arange(below)
    return [int(number) for number in np.flatnonzero(sums == numbers) if number]


def work(options: Options) -> Work:
    """The numbers below the bound; for the sieve the bound, as the only item."""
    if options.method == "sieve":
        return Work(by_sieve, [options.below], _numpy)
    functions: dict[str, tuple[Callable[[int], bool], Callable[[], object] | None]] = {
        "loop": (by_loop, None),
        "numba": (by_numba, _kernels),
    }
    function, prepare = functions[options.method]
    return Work(function, range(1, options.below), prepare)


def combine(options: Options, results: Sequence[Any]) -> tuple[dict[str, Any], list[str]]:
    """The perfect numbers, and how many numbers there were."""
    found = results[0] if options.method == "sieve" else [number for number, is_one in enumerate(results, 1) if is_one]
    return {"below": options.below, "perfect": found}, [
        f"perfect: {len(found)} perfect numbers below {options.below:,}: {', '.join(map(str, found))}"
    ]


def _kernels() -> Any:
    return load("workloads.perfect.kernels")


def _numpy() -> object:
    import numpy as np

    return np
