"""Power iteration (power.py) by executors of Spark, over a graph in blocks of rows (sparkblocks.py).

In a step each block gets the scores that its rows read from the blocks that have them, computes its own, and sends them
on: a join of the blocks with the scores, whose keys are the numbers of blocks. The driver gets the sums of each step,
which say how far the walks have moved and what is on dangling nodes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.common.spark import carried
from workloads.common.spark.executors import Executors, Used
from workloads.ppr import power
from workloads.ppr.dialect import How
from workloads.ppr.graph import Graph, kernels
from workloads.ppr.sparkblocks import Block, Blocks, build, kept

ANEW = 16
"""The number of steps that are joined to each other: then they begin again, from scores that the driver has gathered.

Spark does again all that led to what a lost executor had, and keeps what was sent in each step until then.
"""
_NOWHERE = -1


@dataclass(frozen=True)
class Scores:
    """The message of a block: `z` (rows, width), of those of its rows that the one that gets it reads, by their
    number.
    """

    number: int
    z: NDArray[np.float64]


@dataclass(frozen=True)
class Moved:
    """The results of a block in a step: the sums of its chunks, (chunks, 2, width), and its `z` (rows, width)."""

    number: int
    sums: NDArray[np.float64]
    z: NDArray[np.float64]
    sent: dict[int, NDArray[np.float64]]
    used: Used


@dataclass(frozen=True)
class Stride:
    """The part of a step that all blocks get.

    `changes`: columns that are emptied first, each with the number of the node where a walk begins there, or -1, and
    what is there then. `homes` and `bonus` (width,): as in kernels.step.
    """

    changes: tuple[tuple[int, int, float], ...]
    homes: NDArray[np.int64]
    bonus: NDArray[np.float64]
    damping: float


class Walk:
    """A block of walks in Spark, see :class:`power.Walks`."""

    def __init__(self, context: Any, blocks: Blocks, width: int, alpha: float, executors: Executors) -> None:
        self.width = width
        self._context, self._blocks, self._alpha, self._executors = context, blocks, alpha, executors
        self._homes = np.full(width, _NOWHERE, np.int64)
        self._dangling = [0.0] * width
        self._changes: list[tuple[int, int, float]] = []
        self._steps = 0
        self._moved: Any = None
        self._start: Any = None
        self._z: NDArray[np.float64] | None = None

    def begin(self, column: int, home: int) -> None:
        """Let a walk begin at the node numbered `home`."""
        degree = int(self._blocks.nodes.degrees[home])
        self._homes[column] = home
        self._dangling[column] = 0.0 if degree else 1.0
        self._changes.append((column, home, 1.0 / max(degree, 1)))

    def end(self, column: int) -> None:
        """Leave a column empty."""
        self._homes[column] = _NOWHERE
        self._dangling[column] = 0.0
        self._changes.append((column, _NOWHERE, 0.0))

    def step(self) -> list[float]:
        """Let all walks take a step; returns the L1 distance that each has moved."""
        damping = 1.0 - self._alpha
        bonus = np.array([damping * mass + self._alpha for mass in self._dangling])
        stride = Stride(tuple(self._changes), self._homes.copy(), bonus, damping)
        records, partitions = self._blocks.rdd, len(self._blocks.bounds)
        before, start = self._moved, None
        if before is not None and self._steps % ANEW == 0:
            start = self._anew()
        elif before is not None:
            sent = before.flatMap(_sent)
            records = records.union(sent.partitionBy(partitions) if records.partitioner else sent)
        take = functools.partial(_step, stride, self.width, start)
        moved = kept(records.partitionBy(partitions).mapPartitions(take, preservesPartitioning=True))
        said = moved.map(_told).collect()
        if before is not None:
            before.unpersist()
        self._moved, self._z, self._changes = moved, None, []
        self._steps += 1
        self._executors.look()
        self._executors.take(used for _, used in said)
        sums = np.concatenate([sums for sums, _ in said])
        self._dangling = [math.fsum(sums[:, 1, column]) for column in range(self.width)]
        return [math.fsum(sums[:, 0, column]) for column in range(self.width)]

    def scores(self, column: int) -> NDArray[np.float64]:
        """The scores of a walk, by place: (n,), their sum is 1 but for rounding."""
        graph = self._blocks.nodes
        scores = np.empty(graph.nodes)
        kernels.scores(self._gathered(), column, graph.degrees, graph.numbers, scores)
        return scores

    def _gathered(self) -> NDArray[np.float64]:
        """Return what has come out of the last step, (n, width), by number."""
        if self._z is None:
            self._z = np.zeros((self._blocks.nodes.nodes, self.width))
            for number, z in self._moved.map(_own).collect():
                low, high = self._blocks.bounds[number]
                self._z[low:high] = z
        return self._z

    def _anew(self) -> Any:
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


def _prepare(width: int, _: int) -> None:
    """Load what a step needs, before a timer runs."""
    kernels.step(width)


def _step(stride: Stride, width: int, start: Any, records: Iterable[tuple[int, Any]]) -> Iterator[Moved]:
    """Let the block of a partition take a step from what was sent to it: nothing means that nothing is anywhere."""
    blocks: dict[int, Block] = {}
    came: dict[int, dict[int, NDArray[np.float64]]] = {}
    for number, one in records:
        if isinstance(one, Block):
            blocks[number] = one
        else:
            came.setdefault(number, {})[one.number] = one.z
    for number, block in blocks.items():
        if start is not None:
            z = start.value[block.nodes]
        elif number in came:
            z = np.concatenate([part for _, part in sorted(came[number].items())])
        else:
            z = np.zeros((len(block.nodes), width))
        yield moved(block, z, stride)


def moved(block: Block, z: NDArray[np.float64], stride: Stride) -> Moved:
    """A step of a block from `z` (nodes, width), which it changes."""
    width = z.shape[1]
    for column, home, there in stride.changes:
        z[:, column] = 0.0
        place = _place(block, home)
        if place != _NOWHERE:
            z[place, column] = there
    homes = np.array([_place(block, home) for home in stride.homes.tolist()], np.int64)
    homes[(homes < block.own) | (homes >= block.own + block.rows)] = _NOWHERE
    chunks = len(block.cuts) - 1
    out, sums = np.zeros((block.rows, width)), np.zeros((chunks, 2, width))
    kernels.step(width)(
        *(block.indptr, block.columns, block.degrees, block.cuts, 0, chunks),
        *(z, homes, stride.bonus, stride.damping, out, block.own, sums),
    )
    sent = {other: out[rows] for other, rows in block.read.items()}
    return Moved(block.number, sums, out, sent, Used.here())


def _place(block: Block, number: int) -> int:
    """The place of a node among those of a block; -1 where it has it not."""
    place = int(np.searchsorted(block.nodes, number)) if number >= 0 else len(block.nodes)
    return place if place < len(block.nodes) and block.nodes[place] == number else _NOWHERE


def _sent(done: Moved) -> Iterator[tuple[int, Scores]]:
    """Yield what goes to each block, to itself too."""
    yield done.number, Scores(done.number, done.z)
    for other, z in done.sent.items():
        yield other, Scores(done.number, z)


def _told(done: Moved) -> tuple[NDArray[np.float64], Used]:
    return done.sums, done.used


def _own(done: Moved) -> tuple[int, NDArray[np.float64]]:
    return done.number, done.z
