"""Power iteration (power.py) by executors of Spark, over a graph in blocks of rows (sparkblocks.py).

In a step each block gets the scores that its rows read from the blocks that have them, computes its own, and sends them
on: a join of the blocks with the scores, whose keys are the numbers of blocks. The driver gets the sums of each step,
which say how far the walks have moved and what is on dangling nodes.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.common import events
from workloads.common.spark import carried
from workloads.common.spark.executors import Executors, Used
from workloads.ppr import power
from workloads.ppr.blocks import NOWHERE, Block
from workloads.ppr.dialect import How
from workloads.ppr.graph import Graph, kernels
from workloads.ppr.sparkblocks import Blocks, build, kept

RESTART_STEPS = 16
"""The number of steps that are joined to each other: then they begin again, from scores that the driver has gathered.

Spark does again all that led to what a lost executor had, and keeps what was sent in each step until then.
"""

Whole = tuple[NDArray[np.uint16], NDArray[np.float64]]


@dataclass(frozen=True)
class Sent:
    """The message of a block: `rows` (rows, width), what leaves those of its rows that the one that gets it reads.

    `state`, to the block itself: that of all its rows, as ``kernels.step`` has it.
    """

    number: int
    rows: NDArray[np.uint16]
    state: NDArray[np.float64] | None = None


@dataclass(frozen=True)
class Moved:
    """The results of a block in a step, see ``kernels.step``: `sums`, `out` and `state`.

    `sent`: the rows of `out` that other blocks read.
    """

    number: int
    sums: NDArray[np.float64]
    out: NDArray[np.uint16]
    state: NDArray[np.float64]
    sent: dict[int, NDArray[np.uint16]]
    used: Used


@dataclass(frozen=True)
class Stride:
    """The part of a step that all blocks get.

    `changes`: columns that are emptied first, each with the number of the node where a walk begins there, or -1, and
    what leaves it then. `homes`, `returned` and `lacking` (width,): as in ``kernels.step``.
    """

    changes: tuple[tuple[int, int, int], ...]
    homes: NDArray[np.int64]
    returned: NDArray[np.float64]
    lacking: NDArray[np.float64]
    alpha: float


class Walk:
    """A block of walks in Spark, see :class:`power.Walks`; `sent_bytes`: what blocks have sent to others in `steps`."""

    def __init__(self, context: Any, blocks: Blocks, width: int, alpha: float, executors: Executors) -> None:
        self.width = width
        self._context, self._blocks, self._alpha, self._executors = context, blocks, alpha, executors
        self._homes = np.full(width, NOWHERE, np.int64)
        self._flow = power.Flow(width, alpha)
        self._changes: list[tuple[int, int, int]] = []
        self.steps = self.sent_bytes = 0
        self._moved: Any = None
        self._start: Any = None
        self._have: Whole | None = None

    def begin(self, column: int, home: int) -> None:
        """Let a walk begin at the node numbered `home`."""
        degree = int(self._blocks.nodes.degrees[home])
        bits = kernels.short(1.0 / max(degree, 1))
        self._homes[column] = home
        self._flow.begin(column, kernels.long(bits) * max(degree, 1), dangling=not degree)
        self._changes.append((column, home, bits))

    def end(self, column: int) -> None:
        """Leave a column empty."""
        self._homes[column] = NOWHERE
        self._flow.end(column)
        self._changes.append((column, NOWHERE, 0))

    def step(self) -> list[float]:
        """Let all walks take a step; returns the L1 distance that each has moved."""
        flow = self._flow
        stride = Stride(tuple(self._changes), self._homes.copy(), flow.returned(), flow.lacking(), self._alpha)
        records, partitions = self._blocks.rdd, len(self._blocks.bounds)
        before, start = self._moved, None
        if before is not None and self.steps % RESTART_STEPS == 0:
            start = self._restart()
        elif before is not None:
            sent = before.flatMap(_sent)
            records = records.union(sent.partitionBy(partitions) if records.partitioner else sent)
        take = functools.partial(_step, stride, self.width, start)
        moved = kept(records.partitionBy(partitions).mapPartitions(take, preservesPartitioning=True))
        said = moved.map(_told).collect()
        if before is not None:
            before.unpersist()
        self._moved, self._have, self._changes = moved, None, []
        self._executors.look()
        self._executors.take(used for _, used, _ in said)
        self.sent_bytes += sum(sent for _, _, sent in said)
        self.steps += 1
        return flow.take(np.concatenate([sums for sums, _, _ in said]))

    def scores(self, column: int, _position: int) -> NDArray[np.float64]:
        """See :meth:`power.Walks.scores`; the driver has all."""
        by_number = self._flow.scores(self._gathered()[1], column)
        return by_number[self._blocks.nodes.numbers]

    def _gathered(self) -> Whole:
        """Return what has come out of the last step, by number: what leaves each node, and the state of its row."""
        if self._have is None:
            nodes, width = self._blocks.nodes.nodes, self.width
            out, state = np.zeros((nodes, width), np.uint16), np.zeros((nodes, 2, width))
            for number, own in self._moved.map(_own).collect():
                rows = slice(*self._blocks.bounds[number])
                out[rows], state[rows] = own
            self._have = out, state
        return self._have

    def _restart(self) -> Any:
        """Let the next step begin from what the driver has, so that Spark can forget all before."""
        start = carried.to_all(self._context, self._gathered())
        if self._start is not None:
            self._start.unpersist()
        self._start = start
        self._context._jvm.System.gc()  # Spark deletes what was sent once nothing in the driver's Java leads to it
        return start


class Engine:
    """Solves sources over a graph in Spark; made before the timers of loading and computing run."""

    def __init__(self, context: Any, partitions: int, sources: int, *, co_partitioned: bool) -> None:
        self._context, self._partitions, self._co_partitioned = context, partitions, co_partitioned
        self._width = power.width_for(sources)
        context.parallelize(range(partitions), partitions).foreach(functools.partial(_prepare, self._width))
        self._executors = Executors(context)

    def load(self, path: str, undirected: bool, how: How) -> Graph:
        """Have executors read a graph, and keep it; gives it without its rows. Raises :class:`events.BadInput`."""
        self._blocks = build(
            self._context, path, undirected, self._partitions, co_partitioned=self._co_partitioned, how=how
        )
        self._executors.look()
        return self._blocks.nodes

    def solve(
        self,
        graph: Graph,
        sources: NDArray[np.int64],
        alpha: float,
        tolerance: float,
        max_iterations: int,
        watch: power.Watch = power.quiet,
        **_: Any,
    ) -> Iterator[tuple[int, power.Solution]]:
        """As :func:`power.solve`, of the graph that was loaded; tells at the end what executors have used."""
        walk = Walk(self._context, self._blocks, power.width_for(len(sources)), alpha, self._executors)
        yield from power.walked(walk, graph.numbers[sources].tolist(), tolerance, max_iterations, watch)
        self._executors.tell()
        events.exchanged(walk.sent_bytes, walk.steps)


def _prepare(width: int, _: int) -> None:
    """Load what a step needs, before a timer runs."""
    kernels.step(width)


def _step(stride: Stride, width: int, start: Any, records: Iterable[tuple[int, Any]]) -> Iterator[Moved]:
    """Let the block of a partition take a step from what was sent to it: nothing means that nothing is anywhere."""
    blocks: dict[int, Block] = {}
    came: dict[int, dict[int, Sent]] = {}
    for number, one in records:
        if isinstance(one, Block):
            blocks[number] = one
        else:
            came.setdefault(number, {})[one.number] = one
    for number, block in blocks.items():
        if start is not None:
            out, state = start.value
            first = int(block.nodes[block.own]) if block.rows else 0
            yield moved(block, out[block.nodes], state[first : first + block.rows].copy(), stride)
        elif number in came:
            there = came[number]
            state = there[number].state
            assert state is not None
            yield moved(block, np.concatenate([part.rows for _, part in sorted(there.items())]), state.copy(), stride)
        else:
            rows = np.zeros((len(block.nodes), width), np.uint16)
            yield moved(block, rows, np.zeros((block.rows, 2, width)), stride)


def moved(block: Block, rows: NDArray[np.uint16], state: NDArray[np.float64], stride: Stride) -> Moved:
    """A step of a block, from what leaves its nodes, `rows` (nodes, width), and `state`; it changes both."""
    width = rows.shape[1]
    for column, home, bits in stride.changes:
        rows[:, column] = 0
        state[:, :, column] = 0.0
        place = block.place(home)
        if place != NOWHERE:
            rows[place, column] = bits
        if block.has(place):
            state[place - block.own, 1, column] = stride.alpha
    places = [block.place(home) for home in stride.homes.tolist()]
    homes = np.array([place if block.has(place) else NOWHERE for place in places], np.int64)
    chunks = len(block.cuts) - 1
    out, sums = np.zeros((block.rows, width), np.uint16), np.zeros((chunks, 3, width))
    kernels.step(width)(
        *(block.indptr, block.columns, block.degrees, block.cuts, 0, chunks, rows, state),
        *(homes, stride.returned, stride.lacking, 1.0 - stride.alpha, out, block.own, sums),
    )
    sent = {other: out[there] for other, there in block.read.items()}
    return Moved(block.number, sums, out, state, sent, Used.here())


def _sent(done: Moved) -> Iterator[tuple[int, Sent]]:
    """Yield what goes to each block, to itself too."""
    yield done.number, Sent(done.number, done.out, done.state)
    for other, rows in done.sent.items():
        yield other, Sent(done.number, rows)


def _told(done: Moved) -> tuple[NDArray[np.float64], Used, int]:
    return done.sums, done.used, sum(rows.nbytes for rows in done.sent.values())


def _own(done: Moved) -> tuple[int, Whole]:
    return done.number, (done.out, done.state)
