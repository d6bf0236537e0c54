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

SOURCES_ALIKE = 4
"""A step along an edge takes as much time as the values of so many sources, and each source's as much again."""
PROBE_WIDTH, PROBE_NODES, PROBE_STEPS, PROBE_TIMES = 4, 1 << 16, 1 << 19, 6
SLOW = 150e6
"""Bytes a second of a network so slow that sending while computing pays: that of 1 Gbit/s sends 119 million."""
LARGE = 1.5
"""How much longer a step takes in a graph that is larger than the caches than in the probe."""
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
class Speed:
    """Of the slowest rank: `step`: the seconds of a step along an edge, for each source of those that go at once and
    `SOURCES_ALIKE` more; `bandwidth`: the bytes a second that it sends; `latency`: seconds of an empty exchange.
    """

    step: float
    bandwidth: float
    latency: float


def prepare() -> None:
    """Compile, or load, what :func:`choose` needs, before a timer runs."""
    power.prepare(PROBE_WIDTH)


def choose(path: str, undirected: bool, sources: int, ranks: Ranks) -> tuple[str, str]:
    """Return the partition, and why, as a sentence; every rank gets what rank 0 has found."""
    if not dist.is_initialized():
        return "sources", "these ranks have no process group in which they could exchange rows of the graph"
    speed = _measured(ranks)
    found: list[tuple[str, str] | None] = [None]
    if ranks.rank == 0:
        found = [_chosen(size_of(path, undirected), sources, ranks.world, speed)]
    dist.broadcast_object_list(found, src=0)
    assert found[0] is not None
    return found[0]


def _chosen(size: Size, sources: int, ranks: int, speed: Speed) -> tuple[str, str]:
    by_sources, by_graph = seconds(size, sources, ranks, speed)
    about = "" if size.known else "about "
    why = (
        f"an iteration of {sources} sources on {ranks} ranks is expected to take {by_graph * 1e3:.3g} ms by rows of "
        f"the graph, {by_sources * 1e3:.3g} ms by sources ({about}{size.nodes:,} nodes and {size.edges:,} steps, "
        f"{speed.step * 1e9:.2g} ns for a source's step, "
        f"{speed.bandwidth / 1e6:.3g} MB/s and {speed.latency * 1e3:.2g} ms between ranks, measured)"
    )
    by_rows = "graph-overlapped" if speed.bandwidth < SLOW else "graph"
    return by_rows if by_graph < by_sources else "sources", why


def seconds(size: Size, sources: int, ranks: int, speed: Speed) -> tuple[float, float]:
    """Return the expected seconds of an iteration of all sources, by sources and by rows of the graph."""
    share = -(-sources // ranks)
    by_sources = sum(computing(size, width, speed) for width in _widths(share))
    others = size.nodes * (ranks - 1) / ranks
    by_graph = sum(
        computing(size, width, speed) / ranks + others * width * BYTES_A_SCORE / speed.bandwidth + speed.latency
        for width in _widths(sources)
    )
    return by_sources, by_graph


def computing(size: Size, width: int, speed: Speed) -> float:
    """Return the expected seconds of an iteration of so many sources at once, in one process."""
    return size.edges * speed.step * (SOURCES_ALIKE + width)


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


def _measured(ranks: Ranks) -> Speed:
    """Let all ranks compute a little, and exchange a little and then much, twice each; the better time counts."""
    step = _step()
    empty, full = (min(_exchange(size, ranks) for _ in range(2)) for size in (1, PROBE_BYTES))
    slowest = torch.tensor([step, empty, full], dtype=torch.float64)
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    step, empty, full = slowest.tolist()
    return Speed(step, PROBE_BYTES * (ranks.world - 1) / max(full - empty, full / 2), empty)


def _step() -> float:
    """Return the seconds of one source's step along an edge, here and now."""
    nodes, width = PROBE_NODES, PROBE_WIDTH
    columns = np.random.default_rng(0).integers(0, nodes, PROBE_STEPS, np.uint32)
    indptr = np.linspace(0, PROBE_STEPS, nodes + 1).astype(np.int64)
    sent, nothing = np.zeros((nodes, width), np.uint16), np.zeros(width)
    rows = (
        indptr,
        columns,
        np.full(nodes, 8, np.uint32),
        np.array([0, nodes]),
        0,
        1,
        sent,
        np.zeros((nodes, 2, width)),
    )
    rest = (np.full(width, -1), nothing, nothing, 0.5, np.zeros_like(sent), 0, np.zeros((1, 3, width)))
    step = power.kernels.step(width)
    step(*rows, *rest)
    began = time.perf_counter()
    for _ in range(PROBE_TIMES):
        step(*rows, *rest)
    return (time.perf_counter() - began) / PROBE_TIMES / PROBE_STEPS * LARGE / (SOURCES_ALIKE + width)


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
