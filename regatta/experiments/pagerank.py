"""PageRank under several frameworks: what was asked for, and its graph put in place."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from regatta.errors import DataError, UsageError
from regatta.experiments import graphs
from regatta.experiments.experiment import Course, in_turns
from regatta.frameworks import plan
from regatta.hdfs import client as hdfs
from regatta.records import record
from regatta.release import inputs
from regatta.run.request import Request
from regatta.run.session import Session


@dataclass(frozen=True)
class Ppr:
    """What `run-ppr` was asked for; `None` leaves the workload's own default."""

    graph: str | None = None
    sources: str | None = None
    count: str | None = None
    top: str | None = None
    alpha: str | None = None
    tolerance: str | None = None
    max_iterations: str | None = None
    engine: str | None = None
    partition: str | None = None
    undirected: bool = False

    def options(self) -> list[str]:
        """Command-line options of `workloads.ppr`, without the graph."""
        names = ("sources", "count", "top", "alpha", "tolerance", "max_iterations", "engine", "partition")
        given = [(name, getattr(self, name)) for name in names]
        words = [f"--{name.replace('_', '-')}={value}" for name, value in given if value is not None]
        return [*words, "--undirected"] if self.undirected else words


def prepare_graph(session: Session, graph: str | None) -> tuple[str, dict[str, object]]:
    """Put the graph on every node, outside the clocks, or find it in HDFS: where runs read it, and what it is.

    DataError where there is none.
    """
    if graph is not None and hdfs.is_address(graph):
        info = hdfs.ask(session.remote, "identify", graph)
        if info["length"] == 0:
            raise DataError(f"{graph} is empty; an edge list has a line 'src dst' for each edge")
        return graph, {"graph": graph, "graph_bytes": info["length"], "graph_checksum": info["checksum"]}
    if graph is not None and not Path(graph).expanduser().is_file():
        raise DataError(f"there is no graph file {graph}; give an edge list (SNAP: 'src dst' lines, .gz too)")
    file = inputs.identify(Path(graph) if graph is not None else graphs.debian())
    if file.size == 0:
        raise DataError(f"{file.path} is empty; an edge list has a line 'src dst' for each edge")
    nodes = session.cluster.nodes
    found = {file.on(node) for node in nodes}
    if len(found) > 1:
        raise UsageError("the nodes have different regatta_state folders; a graph needs the same path on all of them")
    sent = inputs.place(session.remote, file, nodes)
    if sent:
        session.console.note(f"{file.path.name} ({file.size / 1e6:.1f} MB) put on {', '.join(sent)}")
    return found.pop(), {"graph": file.path.name, "graph_sha256": file.sha256}


def ppr_course(session: Session, asked: Ppr, *, alone: bool = False) -> Course:
    """Put the graph in place, outside the clocks; what is `alone` may keep its prepared form. DataError."""
    on_node, described = prepare_graph(session, asked.graph)
    options = asked.options()
    if alone and hdfs.is_address(on_node) and asked.partition != "graph":
        options.append("--cache")  # runs that are compared all read the graph anew
    program = plan.Program.module("workloads.ppr", [f"--graph={on_node}", *options], "ppr")
    return Course(program, {**described, "options": options})


def ppr(
    session: Session,
    asked: Ppr,
    frameworks: Sequence[record.Framework],
    *,
    workers: int | None,
    repeats: int,
    request: Request,
) -> dict[str, list[record.Record]]:
    """Run PPR `repeats` times under each framework, in turns."""
    course = ppr_course(session, asked, alone=len(frameworks) == repeats == 1)
    return in_turns(session, request, course, frameworks, workers=workers, repeats=repeats)
