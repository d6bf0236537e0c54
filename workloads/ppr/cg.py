"""Personalised PageRank of an undirected graph by conjugate gradients, several sources at a time.

Power iteration computes, for z = x / degree (what a node's score is for each of its edges), the solution of

    M z = alpha e_s,    M = D - (1 - alpha) A,

D the degrees and A the adjacency matrix: symmetric and positive definite where every edge goes both ways. Conjugate
gradients with D as the preconditioner need far fewer passes over the edges than the walk does: the factor by which the
error shrinks in each depends on the square root of alpha. The residual r = alpha e_s - M z is what the next step of the
walk would move, so that the stopping rule, its L1 norm at most `tolerance`, and the bound of the error that follows
from it are those of power.py. With u = D^-1 r, from p = u on:

    w = M p,  far = (r, u) / (p, w),  z <- z + far p,  r <- r - far w,  p <- u + (r, u) / (r, u before) p.

p is kept in float32, which halves what is read at random, and that is what takes the time. w is M times the rounded p,
so that r stays the residual of z to the precision of float64: rounding turns directions a little, nothing else.
(M. Hestenes, E. Stiefel, "Methods of conjugate gradients for solving linear systems", 1952.)
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.common import compiled, threads
from workloads.common.ranks import Ranks
from workloads.ppr import power
from workloads.ppr.graph import Graph, kernels

_NOTHING = 1e-25
"""A residual that says no more about scores in float64, and from which p comes near the least of float32."""

cgkernels = compiled.load("workloads.ppr.cgkernels", built_on=("workloads.ppr.kernels",))


def prepare(sources: int) -> None:
    """Compile, or load, what :func:`solve` needs for so many sources, before a timer runs."""
    width = power.width_for(sources)
    for kernel in (cgkernels.multiply, cgkernels.advance, cgkernels.turn):
        kernel(width)


def solve(
    graph: Graph,
    sources: NDArray[np.int64],
    alpha: float,
    tolerance: float,
    max_iterations: int,
    watch: power.Watch = power.quiet,
    ranks: Ranks | None = None,
    **_: Any,
) -> Iterator[tuple[int, power.Solution]]:
    """As :func:`power.solve`, of an undirected graph. `iterations`: passes over the edges; `residual`: L1 norm of r.

    `residual` may be above `tolerance` where `max_iterations` ended it. Scores below 0, which are errors within the
    tolerance, become 0, and all are scaled so that they sum to 1.
    """
    with threads.pool(ranks) as pool:
        block = Block(graph, power.width_for(len(sources)), alpha, pool)
        waiting = deque(enumerate(graph.numbers[sources].tolist()))
        inside: dict[int, int] = {}
        iterations = [0] * block.width
        done = 0
        while waiting or inside:
            for column in range(block.width):
                if column not in inside and waiting:
                    inside[column], home = waiting.popleft()
                    iterations[column] = 0
                    block.begin(column, home)
            for column in sorted(inside):
                residual = block.residuals[column]
                if residual <= tolerance or iterations[column] == max_iterations:
                    done += 1
                    yield inside.pop(column), power.Solution(block.scores(column), iterations[column], residual)
            if inside:
                block.step()
                for column in inside:
                    iterations[column] += 1
                watch(done, max(block.residuals[column] for column in inside))


class Block:
    """`width` systems at once, each in a column; `residuals` are the L1 norms of what each still lacks."""

    def __init__(self, graph: Graph, width: int, alpha: float, pool: ThreadPoolExecutor) -> None:
        self.width = width
        self.residuals = [0.0] * width
        self._graph, self._alpha, self._pool = graph, alpha, pool
        self._p = power.aligned(graph.nodes, width, np.float32)
        self._w, self._z, self._r = (power.aligned(graph.nodes, width, np.float64) for _ in range(3))
        chunks = len(graph.cuts) - 1
        self._products, self._sums = np.zeros((chunks, width)), np.zeros((chunks, 2, width))
        self._tasks = power.tasks(0, chunks)
        self._length = [0.0] * width
        self._used = [False] * width
        self._multiply, self._advance, self._turn = (
            made(width) for made in (cgkernels.multiply, cgkernels.advance, cgkernels.turn)
        )

    def begin(self, column: int, home: int) -> None:
        """Let a column begin where the walk does, with all at the node numbered `home`."""
        graph = self._graph
        if self._used[column]:
            for array in (self._p, self._z, self._r):
                array[:, column] = 0.0
        self._used[column] = True
        degree = max(int(graph.degrees[home]), 1)
        neighbours, edges = np.unique(graph.columns[graph.indptr[home] : graph.indptr[home + 1]], return_counts=True)
        near = np.union1d(neighbours, [home]).astype(np.int64)
        left = np.zeros(len(near))
        left[np.searchsorted(near, neighbours)] = (1.0 - self._alpha) * edges / degree
        left[np.searchsorted(near, home)] += self._alpha - 1.0 if graph.degrees[home] else 0.0
        self._z[home, column] = 1.0 / degree
        self._r[near, column] = left
        self._p[near, column] = u = left / np.maximum(graph.degrees[near], 1)
        self._length[column] = math.fsum(left * u)
        self.residuals[column] = math.fsum(np.abs(left))

    def step(self) -> None:
        """Take a step in every column; one whose residual is far below what z can tell stays where it is."""
        graph, chunks = self._graph, (self._graph.degrees, self._graph.cuts)
        matrix = (graph.indptr, graph.columns, *chunks)
        damping = 1.0 - self._alpha
        self._each(lambda task: self._multiply(*matrix, *task, damping, self._p, self._w, self._products))
        products = [math.fsum(self._products[:, column]) for column in range(self.width)]
        far = np.array([_ratio(*pair) for pair in zip(self._length, products, strict=True)])
        far[np.array(self.residuals) < _NOTHING] = 0.0
        self._each(lambda task: self._advance(*chunks, *task, far, self._p, self._w, self._z, self._r, self._sums))
        lengths = [math.fsum(self._sums[:, 0, column]) for column in range(self.width)]
        keep = np.array([_ratio(*pair) for pair in zip(lengths, self._length, strict=True)])
        self._each(lambda task: self._turn(*chunks, *task, keep, self._r, self._p))
        self._length = lengths
        self.residuals = [math.fsum(self._sums[:, 1, column]) for column in range(self.width)]

    def scores(self, column: int) -> NDArray[np.float64]:
        """The scores of a column, by place, (n,): none below 0, their sum is 1 but for rounding."""
        graph = self._graph
        scores = np.empty(graph.nodes)
        kernels.scores(self._z, column, graph.degrees, graph.numbers, scores)
        np.maximum(scores, 0.0, out=scores)
        scores /= scores.sum()
        return scores

    def _each(self, work: Callable[[tuple[int, int]], None]) -> None:
        power.each(self._pool, work, self._tasks)


def _ratio(a: float, b: float) -> float:
    return a / b if b > 0.0 else 0.0
