"""A graph of which each rank has a block of rows, so that no host must hold it whole.

Each rank reads its part of the edges; who has which rows is agreed on, and each edge goes to the rank of its row. In an
iteration every rank computes its rows, and sends to each other rank those that this one's rows read (torch's process
group).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
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
from workloads.ppr.blocks import Block, Layout, block_of
from workloads.ppr.dialect import PLAIN, How
from workloads.ppr.edgelist import EdgeList
from workloads.ppr.graph import Graph

Arrays = Sequence[NDArray[Any]]

_AT_ONCE = {2: "<u2", 4: "<u4", 8: "<u8", 16: "<c16"}
"""By its bytes, what a row is copied as."""


class Blocks:
    """This rank's block of the rows, and the exchange with the others'; `sent_bytes` is what it has sent in all."""

    def __init__(self, block: Block, layout: Layout, ranks: Ranks) -> None:
        parts = [block.wanted.get(rank, np.zeros(0, np.uint32)) for rank in range(ranks.world)]
        came, lengths = _traded(np.concatenate(parts), np.array([len(part) for part in parts]))
        read = enumerate(np.split(came, np.cumsum(lengths)[:-1]))
        self.block = replace(block, wanted={}, read={rank: rows for rank, rows in read if len(rows)})
        self._read = {rank: rows.astype(np.intp) for rank, rows in self.block.read.items()}
        self._buffers: dict[tuple[int, str], NDArray[Any]] = {}
        self.steps = self.sent_bytes = 0
        self._ranks, self._bounds = ranks, layout.bounds
        self._chunks = np.cumsum([0, *(len(cuts) - 1 for cuts in layout.cuts)]).tolist()
        self._places = [*np.searchsorted(block.nodes, [low for low, _ in self._bounds]).tolist(), len(block.nodes)]

    def share(
        self, sent: NDArray[np.uint16], out: NDArray[np.uint16], sums: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """See :class:`power.RowBlocks`."""
        mine, block = self._ranks.rank, self.block
        every = np.empty((self._chunks[-1], *sums.shape[1:]))
        every[self._chunks[mine] : self._chunks[mine + 1]] = sums
        rows = out.view(_AT_ONCE[out.shape[1] * out.itemsize])[:, 0]
        leaving: dict[int, Arrays] = {}
        for rank, there in self._read.items():
            buffer = self._buffers.setdefault((rank, rows.dtype.str), np.empty(len(there), rows.dtype))
            leaving[rank] = [np.take(rows, there, out=buffer, mode="clip"), sums]
        arriving = {
            rank: [sent[self._places[rank] : self._places[rank + 1]], every[first:last]]
            for rank, (first, last) in enumerate(itertools.pairwise(self._chunks))
            if rank != mine
        }
        going = self._going({rank: leaving.get(rank, [sums]) for rank in arriving}, arriving)
        sent[block.own : block.own + block.rows] = out
        for one in going:
            one.wait()
        self.steps += 1
        return every

    def gathered(self, values: NDArray[np.float64], rank: int) -> NDArray[np.float64]:
        """See :class:`power.RowBlocks`."""
        mine, to = self._ranks.rank, rank % self._ranks.world
        whole = np.zeros(0)
        if mine == to:
            whole = np.empty(self._bounds[-1][1])
            whole[slice(*self._bounds[mine])] = values
            others = {other: [whole[low:high]] for other, (low, high) in enumerate(self._bounds) if other != mine}
            going = self._going({}, others)
        else:
            going = self._going({to: [values]}, {})
        for one in going:
            one.wait()
        return whole

    def _going(self, leaving: Mapping[int, Arrays], arriving: Mapping[int, Arrays]) -> list[dist.Work]:
        """Send arrays to other ranks, and fill some from what these send; what is empty does not travel."""
        going = []
        for transfer, arrays in ((dist.irecv, arriving), (dist.isend, leaving)):
            for rank, some in arrays.items():
                for array in (one for one in some if one.size):
                    self.sent_bytes += array.nbytes if transfer is dist.isend else 0
                    going.append(transfer(torch.from_numpy(array.reshape(-1).view(np.uint8)), rank))
        return going


def mapped(whole: Graph, ranks: Ranks) -> tuple[Graph, Blocks]:
    """This rank's rows of a graph that is mapped from files."""
    return _blocks(whole, Layout(whole.cuts, ranks.world), ranks)


def _blocks(whole: Graph, layout: Layout, ranks: Ranks) -> tuple[Graph, Blocks]:
    """This rank's rows of a graph that has at least these."""
    made = layout.applied(whole)
    block = block_of(ranks.rank, layout, *layout.rows(ranks.rank, whole.indptr, whole.columns), made.degrees)
    return made, Blocks(block, layout, ranks)


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
        layout = Layout(cuts, ranks.world)
        own, _ = _traded(*layout.dealt(pairs, undirected))
        pairs.clear()
        indptr, columns = rows.transposed(*rows.by_source([own], nodes, False, pool), nodes, pool)
        forward_indptr, forward_columns = graph.no_rows()
        whole = Graph(
            ids=places.ids,
            numbers=numbers,
            degrees=degrees,
            indptr=indptr,
            columns=columns,
            forward_indptr=forward_indptr,
            forward_columns=forward_columns,
            cuts=cuts,
            first_row=np.array(0),
            edge_count=np.array(read.listed),
            undirected=np.array(undirected),
            **graph.said_of(places.ids, read, undirected)._asdict(),
        )
        return _blocks(whole, layout, ranks)


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


def _traded(parts: NDArray[np.uint32], lengths: NDArray[np.int64]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Send a part to each rank, of so many numbers; gives what has come here from each, and of what lengths."""
    sizes = torch.from_numpy(lengths)
    arriving = torch.empty_like(sizes)
    dist.all_to_all_single(arriving, sizes)
    came = np.empty(int(arriving.sum()), np.uint32)
    going = torch.from_numpy(parts.view(np.int32))
    dist.all_to_all_single(torch.from_numpy(came.view(np.int32)), going, arriving.tolist(), sizes.tolist())
    return came, arriving.numpy()


def _sum(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    dist.all_reduce(torch.from_numpy(counts))
    return counts


def _gathered(value: Any, ranks: Ranks) -> list[Any]:
    values: list[Any] = [None] * ranks.world
    dist.all_gather_object(values, value)
    return values
