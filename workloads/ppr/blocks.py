"""Blocks of a graph's rows, each with the numbers of only those nodes that its rows read."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from workloads.ppr.graph import Graph, no_rows
from workloads.ppr.rows import kernels, pointers

NOWHERE = -1

Bounds = Sequence[tuple[int, int]]
"""The rows [first, last) of each block, by block."""


@dataclass(frozen=True)
class Block:
    """Rows [first, last) of a graph, in the places of nodes that they need: its own rows and what leads to them.

    `nodes`: uint32 (k,), these nodes' numbers in the graph, ascending; empty with `every`: all. `degrees` uint32 (k,).
    `own`: the place among them of the first row. `indptr` int64 and `columns` uint32: as places among `nodes`.
    `cuts`: where each of its chunks begins and the last one ends, as places. `wanted`: which rows of another block it
    needs, from 0; `read`: which of its own rows another block needs.
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
    every: bool = False

    @classmethod
    def whole(cls, graph: Graph) -> Block:
        """All rows of a graph."""
        return cls(0, 0, np.zeros(0, np.uint32), graph.degrees, graph.indptr, graph.columns, graph.cuts, every=True)

    @property
    def rows(self) -> int:
        """Return how many rows it has."""
        return len(self.indptr) - 1

    def place(self, number: int) -> int:
        """Return the place of a node among those it needs; `NOWHERE` where it is none of them."""
        if self.every or number < 0:
            return number
        place = int(np.searchsorted(self.nodes, number))
        return place if place < len(self.nodes) and self.nodes[place] == number else NOWHERE

    def has(self, place: int) -> bool:
        """Whether it has the row of the node at this place."""
        return self.own <= place < self.own + self.rows


class Layout:
    """Which rows each of some parts has: of the chunks of a graph, with these `cuts`, part i every one from i on.

    So each has rows of all degrees, and sends and reads about as much as the others. Nodes get new numbers, by part.
    `bounds`: the rows of each part, by these. `order`: uint32 (n,), new number -> number;
    `renumbered`: the reverse. `cuts`: where each part's chunks begin and the last one ends, from its first row on.
    """

    def __init__(self, cuts: NDArray[np.int64], parts: int) -> None:
        self._chunks = [list(itertools.pairwise(cuts.tolist()))[part::parts] for part in range(parts)]
        self.cuts = [np.cumsum([0, *(high - low for low, high in chunks)]) for chunks in self._chunks]
        ends = np.cumsum([0, *(own[-1] for own in self.cuts)]).tolist()
        self.bounds: Bounds = list(itertools.pairwise(ends))
        every = [np.arange(low, high, dtype=np.uint32) for chunks in self._chunks for low, high in chunks]
        self.order = np.concatenate(every)
        self.renumbered = np.empty_like(self.order)
        self.renumbered[self.order] = np.arange(len(self.order), dtype=np.uint32)

    def applied(self, graph: Graph) -> Graph:
        """The graph by its new numbers, without rows."""
        indptr, columns = no_rows()
        numbers, degrees = self.renumbered[graph.numbers], graph.degrees[self.order]
        return replace(graph, numbers=numbers, degrees=degrees, indptr=indptr, columns=columns)

    def dealt(
        self, pairs: Sequence[NDArray[np.uint32]], undirected: bool
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """The edges (2 k,) by the part that has their target's row, if `undirected` both ways; and each part's length.

        `pairs`: blocks of edges (2 m,), source and target one after the other, by old numbers.
        """
        parts, counts = self._parts(), np.zeros(len(self.bounds), np.int64)
        ends = (1, 0) if undirected else (1,)
        for block, end in itertools.product(pairs, ends):
            kernels.count_parts(block, end, parts, counts)
        starts = pointers(counts)
        out, positions = np.empty(2 * starts[-1], np.uint32), starts[:-1].copy()
        for block, end in itertools.product(pairs, ends):
            kernels.deal(block, end, parts, positions, out)
        return out, 2 * counts

    def _parts(self) -> NDArray[np.uint16]:
        """Return which part has the row of each node, by its old number: (n,)."""
        parts = np.empty(len(self.order), np.uint16)
        for part, chunks in enumerate(self._chunks):
            for low, high in chunks:
                parts[low:high] = part
        return parts

    def rows(
        self, part: int, indptr: NDArray[np.int64], columns: NDArray[np.uint32]
    ) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
        """The rows of a part out of those of all nodes by their old numbers, which have at least this part's edges."""
        chunks = self._chunks[part]
        sizes = [np.diff(indptr[low : high + 1]) for low, high in chunks]
        taken = [columns[indptr[low] : indptr[high]] for low, high in chunks]
        counts = np.concatenate([np.zeros(0, np.int64), *sizes])
        return np.append(0, np.cumsum(counts)), np.concatenate([np.zeros(0, np.uint32), *taken])


def block_of(
    number: int,
    layout: Layout,
    indptr: NDArray[np.int64],
    columns: NDArray[np.uint32],
    degrees: NDArray[np.uint32],
) -> Block:
    """Block `number` of its rows, (rows + 1,) and (m,), whose columns are nodes by their old numbers, in their order.

    `degrees`: (n,), those of all nodes by their new numbers.
    """
    low, high = layout.bounds[number]
    read = np.zeros(len(degrees), bool)
    read[columns] = True
    needed = read[layout.order]
    needed[low:high] = True
    nodes = np.flatnonzero(needed).astype(np.uint32)
    place = np.cumsum(needed, dtype=np.uint32)
    place -= needed
    own = int(np.searchsorted(nodes, low))
    wanted = {}
    for other, (first, last) in enumerate(layout.bounds):
        theirs = nodes[np.searchsorted(nodes, first) : np.searchsorted(nodes, last)]
        if other != number and len(theirs):
            wanted[other] = theirs - np.uint32(first)
    by_number = place[layout.renumbered]
    return Block(number, own, nodes, degrees[nodes], indptr, by_number[columns], layout.cuts[number] + own, wanted)
