"""Walks that follow an edge the more often the more it weighs: a step's probability is weight / strength.

The strength of a node is the sum of the weights that leave it. A node of strength 0 is dangling, as in networkx.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.common import compiled, threads
from workloads.common.ranks import Ranks
from workloads.ppr import power
from workloads.ppr.graph import Graph

kernels = compiled.load("workloads.ppr.weightkernels", built_on=("workloads.ppr.kernels",))


def prepare(sources: int) -> None:
    """All that :func:`solve` needs is compiled when this module is loaded, whatever the number of sources."""


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
    """As :func:`power.solve`, of a graph with weights."""
    with threads.pool(ranks) as pool:
        walk = Walk(graph, power.width_for(len(sources)), alpha, pool)
        yield from power.walked(walk, graph.numbers[sources].tolist(), tolerance, max_iterations, watch)


class Walk(power.Walk):
    """A block of walks, `width` at once, each in a column, over a graph with weights that is held whole."""

    def _leaving(self, home: int) -> float:
        return float(self._graph.strengths[home])

    def _rows(self, task: tuple[int, int], returned: NDArray[np.float64], lacking: NDArray[np.float64]) -> None:
        graph = self._graph
        kernels.step(
            *(graph.indptr, graph.columns, graph.weights, graph.strengths, graph.cuts, *task, self._sent, self._state),
            *(self._homes, returned, lacking, 1.0 - self._alpha, self._out, self._sums),
        )
