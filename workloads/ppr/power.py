"""Personalised PageRank by power iteration over CSR, several sources at a time.

The walk starts at a source s. At every step it returns to s with probability `alpha` (the teleport probability; the
damping factor of other texts is 1 - alpha), and else follows an edge out of where it is, or, where there is none (a
dangling node), returns to s as well. With P the transition matrix and d the mass on dangling nodes,

    x <- (1 - alpha) (P x + d e_s) + alpha e_s,    x = e_s at first.

It ends at the first step that moves an L1 distance of at most `tolerance`; since each step is a contraction by
1 - alpha in that norm, what is left to the exact answer is at most (1 - alpha) / alpha times as much.
(L. Page et al., "The PageRank citation ranking", 1999; G. Jeh and J. Widom, "Scaling personalized web search", 2003.)

Every row is summed in the order of its columns and every total in the order of chunks, or exactly: answers are
bit-identical, whatever they are solved with, by however many threads and ranks.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from workloads.common import compiled, threads
from workloads.common.ranks import Ranks
from workloads.ppr.graph import Graph

Real = TypeVar("Real", np.float32, np.float64)

kernels = compiled.load("workloads.ppr.kernels")

_TASKS_PER_THREAD = 4
_EMPTY = -1
_CACHE_LINE = 64

Watch = Callable[[int, float], None]
"""Gets the number of sources done and the largest residual, every iteration."""


def quiet(_done: int, _residual: float) -> None:
    """Watch nothing."""


@dataclass(frozen=True)
class Solution:
    """`scores`: float64 (n,) by place, a distribution; `residual`: L1 distance that the last of `iterations` moved."""

    scores: NDArray[np.float64]
    iterations: int | None
    residual: float


class RowBlocks(Protocol):
    """Puts together what ranks have computed of which each has a block of the graph's rows."""

    first: int
    last: int

    def share(self, z: NDArray[np.float64], moved: NDArray[np.float64], sums: NDArray[np.float64]) -> None:
        """Put every rank's rows `moved` into `z` (n, width) on every rank, and the chunks' `sums` as well."""


class Walks(Protocol):
    """Walks that take their steps together, `width` at once, each in a column: those of a :class:`Walk`, or others."""

    width: int

    def begin(self, column: int, home: int) -> None:
        """Let a walk begin at the node numbered `home`."""

    def end(self, column: int) -> None:
        """Leave a column empty."""

    def step(self) -> list[float]:
        """Let all walks take a step; returns the L1 distance that each has moved."""

    def scores(self, column: int) -> NDArray[np.float64]:
        """The scores of a walk, by place: (n,), their sum is 1 but for rounding."""


def width_for(sources: int) -> int:
    """Return how many sources go through the graph at once, one of kernels.WIDTHS, where there are so many in all."""
    widths: tuple[int, ...] = kernels.WIDTHS
    return next((width for width in widths if width >= sources), widths[-1])


def prepare(sources: int) -> None:
    """Compile, or load, what :func:`solve` needs for so many sources, before a timer runs."""
    kernels.step(width_for(sources))


def solve(
    graph: Graph,
    sources: NDArray[np.int64],
    alpha: float,
    tolerance: float,
    max_iterations: int,
    watch: Watch = quiet,
    ranks: Ranks | None = None,
    blocks: RowBlocks | None = None,
) -> Iterator[tuple[int, Solution]]:
    """Yield (position in `sources`, solution) of each source (places, (k,)), in the order in which they end.

    Sources go through in a block; as soon as one has converged the next takes its column. `alpha`: between 0 and 1.
    `tolerance`: of the L1 distance of a step; one that has not come to it ends after `max_iterations` steps all the
    same. `ranks`: whose threads work. With `blocks`, `graph` holds the rows of only chunks [first, last), and all
    ranks call this with the same sources.
    """
    with threads.pool(ranks) as pool:
        walk = Walk(graph, width_for(len(sources)), alpha, pool, blocks)
        yield from walked(walk, graph.numbers[sources].tolist(), tolerance, max_iterations, watch)


def walked(
    walk: Walks, homes: Sequence[int], tolerance: float, max_iterations: int, watch: Watch
) -> Iterator[tuple[int, Solution]]:
    """As :func:`solve`, by some walks that have not begun; `homes`: the numbers of the sources."""
    waiting = deque(enumerate(homes))
    positions = [_EMPTY] * walk.width
    iterations = [0] * walk.width
    done = 0
    while True:
        for column in range(walk.width):
            if positions[column] == _EMPTY and waiting:
                positions[column], home = waiting.popleft()
                iterations[column] = 0
                walk.begin(column, home)
        active = [column for column in range(walk.width) if positions[column] != _EMPTY]
        if not active:
            return
        residuals = walk.step()
        watch(done, max(residuals[column] for column in active))
        for column in active:
            iterations[column] += 1
            if residuals[column] <= tolerance or iterations[column] == max_iterations:
                done += 1
                yield positions[column], Solution(walk.scores(column), iterations[column], residuals[column])
                positions[column] = _EMPTY
                walk.end(column)


