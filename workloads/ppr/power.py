"""Personalised PageRank by power iteration over CSR, several sources at a time.

The walk starts at a source s. At every step it returns to s with probability `alpha` (the teleport probability; the
damping factor of other texts is 1 - alpha), and else follows an edge out of where it is, or, where there is none (a
dangling node), returns to s as well. With P the transition matrix and d the mass on dangling nodes,

    x <- (1 - alpha) (P x + d e_s) + alpha e_s,    x = e_s at first.

It ends at the first step that moves an L1 distance of at most `tolerance`; since each step is a contraction by
1 - alpha in that norm, what is left to the exact answer is at most (1 - alpha) / alpha times as much.
(L. Page et al., "The PageRank citation ranking", 1999; G. Jeh and J. Widom, "Scaling personalized web search", 2003.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from workloads.ppr.graph import Graph

BLOCK_SOURCES = 8


@dataclass(frozen=True)
class Solution:
    """`scores`: float64 (n,), a distribution; `residual`: L1 distance that the last of `iterations` steps moved."""

    scores: NDArray[np.float64]
    iterations: int | None
    residual: float


def transition_matrix(graph: Graph) -> csr_matrix:
    """The graph's (n + 1, n) matrix over its own arrays, without a copy."""
    return csr_matrix((graph.weights, graph.indices, graph.indptr), shape=(graph.nodes + 1, graph.nodes), copy=False)


def solve(
    graph: Graph,
    sources: NDArray[np.int64],
    alpha: float,
    tolerance: float,
    max_iterations: int,
    watch: Callable[[int, float], None] = lambda done, residual: None,
) -> Iterator[tuple[int, Solution]]:
    """Yield (position in `sources`, solution) of each source (node numbers, (k,)), in the order in which they end.

    Sources go through in blocks, and each leaves its block when it has converged: its answer is the same to the bit
    whatever it is solved with. `watch` gets the number of sources done and the largest residual, every iteration.
    """
    matrix = transition_matrix(graph)
    done = 0
    for start in range(0, len(sources), BLOCK_SOURCES):
        positions = np.arange(start, min(start + BLOCK_SOURCES, len(sources)))
        homes = sources[positions]
        scores = np.zeros((graph.nodes, len(homes)))
        scores[homes, np.arange(len(homes))] = 1.0
        for iteration in range(1, max_iterations + 1):
            moved = step(matrix, scores, homes, alpha)
            residuals = distances(moved, scores)
            scores = moved
            ended = residuals <= tolerance if iteration < max_iterations else np.ones(len(homes), bool)
            watch(done, float(residuals.max()))
            if not ended.any():
                continue
            for column in np.flatnonzero(ended):
                done += 1
                yield (
                    int(positions[column]),
                    Solution(np.ascontiguousarray(scores[:, column]), iteration, float(residuals[column])),
                )
            if ended.all():
                break
            positions, homes, scores = positions[~ended], homes[~ended], np.ascontiguousarray(scores[:, ~ended])


def step(
    matrix: csr_matrix, scores: NDArray[np.float64], homes: NDArray[np.int64], alpha: float
) -> NDArray[np.float64]:
    """One step of the walks with distributions `scores` (n, k) and sources `homes` (k,)."""
    reached: NDArray[np.float64] = matrix @ scores
    moved, dangling = reached[:-1], reached[-1]
    moved *= 1.0 - alpha
    moved[homes, np.arange(len(homes))] += (1.0 - alpha) * dangling + alpha
    return moved


def distances(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """L1 distance of each column of (n, k) matrices; a column's own values alone decide its result's last bit."""
    differences = np.empty((a.shape[1], a.shape[0]))
    np.subtract(a.T, b.T, out=differences)
    np.abs(differences, out=differences)
    return np.array([column.sum() for column in differences])
