"""What one rank does: map the graph, solve its sources, and say what came out, the same under every framework."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.common import events, storage
from workloads.common.events import BadInput
from workloads.common.ranks import Ranks
from workloads.common.shared import HostFolder
from workloads.common.storage import prepared
from workloads.ppr import edgelist
from workloads.ppr import graph as graphs
from workloads.ppr.graph import Graph, build

PROGRESS_SECONDS = 0.5
SHOWN_SOURCES = 10

TOLERANCE = {"sources.sum": 1e-9, "sources.residual": 1e-9}
"""What may differ between two frameworks; the scores themselves are compared to the bit, by their checksum."""


@dataclass(frozen=True)
class Options:
    """The parameters of a run. `sources`: ids or names; where empty, the `count` nodes of the smallest ids.

    `cache`: keep the prepared form of a graph in HDFS on the host, for later runs.
    """

    graph: str
    sources: tuple[str, ...]
    count: int
    top: int
    alpha: float
    tolerance: float
    max_iterations: int
    undirected: bool
    engine: str
    cache: bool = False


class Part:
    """The part of the work that falls to one rank: source i of k to rank i modulo the number of ranks."""

    def __init__(self, options: Options, ranks: Ranks) -> None:
        if options.engine == "torch-ppr":
            from workloads.ppr import reference as engine
        else:
            from workloads.ppr import power as engine  # type: ignore[no-redef]
        self._solve = engine.solve
        self._options, self._ranks = options, ranks
        self._answers: list[tuple[int, dict[str, Any]]] = []

    def load(self, folder: HostFolder | None) -> None:
        """Read the graph, or map it from `folder`, and find the sources in it. Raises :class:`BadInput`."""
        options = self._options
        path, keep_steps = options.graph, options.engine == "torch-ppr"

        def make(empty: Path) -> None:
            build(path, options.undirected, keep_steps).save(empty)

        if options.cache and storage.is_remote(path):
            self._graph = self._prepared(make, keep_steps)
        elif folder is None:
            self._graph = build(path, options.undirected, keep_steps)
        else:
            name = hashlib.sha256(repr((options.graph, options.undirected, keep_steps)).encode()).hexdigest()
            self._graph = folder.once(f"graph-{name[:16]}", make, Graph.open)
        self._sources = find_sources(self._graph, options)
        if self._ranks.rank == 0 and self._ranks.world > len(self._sources):
            idle = self._ranks.world - len(self._sources)
            events.warning(f"{self._ranks.world} ranks for {len(self._sources)} sources: {idle} have nothing to do")

    def _prepared(self, make: Callable[[Path], None], keep_steps: bool) -> Graph:
        """The graph as this host keeps it for later runs; where it cannot keep it, as it is read now."""
        options = self._options
        parameters = (options.undirected, keep_steps)
        try:
            graph, kept = prepared.once(options.graph, parameters, (edgelist, graphs), make, Graph.open)
        except OSError as error:
            events.warning(f"the prepared graph could not be kept: {error.strerror or error}")
            return build(options.graph, options.undirected, keep_steps)
        if kept and self._ranks.local_rank == 0:
            events.warning("this host had the prepared graph from an earlier run: load does not include reading it")
        return graph

    def compute(self) -> None:
        """Solve this rank's sources, with `progress` at most every half second."""
        options, first, stride = self._options, self._ranks.rank, self._ranks.world
        mine = self._sources[first::stride]
        said = time.monotonic()

        def watch(done: int, residual: float) -> None:
            nonlocal said
            if time.monotonic() - said >= PROGRESS_SECONDS:
                said = time.monotonic()
                events.progress("sources", done, len(mine), residual=residual)

        solutions = self._solve(self._graph, mine, options.alpha, options.tolerance, options.max_iterations, watch)
        for position, solution in solutions:
            answer = describe(self._graph, int(mine[position]), solution, options.top)
            if solution.iterations == options.max_iterations and solution.residual > options.tolerance:
                events.warning(
                    f"source {answer['id']} has not converged: residual {solution.residual:.1e} after "
                    f"{solution.iterations} iterations, the tolerance is {options.tolerance:.1e}"
                )
            self._answers.append((first + stride * position, answer))

    def answer(self) -> dict[str, Any]:
        """The graph's size, this rank's answers with their position among all sources, and names of nodes in them."""
        numbers = np.searchsorted(
            self._graph.ids,
            np.array([node for _, answer in self._answers for node, _ in answer["top"]], np.uint64),
        )
        names = {int(self._graph.ids[number]): self._graph.name(int(number)) for number in set(numbers.tolist())}
        return {"nodes": self._graph.nodes, "edges": self._graph.edges, "sources": self._answers, "names": names}


