"""Personalised PageRank by pushing: local, approximate, with a bound of its error.

p is the answer so far and r what has not been walked yet, at first all of it at the source. To push a node is to give
the share `alpha` of its r to its p and the rest to the nodes that it leads to (a dangling node: back to the source).
Each push keeps PPR = p + sum over u of r(u) PPR(u), so that p is never above the answer anywhere and the L1 error is
the sum of r, exactly. Nodes with r(u) above epsilon times their out-degree are pushed, with a smaller epsilon from
round to round, until that sum is at most the tolerance. Far from the source nothing is touched.
(R. Andersen, F. Chung, K. Lang, "Local graph partitioning using PageRank vectors", 2006.)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.ppr import power
from workloads.ppr.graph import Graph, kernels

_FIRST_EPSILON = 1e-4
_SMALLER = 4.0


def prepare(_sources: int) -> None:
    """Compile, or load, what :func:`solve` needs, before a timer runs."""
    kernels.pushing()


def solve(
    graph: Graph,
    sources: NDArray[np.int64],
    alpha: float,
    tolerance: float,
    max_iterations: int,
    watch: power.Watch = power.quiet,
    **_: Any,
) -> Iterator[tuple[int, power.Solution]]:
    """As :func:`power.solve`. `residual` is the L1 error, at most `tolerance` unless `max_iterations` rounds end it.

    `scores` are nowhere above the exact answer, so that their sum is 1 - `residual` but for rounding.
    """
    push = kernels.pushing()
    indptr, columns = graph.forward_indptr, graph.forward_columns
    if not len(indptr):
        indptr, columns = graph.indptr, graph.columns
    p, r = np.zeros(graph.nodes), np.zeros(graph.nodes)
    queue, touched = np.empty(graph.nodes, np.int64), np.empty(graph.nodes, np.int64)
    state = np.zeros(graph.nodes, np.uint8)
    for position, home in enumerate(graph.numbers[sources].tolist()):
        r[home] = 1.0
        touched[0], state[home] = home, kernels.TOUCHED
        count, epsilon, left, rounds = 1, _FIRST_EPSILON, 1.0, 0
        while left > tolerance and rounds < max_iterations:
            count, left = push(indptr, columns, graph.degrees, home, alpha, epsilon, p, r, queue, touched, count, state)
            epsilon /= _SMALLER
            rounds += 1
            watch(position, left)
        yield position, power.Solution(p[graph.numbers], rounds, left)
        used = touched[:count]
        p[used], r[used], state[used] = 0.0, 0.0, 0
    watch(len(sources), 0.0)
