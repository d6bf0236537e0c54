"""The library torch-ppr as the reference: symmetrised, on compact ids, in float64.

In its own float32 its column check rejects valid graphs of some million edges and its sums drift (docs/workloads.md).
Its `epsilon` bounds the largest change of any node's score; one source goes through at a time, since it iterates a
whole batch until all of it has converged, so that an answer would depend on its batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch_ppr import personalized_page_rank
from torch_ppr.utils import prepare_page_rank_adjacency

from workloads.ppr import power
from workloads.ppr.graph import Graph


def solve(
    graph: Graph,
    sources: NDArray[np.int64],
    alpha: float,
    tolerance: float,
    max_iterations: int,
    watch: Callable[[int, float], None] = lambda done, residual: None,
) -> Iterator[tuple[int, power.Solution]]:
    """As :func:`power.solve`. `residual` is how far a step of ours moves its answer; iterations it does not tell."""
    torch.set_default_dtype(torch.float64)
    steps = torch.tensor(graph.steps)
    adjacency = prepare_page_rank_adjacency(edge_index=steps, num_nodes=graph.nodes).coalesce()
    matrix = power.transition_matrix(graph)
    for position, source in enumerate(sources):
        scores = personalized_page_rank(
            adj=adjacency,
            indices=torch.tensor([int(source)]),
            alpha=alpha,
            epsilon=tolerance,
            max_iter=max_iterations,
            device="cpu",
        )
        column = np.ascontiguousarray(scores.numpy().reshape(-1, 1))
        moved = power.step(matrix, column, sources[position : position + 1], alpha)
        residual = float(power.distances(moved, column)[0])
        yield position, power.Solution(column[:, 0], None, residual)
        watch(position + 1, residual)
