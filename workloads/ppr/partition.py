"""Chooses what a rank has, some sources or some rows of the graph, by a model of an iteration's time.

The model, and where its figures are from, is in docs/explanation/algorithms.md.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from numpy.lib import format as npy

from workloads.common import storage
from workloads.common.events import BadInput
from workloads.common.ranks import Ranks
from workloads.common.storage import packed
from workloads.ppr import graph, power

SECONDS_A_STEP = 0.55e-9
"""The time of a step along one edge is (`SOURCES_ALIKE` + sources at once) times this, on one core."""
SOURCES_ALIKE = 4
BYTES_A_SCORE = 2
EDGES_A_NODE = 5
PACKED = 4
"""How much smaller a packed edge list is taken to be."""
PROBE_BYTES = 1 << 18
SNIFF_BYTES = 1 << 16


@dataclass(frozen=True)
class Size:
    """The nodes of a graph, and the edges that a source follows from one to another; `known`: not estimated."""

    nodes: int
    edges: int
    known: bool = False


@dataclass(frozen=True)
class Network:
    """The exchange of this rank with all others: bytes a second that it sends, and the seconds of an empty one."""

    bandwidth: float
    latency: float


def choose(path: str, undirected: bool, sources: int, ranks: Ranks) -> tuple[str, str]:
    """Return ``sources`` or ``graph``, and why, as a sentence; every rank gets what rank 0 has found."""
    network = _measured(ranks)
    found: list[tuple[str, str] | None] = [None]
    if ranks.rank == 0:
        found = [_chosen(size_of(path, undirected), sources, ranks.world, network)]
    dist.broadcast_object_list(found, src=0)
    assert found[0] is not None
    return found[0]


def _chosen(size: Size, sources: int, ranks: int, network: Network) -> tuple[str, str]:
    by_sources, by_graph = seconds(size, sources, ranks, network)
    about = "" if size.known else "about "
    why = (
        f"an iteration of {sources} sources on {ranks} ranks is expected to take {by_graph * 1e3:.3g} ms by rows of the "
        f"graph, {by_sources * 1e3:.3g} ms by sources ({about}{size.nodes:,} nodes and {size.edges:,} steps; "
        f"{network.bandwidth / 1e6:.3g} MB/s and {network.latency * 1e3:.2g} ms between ranks, measured)"
    )
    return "graph" if by_graph < by_sources else "sources", why


def seconds(size: Size, sources: int, ranks: int, network: Network) -> tuple[float, float]:
    """Return the expected seconds of an iteration of all sources, by sources and by rows of the graph."""
    share = -(-sources // ranks)
    by_sources = sum(computing(size, width) for width in _widths(share))
    others = size.nodes * (ranks - 1) / ranks
    by_graph = sum(
        computing(size, width) / ranks + others * width * BYTES_A_SCORE / network.bandwidth + network.latency
        for width in _widths(sources)
    )
    return by_sources, by_graph


def computing(size: Size, width: int) -> float:
    """Return the expected seconds of an iteration of so many sources at once, in one process."""
    return size.edges * SECONDS_A_STEP * (SOURCES_ALIKE + width)


def _widths(sources: int) -> list[int]:
    """Return how many sources go through the graph at once, in turn, until all have."""
    most = power.width_for(sources)
    full, rest = divmod(sources, most)
    return [most] * full + ([power.width_for(rest)] if rest else [])


def size_of(path: str, undirected: bool) -> Size:
    """Return the size of a graph: that of a prepared one as its arrays say, of another by the size of its file."""
    if graph.is_prepared(path):
        nodes, edges = (_length(Path(path) / f"{name}.npy") for name in ("ids", "columns"))
        return Size(nodes, edges, known=True)
    try:
        with packed.opened(path) as (stream, kind):
            begun = stream.read(SNIFF_BYTES)
        length = storage.size(path) * (PACKED if kind else 1)
    except BadInput:  # who reads it says what is wrong
        return Size(1, 1)
    edges = max(1, length * begun.count(b"\n") // max(1, len(begun)))
    return Size(max(1, edges // EDGES_A_NODE), edges * (2 if undirected else 1))


def _length(file: Path) -> int:
    """Return how many items the array of a ``.npy`` file has; 1 where it cannot be read."""
    try:
        with file.open("rb") as stream:
            npy.read_magic(stream)
            shape, _, _ = npy.read_array_header_1_0(stream)
    except (OSError, ValueError):
        return 1
    return max(1, *shape)


def _measured(ranks: Ranks) -> Network:
    """Exchange a little with all others, then much, twice each; the better time of the slowest rank counts."""
    empty, full = (min(_exchange(size, ranks) for _ in range(2)) for size in (1, PROBE_BYTES))
    slowest = torch.tensor([empty, full], dtype=torch.float64)
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    empty, full = slowest.tolist()
    return Network(PROBE_BYTES * (ranks.world - 1) / max(full - empty, 1e-6), empty)


def _exchange(size: int, ranks: Ranks) -> float:
    """Return the seconds in which so many bytes go to each other rank and come from it."""
    leaving, others = torch.zeros(size, dtype=torch.uint8), [rank for rank in range(ranks.world) if rank != ranks.rank]
    arriving = np.zeros((len(others), size), np.uint8)
    dist.barrier()
    began = time.perf_counter()
    going = [dist.irecv(torch.from_numpy(into), rank) for into, rank in zip(arriving, others, strict=True)]
    going += [dist.isend(leaving, rank) for rank in others]
    for one in going:
        one.wait()
    return time.perf_counter() - began
