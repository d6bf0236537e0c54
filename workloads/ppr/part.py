"""The work of one rank: map the graph, solve its sources, and say what came out, the same under every framework."""

from __future__ import annotations

import hashlib
import importlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from workloads.common import events
from workloads.common.events import BadInput
from workloads.common.ranks import Ranks
from workloads.common.shared import HostFolder
from workloads.common.storage import prepared
from workloads.ppr import dialect, dialects, edgelist, fields, ids, parquet, rows, scores, sniffing, words
from workloads.ppr import graph as graphs
from workloads.ppr.graph import Graph

if TYPE_CHECKING:
    from workloads.ppr import sparkwalk
    from workloads.ppr.rowblocks import Blocks

PROGRESS_SECONDS = 0.5
SHOWN_SOURCES = 10

ENGINES = {"csr": "power", "cg": "cg", "push": "push", "torch-ppr": "reference"}
COUNTED = {"csr", "cg", "push"}
"""Engines that tell of each iteration."""
MAKERS = (edgelist, dialect, dialects, sniffing, fields, parquet, words, ids, rows, graphs, graphs.kernels)

TOLERANCE = {"sources.sum": 1e-9, "sources.residual": 1e-9}
"""Differences that are allowed between two frameworks; the scores themselves have to be bit-identical, by their
checksum.
"""