class Walk:
    """A block of walks, `width` at once, each in a column.

    `z` (n, width) holds the scores by number, divided by the out-degree where there are edges out: what each carries.
    """

    def __init__(
        self, graph: Graph, width: int, alpha: float, pool: ThreadPoolExecutor, blocks: RowBlocks | None = None
    ) -> None:
        self.width = width
        self._graph, self._alpha, self._pool, self._blocks = graph, alpha, pool, blocks
        self._z = aligned(graph.nodes, width, np.float64)
        self._moved = aligned(len(graph.indptr) - 1, width, np.float64)
        self._homes = np.full(width, _EMPTY, np.int64)
        self._dangling = [0.0] * width
        chunks = len(graph.cuts) - 1
        self._sums = np.zeros((chunks, 2, width))
        self._tasks = tasks(*((blocks.first, blocks.last) if blocks else (0, chunks)))
        kernels.step(width)

    def begin(self, column: int, home: int) -> None:
        """Let a walk begin at the node numbered `home`."""
        leaving = self._leaving(home)
        self._homes[column] = home
        self._dangling[column] = 0.0 if leaving else 1.0
        self._z[:, column] = 0.0
        self._z[home, column] = 1.0 / (leaving or 1)

    def place(self, column: int, home: int, scores: NDArray[np.float64]) -> None:
        """Let a walk from the node numbered `home` continue from scores by place, (n,)."""
        graph = self._graph
        self.begin(column, home)
        self._z[graph.numbers, column] = scores
        self._dangling[column] = math.fsum(self._z[graph.degrees == 0, column])
        self._z[:, column] /= np.maximum(graph.degrees, 1)

    def end(self, column: int) -> None:
        """Leave a column empty."""
        self._homes[column] = _EMPTY
        self._dangling[column] = 0.0
        self._z[:, column] = 0.0

    def step(self) -> list[float]:
        """Let all walks take a step; returns the L1 distance that each has moved."""
        bonus = np.array([(1.0 - self._alpha) * mass + self._alpha for mass in self._dangling])
        each(self._pool, lambda task: self._rows(task, bonus), self._tasks)
        if self._blocks:
            self._blocks.share(self._z, self._moved, self._sums)
        else:
            self._z, self._moved = self._moved, self._z
        self._dangling = [math.fsum(self._sums[:, 1, column]) for column in range(self.width)]
        return [math.fsum(self._sums[:, 0, column]) for column in range(self.width)]

    def _leaving(self, home: int) -> float:
        """Return what a node's score is divided by where it is carried along each edge; 0 if it is dangling."""
        return int(self._graph.degrees[home])

    def _rows(self, task: tuple[int, int], bonus: NDArray[np.float64]) -> None:
        """Compute the rows of some chunks."""
        graph = self._graph
        kernels.step(self.width)(
            *(graph.indptr, graph.columns, graph.degrees, graph.cuts, *task),
            *(self._z, self._homes, bonus, 1.0 - self._alpha, self._moved, int(graph.first_row), self._sums),
        )

    def scores(self, column: int) -> NDArray[np.float64]:
        """The scores of a walk, by place: (n,), their sum is 1 but for rounding."""
        scores = np.empty(self._graph.nodes)
        kernels.scores(self._z, column, self._graph.degrees, self._graph.numbers, scores)
        return scores


def aligned(rows: int, width: int, dtype: type[Real]) -> NDArray[Real]:
    """Zeros (rows, width) that begin at a cache line, so that no row covers more of them than it must."""
    kind: np.dtype[Real] = np.dtype(dtype)
    size = rows * width * kind.itemsize
    memory = np.zeros(size + _CACHE_LINE, np.uint8)
    start = -memory.ctypes.data % _CACHE_LINE
    return memory[start : start + size].view(kind).reshape(rows, width)


def tasks(first: int, last: int) -> Sequence[tuple[int, int]]:
    """The chunks [first, last) in pieces [begin, end) for the threads, up to four for each."""
    pieces = max(1, min(last - first, _TASKS_PER_THREAD * threads.count() if threads.count() > 1 else 1))
    cuts = [first + (last - first) * piece // pieces for piece in range(pieces + 1)]
    return list(itertools.pairwise(cuts))


def each(pool: ThreadPoolExecutor, work: Callable[[tuple[int, int]], None], pieces: Sequence[tuple[int, int]]) -> None:
    """Do all pieces of :func:`tasks`, a single one without another thread."""
    if len(pieces) == 1:
        work(pieces[0])
    else:
        for _ in pool.map(work, pieces):
            pass
