"""Personalised PageRank by power iteration over CSR, several sources at a time.

The walk starts at a source s. At every step it returns to s with probability `alpha` (the teleport probability; the
damping factor of other texts is 1 - alpha), and else follows an edge out of where it is, or, where there is none (a
dangling node), returns to s as well. With P the transition matrix and d the mass on dangling nodes,

    x <- (1 - alpha) (P x + d e_s) + alpha e_s,    x = e_s at first.

It ends at the first step that moves an L1 distance of at most `tolerance`; since each step is a contraction by
1 - alpha in that norm, what is left to the exact answer is at most (1 - alpha) / alpha times as much.
(L. Page et al., "The PageRank citation ranking", 1999; G. Jeh and J. Widom, "Scaling personalized web search", 2003.)

A step sends the change of each score, with 8 significant bits; what rounding leaves is sent with the next change, so
that nothing is lost. With s the scores that have been sent, r what is still to send, and q = r rounded,

    s <- s + q,    r <- r - q + (1 - alpha) (P q + d e_s),    s = 0, r = alpha e_s, q = e_s at first:

r is always what the next step from s moves, to the precision of float64. What rounding makes all that is sent differ
from 1 by, s sends besides: else a share alpha of it would come back in each step. The answer is s + r, scaled to a sum
of 1. (Error feedback: F. Seide et al., "1-bit stochastic gradient descent", 2014.)

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
from workloads.ppr.blocks import NOWHERE, Block
from workloads.ppr.graph import Graph

Real = TypeVar("Real", np.uint16, np.float32, np.float64)

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
    """Puts together what ranks have computed of which each has a block of the graph's rows.

    `parts`: chunks [first, last) of the block. A step computes one after the other, and sends each at once.
    """

    block: Block
    parts: Sequence[tuple[int, int]]

    def begin(self, sent: NDArray[np.uint16]) -> None:
        """Let what others send in this step come to where it is read: `sent` (nodes, width)."""

    def send(self, part: int, sent: NDArray[np.uint16]) -> None:
        """Send the rows of a part, which are in `sent`, to all that read them."""

    def end(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        """Wait for all others; gives the sums of all chunks, (chunks, 3, width), of which `sums` are this rank's."""

    def gathered(self, values: NDArray[np.float64], rank: int) -> NDArray[np.float64]:
        """Give every rank's `values` (own rows,) to one, number `rank` modulo how many there are."""


class Walks(Protocol):
    """Walks that take their steps together, `width` at once, each in a column: those of a :class:`Walk`, or others."""

    width: int

    def begin(self, column: int, home: int) -> None:
        """Let a walk begin at the node numbered `home`."""

    def end(self, column: int) -> None:
        """Leave a column empty."""

    def step(self) -> list[float]:
        """Let all walks take a step; returns the L1 distance that each has moved."""

    def scores(self, column: int, position: int) -> NDArray[np.float64]:
        """The scores of a walk, by place: (n,), their sum is 1 but for rounding.

        `position`: that of its source among all. Ranks share the answers by it: others than its rank get none.
        """


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
    same. `ranks`: whose threads work. With `blocks`, each rank has a block of the rows, all call this with the same
    sources, and each gets the scores of its positions alone.
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
                yield (
                    positions[column],
                    Solution(walk.scores(column, positions[column]), iterations[column], residuals[column]),
                )
                positions[column] = _EMPTY
                walk.end(column)


