"""The items: blocks of points, each drawn from its own seed, so that the answer does not depend on the spread."""

from __future__ import annotations

import functools
import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from workloads.common.compiled import load
from workloads.common.items.work import Work

TOLERANCE: dict[str, float] = {}
NUMPY_POINTS = 1 << 20
"""The number of points that numpy holds at a time, whatever the block."""


@dataclass(frozen=True)
class Options:
    """The parameters of a run: `samples` points in all, in items of `block`; `method`: see the card."""

    samples: int
    block: int
    seed: int
    method: str


def by_loop(options: Options, block: int) -> int:
    """Points of a block that are in the circle: in Python."""
    draw = random.Random(_seed(options, block)).random
    inside = 0
    for _ in range(_points(options, block)):
        x, y = draw(), draw()
        inside += x * x + y * y <= 1.0
    return inside


def by_numpy(options: Options, block: int) -> int:
    """The same of arrays, from numpy's own generator."""
    import numpy as np

    generator, left, inside = np.random.default_rng(_seed(options, block)), _points(options, block), 0
    while left:
        points = generator.random((min(left, NUMPY_POINTS), 2))
        inside += int(np.count_nonzero((points * points).sum(axis=1) <= 1.0))
        left -= len(points)
    return inside


def by_numba(options: Options, block: int) -> int:
    """The same point by point, compiled, from a generator of 64 bits."""
    return int(_kernels().inside(_seed(options, block), _points(options, block)))


def work(options: Options) -> Work:
    """The blocks, by number."""
    functions: dict[str, tuple[Callable[[Options, int], int], Callable[[], object] | None]] = {
        "loop": (by_loop, None),
        "numpy": (by_numpy, _numpy),
        "numba": (by_numba, _kernels),
    }
    function, prepare = functions[options.method]
    return Work(functools.partial(function, options), range(-(-options.samples // options.block)), prepare)


def combine(options: Options, results: Sequence[int]) -> tuple[dict[str, Any], list[str]]:
    """The points in the circle, and what that makes of pi."""
    inside = sum(results)
    pi = 4 * inside / options.samples
    return {"samples": options.samples, "inside": inside, "pi": pi}, [f"pi: {pi:.8f} of {options.samples:,} points"]


def _points(options: Options, block: int) -> int:
    return min(options.block, options.samples - block * options.block)


def _seed(options: Options, block: int) -> int:
    """64 bits that are a block's own."""
    return int.from_bytes(hashlib.blake2b(f"{options.seed} {block}".encode(), digest_size=8).digest(), "little")


def _kernels() -> Any:
    return load("workloads.pi.kernels")


def _numpy() -> object:
    import numpy as np

    return np