def find_sources(graph: Graph, options: Options) -> NDArray[np.int64]:
    """Node numbers of the sources in the order asked for. Raises :class:`BadInput`: not there, twice, or too many."""
    if not options.sources:
        if options.count > graph.nodes:
            raise BadInput(f"--count {options.count}: the graph has only {graph.nodes} nodes")
        return np.arange(options.count)
    sources: dict[int, str] = {}
    for wanted in options.sources:
        node = graph.find(wanted)
        if node in sources:
            raise BadInput(
                f"source {wanted!r} is given twice" + (f", as {sources[node]!r} too" if sources[node] != wanted else "")
            )
        sources[node] = wanted
    return np.fromiter(sources, np.int64)


def describe(graph: Graph, source: int, solution: Any, top: int) -> dict[str, Any]:
    """The answer of one source: the `top` nodes of positive score, highest first and by id where equal, and a checksum.

    The checksum is SHA-256 of the n scores as little-endian float64 in the order of ids.
    """
    scores = solution.scores
    return {
        "id": int(graph.ids[source]),
        "name": graph.name(source),
        "top": [[int(graph.ids[node]), float(scores[node])] for node in highest(scores, top)],
        "sum": float(scores.sum()),
        "iterations": solution.iterations,
        "residual": solution.residual,
        "checksum": hashlib.sha256(scores.astype("<f8", copy=False)).hexdigest(),
    }


def highest(scores: NDArray[np.float64], top: int) -> list[int]:
    """Places of the `top` largest positive scores, largest first, the smaller place first where equal."""
    least = np.partition(scores, -top)[-top] if top < len(scores) else 0.0
    candidates = np.flatnonzero((scores >= least) & (scores > 0.0))
    ordered = candidates[np.lexsort((candidates, -scores[candidates]))]
    return [int(place) for place in ordered[:top]]


def combine(parts: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], list[str]]:
    """Join what the ranks' :meth:`Part.answer` gave into the run's answer and lines for a person."""
    sources = [
        answer for _, answer in sorted((pair for part in parts for pair in part["sources"]), key=lambda pair: pair[0])
    ]
    names = {node: name for part in parts for node, name in part["names"].items()}
    checksum = hashlib.sha256("".join(source["checksum"] for source in sources).encode()).hexdigest()
    answer = {"nodes": parts[0]["nodes"], "edges": parts[0]["edges"], "sources": sources, "checksum": checksum}
    return answer, show(answer, names)


def show(answer: dict[str, Any], names: dict[int, str | None]) -> list[str]:
    """A table of the top nodes of each source."""

    def label(node: int) -> str:
        return f"{names[node]} ({node})" if names.get(node) else str(node)

    lines = [f"graph: {answer['nodes']:,} nodes, {answer['edges']:,} edges"]
    for source in answer["sources"][:SHOWN_SOURCES]:
        steps = "" if source["iterations"] is None else f"iterations {source['iterations']}, "
        own = f"{source['name']} ({source['id']})" if source["name"] else str(source["id"])
        lines.append(f"source {own}: {steps}residual {source['residual']:.1e}, sum {source['sum']:.9f}")
        lines += [f"  {place:3d}  {score:.6f}  {label(node)}" for place, (node, score) in enumerate(source["top"], 1)]
    if len(answer["sources"]) > SHOWN_SOURCES:
        lines.append(f"and {len(answer['sources']) - SHOWN_SOURCES} more sources")
    return lines
