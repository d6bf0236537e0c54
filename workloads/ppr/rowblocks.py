"""A graph of which each rank has a block of rows, so that no host must hold it whole.

Each rank reads its part of the edges; who has which rows is agreed on, and each edge goes to the rank of its row. In an
iteration every rank computes its rows, and sends to each other rank those that this one's rows read (torch's process
group).
"""

from __future__ import annotations

import itertools
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
from workloads.ppr.dialect import How
from workloads.ppr.edgelist import EdgeList
from workloads.ppr.graph import Graph

_PARTS, _LEAST_ROWS = 4, 1 << 15
"""In so many parts rows are computed and sent if that is overlapped; with fewer rows for each rank, at once."""
_AT_ONCE = {2: "<u2", 4: "<u4", 8: "<u8", 16: "<c16"}
"""By its bytes, what a row is copied as."""


class Blocks:
    """This rank's block of the rows, and the exchange with the others'; `sent_bytes` is what it has sent in all."""

    def __init__(self, block: Block, layout: Layout, ranks: Ranks, overlapped: bool) -> None:
        wanted = [block.wanted.get(rank, np.zeros(0, np.uint32)) for rank in range(ranks.world)]
        came, lengths = _traded(np.concatenate(wanted), np.array([len(rows) for rows in wanted]))
        read = enumerate(np.split(came, np.cumsum(lengths)[:-1]))
        self.block = replace(block, wanted={}, read={rank: rows for rank, rows in read if len(rows)})
        self.steps = self.sent_bytes = 0
        self._ranks, self._bounds = ranks, layout.bounds
        self._chunks = np.cumsum([0, *(len(cuts) - 1 for cuts in layout.cuts)]).tolist()
        count = _PARTS if overlapped and len(layout.order) >= _LEAST_ROWS * ranks.world else 1
        ends = [[(len(cuts) - 1) * part // count for part in range(count + 1)] for cuts in layout.cuts]
        self.parts = list(itertools.pairwise(ends[ranks.rank]))
        rows_of_parts = [cuts[own] for cuts, own in zip(layout.cuts, ends, strict=True)]
        self._places = [
            np.searchsorted(block.nodes, low + rows).tolist()
            for (low, _), rows in zip(self._bounds, rows_of_parts, strict=True)
        ]
        self._read = {
            rank: np.split(rows.astype(np.intp), np.searchsorted(rows, rows_of_parts[ranks.rank][1:-1]))
            for rank, rows in self.block.read.items()
        }
        self._buffers: dict[tuple[int, int, str], NDArray[Any]] = {}
        self._going: list[dist.Work] = []
        self._every = np.zeros(0)

    def begin(self, sent: NDArray[np.uint16]) -> None:
        """See :class:`power.RowBlocks`."""
        self._every = np.empty((self._chunks[-1], 3, sent.shape[1]))
        for rank in self._others():
            for low, high in itertools.pairwise(self._places[rank]):
                self._receive(sent[low:high], rank)
            self._receive(self._every[self._chunks[rank] : self._chunks[rank + 1]], rank)

    def send(self, part: int, sent: NDArray[np.uint16]) -> None:
        """See :class:`power.RowBlocks`."""
        own = sent[self.block.own : self.block.own + self.block.rows]
        rows = own.view(_AT_ONCE[own.shape[1] * own.itemsize])[:, 0]
        for rank, parts in self._read.items():
            there = parts[part]
            buffer = self._buffers.setdefault((rank, part, rows.dtype.str), np.empty(len(there), rows.dtype))
            self._send(np.take(rows, there, out=buffer, mode="clip"), rank)

    def end(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        """See :class:`power.RowBlocks`."""
        mine = self._ranks.rank
        self._every[self._chunks[mine] : self._chunks[mine + 1]] = sums
        for rank in self._others():
            self._send(sums, rank)
        self._wait()
        self.steps += 1
        return self._every

    def gathered(self, values: NDArray[np.float64], rank: int) -> NDArray[np.float64]:
        """See :class:`power.RowBlocks`."""
        mine, to = self._ranks.rank, rank % self._ranks.world
        whole = np.zeros(0)
        if mine == to:
            whole = np.empty(self._bounds[-1][1])
            whole[slice(*self._bounds[mine])] = values
            for other in self._others():
                self._receive(whole[slice(*self._bounds[other])], other)
        else:
            self._send(values, to)
        self._wait()
        return whole

    def _others(self) -> list[int]:
        return [rank for rank in range(self._ranks.world) if rank != self._ranks.rank]

    def _send(self, array: NDArray[Any], rank: int) -> None:
        """Begin to send an array, which stays as it is until :meth:`_wait`; what is empty does not travel."""
        if array.size:
            self.sent_bytes += array.nbytes
            self._going.append(dist.isend(_bytes(array), rank))

    def _receive(self, array: NDArray[Any], rank: int) -> None:
        if array.size:
            self._going.append(dist.irecv(_bytes(array), rank))

    def _wait(self) -> None:
        for one in self._going:
            one.wait()
        self._going = []


def _bytes(array: NDArray[Any]) -> torch.Tensor:
    return torch.from_numpy(array.reshape(-1).view(np.uint8))


def mapped(whole: Graph, ranks: Ranks, overlapped: bool) -> tuple[Graph, Blocks]:
    """This rank's rows of a graph that is mapped from files."""
    return _blocks(whole, Layout(whole.cuts, ranks.world), ranks, overlapped)


def _blocks(whole: Graph, layout: Layout, ranks: Ranks, overlapped: bool) -> tuple[Graph, Blocks]:
    """This rank's rows of a graph that has at least these."""
    made = layout.applied(whole)
    block = block_of(ranks.rank, layout, *layout.rows(ranks.rank, whole.indptr, whole.columns), made.degrees)
    return made, Blocks(block, layout, ranks, overlapped)


def build(path: Path | str, undirected: bool, ranks: Ranks, how: How, overlapped: bool) -> tuple[Graph, Blocks]:
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
        return _blocks(whole, layout, ranks, overlapped)


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
    largest, all_edges = read.largest, 0
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
