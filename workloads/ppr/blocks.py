"""Blocks of a graph's rows, each with the numbers of only those nodes that its rows read."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from workloads.ppr.graph import Graph

NOWHERE = -1

Bounds = Sequence[tuple[int, int]]
"""The rows [first, last) of each block, by block."""


@dataclass(frozen=True)
class Block:
    """Rows [first, last) of a graph, in the numbers of nodes that they need: its own rows and what leads to them.

    `nodes`: uint32 (k,), these nodes' numbers in the graph, ascending; empty: all. `degrees` uint32 (k,). `own`: the
    place among them of the first row. `indptr` int64 and `columns` uint32: the rows, as places among `nodes`. `cuts`:
    where each of its chunks begins and the last one ends, as places. `wanted`: which rows of another block it needs,
    from 0; `read`: which of its own rows another block needs.
    """

    number: int
    own: int
    nodes: NDArray[np.uint32]
    degrees: NDArray[np.uint32]
    indptr: NDArray[np.int64]
    columns: NDArray[np.uint32]
    cuts: NDArray[np.int64]
    wanted: dict[int, NDArray[np.uint32]] = field(default_factory=dict)
    read: dict[int, NDArray[np.uint32]] = field(default_factory=dict)

    @classmethod
    def whole(cls, graph: Graph) -> Block:
        """All rows of a graph."""
        return cls(0, 0, np.zeros(0, np.uint32), graph.degrees, graph.indptr, graph.columns, graph.cuts)

    @property
    def rows(self) -> int:
        """Return how many rows it has."""
        return len(self.indptr) - 1

    def place(self, number: int) -> int:
        """Return the place of a node among those it needs; `NOWHERE` where it is none of them."""
        if not len(self.nodes) or number < 0:
            return number
        place = int(np.searchsorted(self.nodes, number))
        return place if place < len(self.nodes) and self.nodes[place] == number else NOWHERE

    def has(self, place: int) -> bool:
        """Whether it has the row of the node at this place."""
        return self.own <= place < self.own + self.rows


def block_of(
    number: int,
    cuts: NDArray[np.int64],
    parts: int,
    indptr: NDArray[np.int64],
    columns: NDArray[np.uint32],
    degrees: NDArray[np.uint32],
) -> Block:
    """Block `number` of so many, of its rows, (rows + 1,) and (m,), whose columns are numbers of the graph's nodes.

    `cuts` are the graph's, `degrees` (n,) those of all nodes.
    """
    chunks, bounds = shares(len(cuts) - 1, parts), bounds_of(cuts, parts)
    low, high = bounds[number]
    needed = np.zeros(len(degrees), bool)
    needed[columns] = True
    needed[low:high] = True
    nodes = np.flatnonzero(needed).astype(np.uint32)
    place = np.cumsum(needed, dtype=np.uint32)
    place -= needed
    own = int(np.searchsorted(nodes, low))
    wanted = {}
    for other, (first, last) in enumerate(bounds):
        theirs = nodes[np.searchsorted(nodes, first) : np.searchsorted(nodes, last)]
        if other != number and len(theirs):
            wanted[other] = theirs - np.uint32(first)
    own_cuts = cuts[chunks[number] : chunks[number + 1] + 1] - low + own
    return Block(number, own, nodes, degrees[nodes], indptr - indptr[0], place[columns], own_cuts, wanted)


def shares(chunks: int, parts: int) -> list[int]:
    """Return where the chunks of each block begin, and those of the last one end."""
    return [chunks * part // parts for part in range(parts + 1)]


def bounds_of(cuts: NDArray[np.int64], parts: int) -> Bounds:
    """The rows of each block, of a graph with these `cuts`."""
    return list(itertools.pairwise(int(cuts[chunk]) for chunk in shares(len(cuts) - 1, parts)))
