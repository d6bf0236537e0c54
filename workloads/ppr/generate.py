"""``python -m workloads.ppr.generate --size EDGES > graph.txt``: a synthetic graph as a SNAP edge list.

Edges lead from any node to nodes of which a few are named very often (node i with a density of i ** -0.5), as in graphs
of links and citations; five edges a node on the average, double edges and self-loops among them.
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from workloads.common import generate

EDGES_PER_NODE = 5
BLOCK_EDGES = 1 << 17


def block(nodes: int, numbers: np.random.Generator, first: int, count: int) -> bytes:
    """`count` lines `source<tab>target` of ids below `nodes`; the number of the `first` edge changes nothing."""
    sources = numbers.integers(0, nodes, count)
    targets = (nodes * numbers.random(count) ** 2).astype(np.int64)
    return lines(sources, targets, len(str(nodes - 1)))


def lines(sources: NDArray[np.int64], targets: NDArray[np.int64], width: int) -> bytes:
    """Two columns int64 (m,) of numbers >= 0 of at most `width` digits as m lines of text, without leading zeros."""
    text = np.empty((len(sources), 2 * width + 2), np.uint8)
    shown = np.ones(text.shape, bool)
    for column, values in ((0, sources), (width + 1, targets)):
        rest = values.copy()
        for place in range(width - 1, -1, -1):
            if place < width - 1:
                shown[:, column + place] = rest > 0
            rest, digit = np.divmod(rest, 10)
            text[:, column + place] = digit + ord("0")
        text[:, column + width] = ord("\t") if column == 0 else ord("\n")
    return text[shown].tobytes()


def main() -> None:
    """Run with the arguments of the process."""
    given = generate.parser("workloads.ppr.generate", "A synthetic graph as an edge list.", "edges").parse_args()
    nodes = max(2, given.size // EDGES_PER_NODE)
    head = f"# made up: {nodes} nodes, {given.size} edges, seed {given.seed}\n".encode()
    generate.write(functools.partial(block, nodes), given, BLOCK_EDGES, head)


if __name__ == "__main__":
    main()