@dataclass(frozen=True)
class Options:
    """The parameters of a run. `sources`: ids or names; where empty, the `count` nodes of the smallest ids.

    `cache`: keep the prepared form of the graph on the host, for later runs. `weights`: of edges count. `first_line`:
    what that of the file is. `scores`: the file that all scores are written to.
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
    partition: str = "auto"
    cache: bool = False
    spark_partitioning: str = "co-partitioned"
    weights: bool = False
    first_line: str | None = None
    scores: str | None = None

    @property
    def how(self) -> dialect.How:
        """The way to read the graph."""
        return dialect.How(self.weights, self.first_line)


class Part:
    """The part of the work that falls to one rank.

    With the partition ``sources``: source i of k is rank i's modulo the number of ranks. With ``graph``: a block of
    rows, and of all sources' answers every rank tells an equal share. ``auto``: what is expected to be faster.
    """

    def __init__(self, options: Options, ranks: Ranks) -> None:
        self._options, self._ranks = options, ranks
        engine = "weighted" if options.weights else ENGINES[options.engine]
        self._engine: Any = importlib.import_module(f"workloads.ppr.{engine}")
        alone = ranks.world == 1 or options.engine != "csr" or options.weights or options.cache
        self._partition = "sources" if alone else options.partition
        self._count = len(options.sources) or options.count
        if not self._over_rows:
            self._engine.prepare(-(-self._count // ranks.world))
        if self._partition != "sources":
            self._engine.prepare(self._count)
            importlib.import_module("workloads.ppr.rowblocks")
        if self._partition == "auto":
            importlib.import_module("workloads.ppr.partition").prepare()
        self._scores: scores.Scores = []
        self._blocks: Blocks | None = None
        self._spark: sparkwalk.Engine | None = None
        self._answers: list[tuple[int, dict[str, Any]]] = []

    def over_spark(self, context: Any, partitions: int) -> None:
        """See :class:`SparkPart`: the graph is in as many blocks of rows, whatever `partition` says."""
        from workloads.ppr import sparkwalk

        options = self._options
        self._spark = sparkwalk.Engine(
            context,
            partitions,
            len(options.sources) or options.count,
            co_partitioned=options.spark_partitioning == "co-partitioned",
        )
        self._engine = self._spark

    def load(self, folder: HostFolder | None) -> None:
        """Read the graph, or map it from `folder`, and find the sources in it. Raises :class:`BadInput`."""
        options = self._options
        if options.scores:
            scores.looked_at(options.scores, writes=self._ranks.rank <= 0)
        if not self._spark:
            self._partitioned()
        if self._spark:
            self._graph = self._spark.load(options.graph, options.undirected, options.how)
        elif graphs.is_prepared(options.graph):
            self._graph = graphs.open_prepared(options.graph, options.undirected, weights=options.weights)
            if self._over_rows:
                from workloads.ppr import rowblocks

                self._graph, self._blocks = rowblocks.mapped(self._graph, self._ranks, self._overlapped)
        elif self._over_rows:
            from workloads.ppr import rowblocks

            self._graph, self._blocks = rowblocks.build(
                options.graph, options.undirected, self._ranks, options.how, self._overlapped
            )
        else:
            self._graph = self._whole(folder)
        self._sources = find_sources(self._graph, options)
        if self._ranks.rank == 0 and self._ranks.world > len(self._sources) and not self._over_rows:
            idle = self._ranks.world - len(self._sources)
            events.warning(f"{self._ranks.world} ranks for {len(self._sources)} sources: {idle} have nothing to do")

    def _partitioned(self) -> None:
        """Decide what a rank has, and say why."""
        options, ranks = self._options, self._ranks
        if self._partition == "auto":
            from workloads.ppr import partition

            self._partition, why = partition.choose(options.graph, options.undirected, self._count, ranks)
            if ranks.rank == 0:
                events.chosen("partition", self._partition, why)
        elif ranks.rank == 0 and ranks.world > 1:
            why = "asked for" if options.partition == self._partition else "this engine needs the whole graph"
            events.chosen("partition", self._partition, why)

    @property
    def _over_rows(self) -> bool:
        return self._partition.startswith("graph")

    @property
    def _overlapped(self) -> bool:
        return self._partition == "graph-overlapped"

    def _whole(self, folder: HostFolder | None) -> Graph:
        """The graph as this process reads it, or as one of the ranks of this host has read it for all of them."""
        options = self._options
        parameters = (options.undirected, options.engine == "push", options.how)

        def make(empty: Path) -> None:
            graphs.build(options.graph, *parameters).save(empty)

        if options.cache:
            return self._cached(make, parameters)
        if folder is None:
            return graphs.build(options.graph, *parameters)
        name = hashlib.sha256(repr((options.graph, *parameters)).encode()).hexdigest()
        return folder.once(f"graph-{name[:16]}", make, Graph.open)

    def _cached(self, make: Callable[[Path], None], parameters: tuple[bool, bool, dialect.How]) -> Graph:
        """The graph as this host keeps it for later runs; where it cannot keep it, as it is read now."""
        options = self._options
        try:
            graph, kept = prepared.once(options.graph, parameters, MAKERS, make, Graph.open)
        except OSError as error:
            events.warning(f"the prepared graph could not be kept: {error.strerror or error}")
            return graphs.build(options.graph, *parameters)
        if kept and self._ranks.local_rank == 0:
            events.warning("this host had the prepared graph from an earlier run: load does not include reading it")
        return graph

    def compute(self) -> None:
        """Solve this rank's sources, with `progress` at most every half second, and at the end of what took longer."""
        options, ranks = self._options, self._ranks
        first, stride = (0, 1) if self._over_rows else (ranks.rank, ranks.world)
        mine = self._sources[first::stride]
        began = said = time.monotonic()
        iterations, last = 0, 0.0
        speaks, counts = ranks.rank == 0 or not self._over_rows, options.engine in COUNTED

        def tell(done: int, residual: float) -> None:
            steps = {"iterations": iterations} if counts else {}
            events.progress("sources", done, len(mine), residual=residual, **steps)

        def watch(done: int, residual: float) -> None:
            nonlocal said, iterations, last
            iterations, last = iterations + (done < len(mine)), residual
            if time.monotonic() - said >= PROGRESS_SECONDS and speaks:
                said = time.monotonic()
                tell(done, residual)

        solutions = self._engine.solve(
            *(self._graph, mine, options.alpha, options.tolerance, options.max_iterations, watch),
            ranks=ranks,
            blocks=self._blocks,
        )
        for position, solution in solutions:
            if self._over_rows and position % ranks.world != ranks.rank:
                continue
            answer = describe(self._graph, int(mine[position]), solution, options.top)
            if solution.iterations == options.max_iterations and solution.residual > options.tolerance:
                events.warning(
                    f"source {answer['id']} has not converged: residual {solution.residual:.1e} after "
                    f"{solution.iterations} iterations, the tolerance is {options.tolerance:.1e}"
                )
            self._answers.append((first + stride * position, answer))
            if options.scores:
                self._scores.append((first + stride * position, solution.scores))
        if self._blocks:
            events.exchanged(self._blocks.sent_bytes, self._blocks.steps)
        if speaks and iterations and time.monotonic() - began >= PROGRESS_SECONDS:
            tell(len(mine), last)

    def answer(self) -> dict[str, Any]:
        """The graph's size, this rank's answers with their position among all sources, and names of nodes in them."""
        numbers = np.searchsorted(
            self._graph.ids,
            np.array([node for _, answer in self._answers for node, _ in answer["top"]], self._graph.ids.dtype),
        )
        names = {int(self._graph.ids[number]): self._graph.name(int(number)) for number in set(numbers.tolist())}
        graph = self._graph
        return {
            "nodes": graph.nodes,
            "edges": graph.edges,
            "sources": self._answers,
            "names": names,
            "by_words": bool(graph.by_words),
            "header": bytes(graph.header).decode("utf-8", "replace"),
            "notes": bytes(graph.notes).decode("utf-8", "replace").splitlines(),
            "scores": self._written() if self._options.scores else None,
        }

    def _written(self) -> dict[str, Any]:
        """This rank's part of the file of scores; rank 0 and the driver also say what the other columns are."""
        if self._ranks.rank > 0:
            return {"scores": self._scores}
        labels = scores.labels(self._graph, self._sources.tolist())
        return {
            "scores": self._scores,
            "address": self._options.scores,
            "first": scores.nodes(self._graph),
            "names": labels,
        }


