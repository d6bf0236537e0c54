"""The same workload under several frameworks, in turns, and the comparison of its records."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from regatta import data, elastic, graphs, hdfs, paths, plan, record
from regatta.errors import DataError, UsageError
from regatta.session import Request, Session


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
    file = data.identify(Path(graph) if graph is not None else graphs.debian())
    if file.size == 0:
        raise DataError(f"{file.path} is empty; an edge list has a line 'src dst' for each edge")
    nodes = session.cluster.nodes
    found = {file.on(node) for node in nodes}
    if len(found) > 1:
        raise UsageError("the nodes have different regatta_state folders; a graph needs the same path on all of them")
    sent = data.place(session.remote, file, nodes)
    if sent:
        session.console.note(f"{file.path.name} ({file.size / 1e6:.1f} MB) put on {', '.join(sent)}")
    return found.pop(), {"graph": file.path.name, "graph_sha256": file.sha256}


@dataclass(frozen=True)
class Course:
    """What all runs of a comparison have in common; `single` is the single process's program where it differs."""

    program: plan.Program
    parameters: Mapping[str, object]
    single: plan.Program | None = None

    def request(self, base: Request, framework: record.Framework) -> Request:
        """A run of it under a framework."""
        program = self.single if self.single and framework == "single" else self.program
        return replace(
            base,
            program=replace(program, argv=(*program.argv, f"--framework={framework}")),
            framework=framework,
            root=paths.PROJECT,
            parameters=self.parameters,
        )


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


def in_turns(
    session: Session,
    request: Request,
    course: Course,
    frameworks: Sequence[record.Framework],
    *,
    workers: int | None,
    repeats: int,
) -> dict[str, list[record.Record]]:
    """Run a course `repeats` times under each framework, their order reversed every other time."""
    if repeats < 1:
        raise UsageError(f"--repeats must be at least 1, not {repeats}")
    done: dict[str, list[record.Record]] = {framework: [] for framework in frameworks}
    label = f"{course.program.label}-{plan.new_run_name('series', 'x').rpartition('x-')[2]}"
    for index in range(repeats):
        for framework in frameworks if index % 2 == 0 else list(reversed(frameworks)):
            name = request.name and (
                request.name if len(frameworks) == repeats == 1 else _name(request, framework, index)
            )
            series = record.Series(label, index + 1, repeats)
            base = replace(request, workers=workers, name=name, series=series)
            done[framework].append(elastic.run(session, course.request(base, framework)))
    return done


def _name(request: Request, framework: str, index: int) -> str:
    return f"{request.name}-{framework}-{index + 1}"
