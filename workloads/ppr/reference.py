"""The library torch-ppr as the reference: symmetrised, on compact ids, in float64.

In its own float32 its column check rejects valid graphs of some million edges and its sums drift.
Its `epsilon` bounds the largest change of any node's score; one source goes through at a time, since it iterates a
whole batch until all of it has converged, so that an answer would depend on its batch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch_ppr import personalized_page_rank
from torch_ppr.utils import prepare_page_rank_adjacency

from workloads.ppr import power
from workloads.ppr.graph import Graph


def prepare(_sources: int) -> None:
    """Return at once: the library has no machine code."""


def adjacency(graph: Graph) -> torch.Tensor:
    """The library's matrix of an undirected graph, sparse (n, n), by number: of all steps, symmetrised once more."""
    targets = np.repeat(np.arange(graph.nodes), np.diff(graph.indptr))
    steps = torch.from_numpy(np.stack((graph.columns.astype(np.int64), targets)))
    matrix: torch.Tensor = prepare_page_rank_adjacency(edge_index=steps, num_nodes=graph.nodes).coalesce()
    return matrix


def solve(
    graph: Graph,
    sources: NDArray[np.int64],
    alpha: float,
    tolerance: float,
    max_iterations: int,
    watch: power.Watch = power.quiet,
    **_: Any,
) -> Iterator[tuple[int, power.Solution]]:
    """As :func:`power.solve`. `residual` is how far Regatta's step moves its answer; it reports no iterations."""
    with _in_float64():
        matrix = adjacency(graph)
    for position, home in enumerate(graph.numbers[sources].tolist()):
        with _in_float64():
            by_number = personalized_page_rank(
                adj=matrix,
                indices=torch.tensor([home]),
                alpha=alpha,
                epsilon=tolerance,
                max_iter=max_iterations,
                device="cpu",
            )
        scores = by_number.numpy().reshape(-1)
        residual = moved(graph, home, scores, alpha)
        yield position, power.Solution(scores[graph.numbers], None, residual)
        watch(position + 1, residual)


def moved(graph: Graph, home: int, scores: NDArray[np.float64], alpha: float) -> float:
    """The L1 distance by which a step of Regatta's walk from `home` moves scores by number, (n,)."""
    targets = np.repeat(np.arange(graph.nodes), np.diff(graph.indptr))
    carried = scores / np.maximum(graph.degrees, 1)
    stepped = (1.0 - alpha) * np.bincount(targets, carried[graph.columns], graph.nodes)
    stepped[home] += (1.0 - alpha) * scores[graph.degrees == 0].sum() + alpha
    return float(np.abs(stepped - scores).sum())


@contextlib.contextmanager
def _in_float64() -> Iterator[None]:
    """Let torch make float64 of plain numbers within it; the library has no argument for that."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
