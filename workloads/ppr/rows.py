"""Puts edges into compressed sparse rows, by counting, in threads; rows come out sorted whatever the edges' order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.common import compiled, threads

kernels = compiled.load("workloads.ppr.kernels")

Pairs = Sequence[NDArray[np.uint32]]
"""Blocks of edges (2 m,): numbers of source and target, one after the other."""

_EDGES_PER_THREAD = 1 << 18
_MOST_CHUNKS = 256
_ROWS_AND_EDGES_PER_CHUNK = 1 << 16


def degrees(pairs: Pairs, nodes: int, ends: Sequence[int], pool: ThreadPoolExecutor) -> NDArray[np.int64]:
    """Return how many edges have each node at their `ends` (0: source, 1: target): int64 (nodes,)."""
    return _total(_counted(_dealt(pairs), nodes, ends, pool))


def by_source(
    pairs: Pairs, nodes: int, undirected: bool, pool: ThreadPoolExecutor
) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
    """Rows of sources with their targets, in no order: `indptr` int64 (nodes + 1,), `columns` uint32.

    `undirected`: each edge is in the rows of both its ends.
    """
    ends = (0, 1) if undirected else (0,)
    shares = _dealt(pairs)
    counts = _counted(shares, nodes, ends, pool)
    indptr = pointers(_total(counts))
    columns = np.empty(indptr[-1], np.uint32)

    def place(share: Pairs, positions: NDArray[np.int64]) -> None:
        for block in share:
            for end in ends:
                kernels.scatter(block, end, positions, columns)

    _each(pool, place, shares, _positions(indptr, counts))
    return indptr, columns


def transposed(
    indptr: NDArray[np.int64], columns: NDArray[np.uint32], nodes: int, pool: ThreadPoolExecutor
) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
    """The rows of the transposed matrix, each sorted: `indptr` int64 (nodes + 1,), `columns` uint32, as many as before.

    The given rows, (r + 1,) and (m,), have columns below `nodes`.
    """
    parts = max(1, min(threads.count(), len(columns) // _EDGES_PER_THREAD))
    cuts = np.searchsorted(indptr, np.linspace(0, len(columns), parts + 1).astype(np.int64))
    cuts[0], cuts[-1] = 0, len(indptr) - 1
    ranges = list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))

    def counted(first: int, last: int) -> NDArray[np.uint32]:
        counts = np.zeros(nodes, np.uint32)
        kernels.count(columns[indptr[first] : indptr[last]], 0, 1, counts)
        return counts

    counts = list(pool.map(lambda one: counted(*one), ranges))
    new = pointers(_total(counts))
    out = np.empty(len(columns), np.uint32)

    def place(rows: tuple[int, int], positions: NDArray[np.int64]) -> None:
        kernels.transpose(indptr, columns, *rows, positions, out)

    _each(pool, place, ranges, _positions(new, counts))
    return new, out


def weighted(
    pairs: Pairs, weights: Sequence[NDArray[np.float64]], nodes: int, *, undirected: bool
) -> tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[np.float64], NDArray[np.float64]]:
    """Rows of targets with their sources, each sorted by source and weight, so that the order of lines is no matter.

    `pairs` (2 m,) and `weights` (m,) of each block; `undirected`: each edge is in the rows of both its ends. Gives
    `indptr` int64 (nodes + 1,), `columns` uint32, `weights` with them, and `strengths` (nodes,).
    """
    edges = np.concatenate(pairs).reshape(-1, 2)
    heavy = np.concatenate(weights)
    if undirected:
        edges, heavy = np.concatenate([edges, edges[:, ::-1]]), np.concatenate([heavy, heavy])
    order = np.lexsort((heavy, edges[:, 1].astype(np.uint64) * np.uint64(nodes) + edges[:, 0]))
    columns: NDArray[np.uint32] = np.ascontiguousarray(edges[order, 0])
    heavy = heavy[order]
    indptr = pointers(np.bincount(edges[:, 1], minlength=nodes))
    return indptr, columns, heavy, np.bincount(columns, heavy, nodes).astype(np.float64)


def chunk_cuts(indptr: NDArray[np.int64]) -> NDArray[np.int64]:
    """Cut rows into chunks of about equal work: chunk i is rows [cuts[i], cuts[i + 1]).

    `indptr` (n + 1,) -> `cuts` int64 (chunks + 1,), at most 256 chunks. They depend only on the graph, so that sums by
    chunk are bit-identical however chunks are spread.
    """
    rows = len(indptr) - 1
    total = int(indptr[-1]) + rows
    chunks = max(1, min(_MOST_CHUNKS, rows, total // _ROWS_AND_EDGES_PER_CHUNK))
    cuts = [0]
    for chunk in range(1, chunks):
        wanted = total * chunk // chunks
        low, high = cuts[-1], rows
        while low < high:
            middle = (low + high) // 2
            if int(indptr[middle]) + middle < wanted:
                low = middle + 1
            else:
                high = middle
        cuts.append(low)
    return np.array([*cuts, rows], np.int64)


def _dealt(pairs: Pairs) -> list[Pairs]:
    """The blocks dealt to threads."""
    parts = max(1, min(threads.count(), len(pairs)))
    return [pairs[part::parts] for part in range(parts)]


def _counted(
    shares: Sequence[Pairs], nodes: int, ends: Sequence[int], pool: ThreadPoolExecutor
) -> list[NDArray[np.uint32]]:
    def counted(share: Pairs) -> NDArray[np.uint32]:
        counts = np.zeros(nodes, np.uint32)
        for block in share:
            for end in ends:
                kernels.count(block, end, 2, counts)
        return counts

    return list(pool.map(counted, shares))


def pointers(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where each row begins, and the last one ends, from their lengths (n,): int64 (n + 1,)."""
    indptr = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=indptr[1:])
    return indptr


def _total(counts: Sequence[NDArray[np.uint32]]) -> NDArray[np.int64]:
    total = counts[0].astype(np.int64)
    for more in counts[1:]:
        total += more
    return total


def _positions(indptr: NDArray[np.int64], counts: Sequence[NDArray[np.uint32]]) -> list[NDArray[np.int64]]:
    """Return where each thread begins in each row: after those before it."""
    positions = [indptr[:-1].copy()]
    for before in counts[:-1]:
        positions.append(positions[-1] + before)
    return positions


def _each(pool: ThreadPoolExecutor, work: Callable[..., None], *arguments: Sequence[Any]) -> None:
    for _ in pool.map(work, *arguments):
        pass
