"""The items: each i, with the sum of i x j x k over all j and k that go with it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from workloads.common.compiled import load
from workloads.common.items.work import Work

TOLERANCE: dict[str, float] = {}


@dataclass(frozen=True)
class Options:
    """The parameters of a run: numbers up to `edge`; `shape` and `method`: see the card."""

    edge: int
    shape: str
    method: str

    @property
    def whole(self) -> bool:
        """Whether j and k go up to the edge, whatever i is."""
        return self.shape == "cube"


def by_loop(options: Options, i: int) -> tuple[int, int]:
    """Sum and number of the products of one i: in Python."""
    total = count = 0
    for j in range(1, (options.edge if options.whole else i) + 1):
        for k in range(1, (options.edge if options.whole else j) + 1):
            total += i * j * k
            count += 1
    return total, count


def by_numba(options: Options, i: int) -> tuple[int, int]:
    """The same, compiled."""
    total, count = _kernels().slice(options.edge, i, options.whole)
    return int(total), int(count)


def by_numpy(options: Options, i: int) -> tuple[int, int]:
    """The same with k as an array."""
    import numpy as np

    total = count = 0
    for j in range(1, (options.edge if options.whole else i) + 1):
        k = np.arange(1, (options.edge if options.whole else j) + 1, dtype=np.int64)
        total += int((i * j * k).sum())
        count += len(k)
    return total, count


def work(options: Options) -> Work:
    """Each i up to the edge."""
    functions: dict[str, tuple[Callable[[Options, int], tuple[int, int]], Callable[[], object] | None]] = {
        "loop": (by_loop, None),
        "numba": (by_numba, _kernels),
        "numpy": (by_numpy, _numpy),
    }
    function, prepare = functions[options.method]
    return Work(functools.partial(function, options), range(1, options.edge + 1), prepare)


def combine(options: Options, results: Sequence[tuple[int, int]]) -> tuple[dict[str, Any], list[str]]:
    """Sum and number of all products."""
    total, count = sum(one for one, _ in results), sum(one for _, one in results)
    said = f"cube: {total:,} is the sum of {count:,} products, {options.shape} of edge {options.edge:,}"
    return {"edge": options.edge, "shape": options.shape, "products": count, "sum": total}, [said]


def _kernels() -> Any:
    return load("workloads.cube.kernels")


def _numpy() -> object:
    import numpy as np

    return np