class Walk:
    """A block of walks, `width` at once, each in a column; the arrays are those of ``kernels.step``."""

    def __init__(
        self, graph: Graph, width: int, alpha: float, pool: ThreadPoolExecutor, blocks: RowBlocks | None = None
    ) -> None:
        self.width = width
        self._graph, self._alpha, self._pool, self._blocks = graph, alpha, pool, blocks
        self._block = block = blocks.block if blocks else Block.whole(graph)
        self._sent, self._out = (aligned(len(block.degrees), width, np.uint16) for _ in range(2))
        self._state = aligned(block.rows, 2 * width, np.float64).reshape(block.rows, 2, width)
        self._homes = np.full(width, NOWHERE, np.int64)
        self._flow = Flow(width, alpha)
        self._sums = np.zeros((len(block.cuts) - 1, 3, width))
        self._parts = [tasks(*part) for part in (blocks.parts if blocks else [(0, len(block.cuts) - 1)])]
        self._used = [False] * width
        kernels.step(width)

    def begin(self, column: int, home: int) -> None:
        """Let a walk begin at the node numbered `home`."""
        self.end(column)
        self._used[column] = True
        leaving = self._leaving(home)
        place, bits = self._block.place(home), kernels.short(1.0 / (leaving or 1.0))
        self._flow.begin(column, kernels.long(bits) * (leaving or 1.0), dangling=not leaving)
        if place != NOWHERE:
            self._sent[place, column] = bits
        if self._block.has(place):
            self._homes[column] = place
            self._state[place - self._block.own, 1, column] = self._alpha

    def end(self, column: int) -> None:
        """Leave a column empty."""
        self._homes[column] = NOWHERE
        self._flow.end(column)
        if self._used[column]:
            self._sent[:, column] = 0
            self._state[:, :, column] = 0.0
        self._used[column] = False

    def step(self) -> list[float]:
        """Let all walks take a step; returns the L1 distance that each has moved."""
        returned, lacking = self._flow.returned(), self._flow.lacking()
        if self._blocks:
            self._blocks.begin(self._out)
        for part, pieces in enumerate(self._parts):
            each(self._pool, lambda task: self._rows(task, returned, lacking), pieces)
            if self._blocks:
                self._blocks.send(part, self._out)
        self._sent, self._out = self._out, self._sent
        return self._flow.take(self._blocks.end(self._sums) if self._blocks else self._sums)

    def _leaving(self, home: int) -> float:
        """Return what a node's score is divided by where it is carried along each edge; 0 if it is dangling."""
        return int(self._graph.degrees[home])

    def _rows(self, task: tuple[int, int], returned: NDArray[np.float64], lacking: NDArray[np.float64]) -> None:
        """Compute the rows of some chunks."""
        block = self._block
        out = self._out[block.own : block.own + block.rows]
        kernels.step(self.width)(
            *(block.indptr, block.columns, block.degrees, block.cuts, *task, self._sent, self._state),
            *(self._homes, returned, lacking, 1.0 - self._alpha, out, block.own, self._sums),
        )

    def scores(self, column: int, position: int) -> NDArray[np.float64]:
        """See :meth:`Walks.scores`."""
        scores = self._flow.scores(self._state, column)
        if self._blocks:
            scores = self._blocks.gathered(scores, position)
        return scores[self._graph.numbers] if len(scores) else scores


class Flow:
    """What walks send in all, each in a column, from the sums of ``kernels.step``."""

    def __init__(self, width: int, alpha: float) -> None:
        self._alpha = alpha
        self._sent = [0.0] * width
        self._ended = self._sent
        self._dangling = [0.0] * width

    def begin(self, column: int, first: float, *, dangling: bool) -> None:
        """Let a walk begin that sends so much in its first step, from a dangling node or not."""
        self._sent[column], self._dangling[column] = first, first if dangling else 0.0

    def end(self, column: int) -> None:
        """Leave a column empty."""
        self._sent[column] = self._dangling[column] = 0.0

    def returned(self) -> NDArray[np.float64]:
        """What the next step brings to each home from dangling nodes, (width,)."""
        return (1.0 - self._alpha) * np.array(self._dangling)

    def lacking(self) -> NDArray[np.float64]:
        """What is left of 1 where all that was sent is taken off, (width,)."""
        return 1.0 - np.array(self._sent)

    def take(self, sums: NDArray[np.float64]) -> list[float]:
        """Take the sums of a step, (chunks, 3, width); gives the L1 distance that each walk has moved."""
        moved, sending, dangling = ([math.fsum(column) for column in one.T.tolist()] for one in sums.swapaxes(0, 1))
        self._ended = self._sent
        self._sent = [before + more for before, more in zip(self._sent, sending, strict=True)]
        self._dangling = dangling
        return moved

    def scores(self, state: NDArray[np.float64], column: int) -> NDArray[np.float64]:
        """The scores of a walk after a step, (rows,), from the `state` of these rows, (rows, 2, width)."""
        total = (1.0 - self._alpha) * self._ended[column] + self._alpha
        scores: NDArray[np.float64] = (state[:, 0, column] + state[:, 1, column]) / total
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
