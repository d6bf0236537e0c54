"""A graph of which each rank has a block of rows, so that no host must hold it whole.

Each rank reads its part of the edges; who has which rows is agreed on, and each edge goes to the rank of its row. In an
iteration every rank computes its rows and gives them to all others (torch's process group).
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray

from workloads.common import threads
from workloads.common.events import BadInput
from workloads.common.ranks import Ranks
from workloads.ppr import edgelist, graph, ids, rows, words
from workloads.ppr.dialect import PLAIN, How
from workloads.ppr.edgelist import EdgeList
from workloads.ppr.graph import Graph


class Blocks:
    """The rows of each rank: those of an equal share of the chunks."""

    def __init__(self, cuts: NDArray[np.int64], ranks: Ranks) -> None:
        chunks = len(cuts) - 1
        shares = [chunks * rank // ranks.world for rank in range(ranks.world + 1)]
        self._bounds = [int(cuts[chunk]) for chunk in shares]
        self._rank = ranks.rank
        self.first, self.last = shares[ranks.rank], shares[ranks.rank + 1]

    @property
    def bounds(self) -> Sequence[tuple[int, int]]:
        """The rows [first, last) of each rank, by rank."""
        return list(zip(self._bounds[:-1], self._bounds[1:], strict=True))

    def share(self, z: NDArray[np.float64], moved: NDArray[np.float64], sums: NDArray[np.float64]) -> None:
        """Put every rank's rows `moved` into `z` (n, width) on every rank, and the chunks' `sums` as well.

        `moved`: (own rows, width); `sums`: (chunks, 2, width), of which this rank has filled its own chunks.
        """
        low, high = self.bounds[self._rank]
        z[low:high] = moved
        everything = torch.from_numpy(z)
        for rank, (first, last) in enumerate(self.bounds):
            if first < last:
                dist.broadcast(everything[first:last], src=rank)
        sums[: self.first] = 0.0
        sums[self.last :] = 0.0
        dist.all_reduce(torch.from_numpy(sums))


def mapped(whole: Graph, ranks: Ranks) -> tuple[Graph, Blocks]:
    """This rank's rows of a graph that is mapped from files."""
    blocks = Blocks(whole.cuts, ranks)
    return whole.rows(blocks.first, blocks.last), blocks


def build(path: Path | str, undirected: bool, ranks: Ranks, how: How = PLAIN) -> tuple[Graph, Blocks]:
    """Read this rank's part of an edge list; gives its rows of the graph. Every rank raises the same BadInput."""
    read = _agreed(path, ranks, replace(how, undirected=undirected))
    with threads.pool(ranks) as pool:
        places = _places(read, ranks, pool)
        pairs = list(pool.map(places.places, read.blocks))
        read.blocks.clear()
        nodes = len(places.ids)
        numbers, degrees = graph.number(_sum(rows.degrees(pairs, nodes, (0, 1) if undirected else (0,), pool)))
        for block in pairs:
            graph.kernels.renumber(block, numbers)
        row_sizes = degrees.astype(np.int64) if undirected else _sum(rows.degrees(pairs, nodes, (1,), pool))
        cuts = rows.chunk_cuts(rows.pointers(row_sizes))
        blocks = Blocks(cuts, ranks)
        own = _delivered(pairs, undirected, blocks.bounds)
        pairs.clear()
        low, high = blocks.bounds[ranks.rank]
        indptr, columns = rows.transposed(*rows.by_source([own], nodes, False, pool), nodes, pool)
        forward_indptr, forward_columns = graph.no_rows()
        made = Graph(
            ids=places.ids,
            numbers=numbers,
            degrees=degrees,
            indptr=indptr[low : high + 1].copy(),
            columns=columns,
            forward_indptr=forward_indptr,
            forward_columns=forward_columns,
            cuts=cuts,
            first_row=np.array(low),
            edge_count=np.array(read.listed),
            undirected=np.array(undirected),
            **graph.said_of(places.ids, read, undirected)._asdict(),
        )
        return made, blocks


def _agreed(path: Path | str, ranks: Ranks, how: How) -> EdgeList:
    """This rank's part of the edges, and what all parts have found; words are numbered alike on all ranks."""
    read, fault = EdgeList([]), None
    try:
        read = edgelist.read_part(path, ranks.rank, ranks.world, how=how)
    except BadInput as error:
        fault = str(error)
    said = _gathered((fault, edgelist.told(read)), ranks)
    if faults := [fault for fault, _ in said if fault]:
        raise BadInput(faults[0])
    parts = [part for _, part in said]
    known = edgelist.agreed(path, parts)
    own = [part.read.words for part in parts]
    if all(one is None for one in own):
        return replace(known, blocks=read.blocks)
    if any(one is None for one in own):
        read = edgelist.as_words(read)
        own = _gathered(read.words, ranks)
    everything, numbers = words.merged([one for one in own if one is not None])
    return replace(known, blocks=[numbers[ranks.rank][block] for block in read.blocks], words=everything)


def _places(read: EdgeList, ranks: Ranks, pool: ThreadPoolExecutor) -> ids.Places:
    named = read.named
    edges = sum(map(len, read.blocks)) // 2
    largest, all_edges = ids.largest(read.blocks, named), 0
    for other, count in _gathered((largest, edges), ranks):
        largest, all_edges = max(largest, other), all_edges + count
    if ids.affords_bits(largest, all_edges):
        bits = ids.mark(read.blocks, named, largest)
        dist.all_reduce(torch.from_numpy(bits.view(np.int64)), dist.ReduceOp.BOR)
        return ids.Bits.of(bits)
    own = ids.unique(read.blocks, named, pool)
    return ids.Sorted(np.unique(np.concatenate(_gathered(own, ranks))))


def _delivered(
    pairs: Sequence[NDArray[np.uint32]], undirected: bool, bounds: Sequence[tuple[int, int]]
) -> NDArray[np.uint32]:
    """Send each edge to the rank that has its target's row, or each of both; gives those that came here."""
    by_rank: list[list[NDArray[np.uint32]]] = [[] for _ in bounds]
    for block in pairs:
        edges = block.reshape(-1, 2)
        for ways in (edges, edges[:, ::-1]) if undirected else (edges,):
            targets = ways[:, 1]
            for mine, (low, high) in zip(by_rank, bounds, strict=True):
                mine.append(ways[(targets >= low) & (targets < high)].ravel())
    sizes = torch.tensor([sum(map(len, mine)) for mine in by_rank])
    arriving = torch.empty_like(sizes)
    dist.all_to_all_single(arriving, sizes)
    sent = np.concatenate([block for mine in by_rank for block in mine]) if pairs else np.zeros(0, np.uint32)
    del by_rank
    own = np.empty(int(arriving.sum()), np.uint32)
    dist.all_to_all_single(
        torch.from_numpy(own.view(np.int32)), torch.from_numpy(sent.view(np.int32)), arriving.tolist(), sizes.tolist()
    )
    return own


def _sum(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    dist.all_reduce(torch.from_numpy(counts))
    return counts


def _gathered(value: Any, ranks: Ranks) -> list[Any]:
    values: list[Any] = [None] * ranks.world
    dist.all_gather_object(values, value)
    return values