def find_sources(graph: Graph, options: Options) -> NDArray[np.int64]:
    """Places of the sources, int64 (k,), as they were asked for. Raises :class:`BadInput`: missing, twice, too many."""
    if not options.sources:
        if options.count > graph.nodes:
            raise BadInput(f"--count {options.count}: the graph has only {graph.nodes} nodes; ask for fewer")
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

    The checksum is SHA-256 of the n scores as little-endian float64 in the order of ids. If ids are words, these are
    besides the numbers.
    """
    values = solution.scores
    named = highest(values, top)
    return {
        "id": int(graph.ids[source]),
        "name": graph.name(source),
        "top": [[int(graph.ids[node]), float(values[node])] for node in named],
        **({"top_names": [graph.name(node) for node in named]} if graph.by_words else {}),
        "sum": float(values.sum()),
        "iterations": solution.iterations,
        "residual": solution.residual,
        "checksum": hashlib.sha256(values.astype("<f8", copy=False)).hexdigest(),
    }


def highest(scores: NDArray[np.float64], top: int) -> list[int]:
    """Places of the `top` largest positive of the scores (n,), largest first, the smaller place first where equal."""
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
    lines = show(answer, names, parts[0]["header"], by_words=parts[0]["by_words"])
    lines[1:1] = [f"  {note}" for note in parts[0]["notes"]]
    if written := parts[0]["scores"]:
        every = [pair for part in parts for pair in part["scores"]["scores"]]
        lines.append(scores.write(written["address"], written["first"], written["names"], every))
    return answer, lines


def show(answer: dict[str, Any], names: dict[int, str | None], header: str, *, by_words: bool) -> list[str]:
    """Lines for a person: a table of the top nodes of each source, of the first ten; `names` by id.

    `header`: the file's; `by_words`: ids are words, whose numbers say nothing to a person.
    """

    def label(node: int, name: str | None) -> str:
        return str(node) if not name else name if by_words else f"{name} ({node})"

    nodes = f"{answer['nodes']:,} {'names' if by_words else 'nodes'}"
    said = f", header `{header}`" if header else ", no header" if by_words else ""
    lines = [f"graph: {nodes}, {answer['edges']:,} edges{said}"]
    for source in answer["sources"][:SHOWN_SOURCES]:
        steps = "" if source["iterations"] is None else f"iterations {source['iterations']}, "
        own = label(source["id"], source["name"])
        lines.append(f"source {own}: {steps}residual {source['residual']:.1e}, sum {source['sum']:.9f}")
        for place, (node, score) in enumerate(source["top"], 1):
            lines.append(f"  {place:3d}  {score:.6f}  {label(node, names.get(node))}")
    if len(answer["sources"]) > SHOWN_SOURCES:
        lines.append(f"and {len(answer['sources']) - SHOWN_SOURCES} more sources")
    return lines
