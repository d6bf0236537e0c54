"""``python -m workloads.ppr.rmat --nodes N --edges M FOLDER``: a synthetic graph in prepared form, of any size.

R-MAT: each edge falls into one of the four quarters of the matrix by chance, then into a quarter of that, down to a
cell (D. Chakrabarti, Y. Zhan, C. Faloutsos, "R-MAT: a recursive model for graph mining", 2004), with the quarters of
Graph500: 0.57, 0.19, 0.19, 0.05. Cells beyond N are drawn again. Edges are made again for each pass over them, since
they would take more memory than the graph: about 8 bytes an edge at the peak.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import overload

import numpy as np
from numpy.typing import NDArray

from workloads.common import arguments, threads
from workloads.ppr import graph, rows
from workloads.ppr.graph import Graph, kernels

BLOCK_EDGES = 1 << 22


class Edges(Sequence[NDArray[np.uint32]]):
    """Blocks of edges (2 m,), made when they are asked for; once `numbers` (nodes,) is set, by number instead of by id.

    `nodes`: ids are less than that; `edges`: of all blocks; `blocks`: which of them these are, by default all.
    """

    def __init__(self, nodes: int, edges: int, seed: int, blocks: range | None = None) -> None:
        self._given = (nodes, edges, seed)
        self._blocks = range(-(-edges // BLOCK_EDGES)) if blocks is None else blocks
        self.numbers: NDArray[np.uint32] | None = None

    def __len__(self) -> int:
        return len(self._blocks)

    @overload
    def __getitem__(self, which: int) -> NDArray[np.uint32]: ...

    @overload
    def __getitem__(self, which: slice) -> Edges: ...

    def __getitem__(self, which: int | slice) -> NDArray[np.uint32] | Edges:
        if isinstance(which, slice):
            part = Edges(*self._given, self._blocks[which])
            part.numbers = self.numbers
            return part
        nodes, edges, seed = self._given
        first = self._blocks[which] * BLOCK_EDGES
        block = np.empty(2 * min(BLOCK_EDGES, edges - first), np.uint32)
        kernels.rmat(max(1, (nodes - 1).bit_length()), nodes, seed, first, block)
        if self.numbers is not None:
            kernels.renumber(block, self.numbers)
        return block

    def __iter__(self) -> Iterator[NDArray[np.uint32]]:
        return (self[number] for number in range(len(self)))


def build(nodes: int, edges: int, seed: int) -> Graph:
    """A directed graph of `edges` edges, double ones among them, over those of `nodes` ids that have an edge."""
    pairs = Edges(nodes, edges, seed)
    with threads.pool() as pool:
        out_degrees = rows.degrees(pairs, nodes, (0,), pool)
        there = out_degrees + rows.degrees(pairs, nodes, (1,), pool) > 0
        ids = np.flatnonzero(there).astype(np.uint32)
        numbers, degrees = graph.number(out_degrees[ids])
        pairs.numbers = np.zeros(nodes, np.uint32)
        pairs.numbers[ids] = numbers
        del out_degrees, there
        indptr, columns = rows.transposed(*rows.by_source(pairs, len(ids), False, pool), len(ids), pool)
    return Graph(
        ids,
        numbers,
        degrees,
        indptr,
        columns,
        *graph.no_rows(),
        rows.chunk_cuts(indptr),
        np.array(0),
        np.array(edges),
        np.array(False),
        *graph.name_table(ids, {}),
    )


def main() -> None:
    """Run with the arguments of the process."""
    parser = argparse.ArgumentParser(
        prog="python -m workloads.ppr.rmat", description="A synthetic graph in prepared form."
    )
    parser.add_argument(
        "--nodes", type=arguments.positive, default=41_652_230, help="default %(default)s, twitter-2010"
    )
    parser.add_argument("--edges", type=arguments.positive, default=1_468_365_182, help="default %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="default %(default)s")
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="new; use it as --graph FOLDER")
    given = parser.parse_args()
    try:
        given.folder.mkdir(parents=True)
        build(given.nodes, given.edges, given.seed).save(given.folder)
    except OSError as error:
        print(f"{given.folder}: {error.strerror}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
