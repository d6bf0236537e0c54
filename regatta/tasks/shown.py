"""The output of commands for a program that says --json: a type each, which the schemas in `schemas/` are made from."""

import json as plain_json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, json

from regatta.effort.effort import Effort
from regatta.environment.listing import Layer
from regatta.hdfs.status import Status as Hdfs
from regatta.records.plain import plain
from regatta.terminal.top import Rates

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from regatta.api import run as api
    from regatta.bench import findings
    from regatta.records import answers, compare, stats
    from regatta.records.record import Record
    from regatta.report import reproduced as comparing
    from regatta.report import sealed as sealing
    from regatta.report.listing import Line
    from regatta.run import standing
    from regatta.run.outputs import NodeOutput
    from regatta.terminal.top import Seen
    from regatta_protocol.operations.queue import Entry


@dataclass(frozen=True)
class Run:
    """A run; `started` by ISO 8601, `took` in seconds; `record`: whether it is kept here, `elsewhere`: or where.

    `owner`: the login account on the nodes and the fingerprint of its key.
    """

    run: str
    state: str
    framework: str
    workload: str | None
    ranks: int
    nodes: list[str]
    started: str
    took: float | None
    record: bool
    elsewhere: str | None
    beside: list[str]
    owner: str


@dataclass(frozen=True)
class Runs:
    """`regatta runs --json`, latest last; `unasked`: nodes that did not answer, with the reason."""

    runs: list[Run]
    unasked: dict[str, str]


@dataclass(frozen=True)
class QueueEntry:
    """A run that holds nodes, or waits for so many (`reason`: Slurm's word). Times are Unix seconds.

    `ours`: not a job that another program has submitted to Slurm, whose number `job` is. `expected`: when a run that
    waits starts at the latest, where all before it have a time limit. `others`: it is not yours. `down`: the nodes to
    which Slurm gives no run, where it waits for some.
    """

    run: str
    owner: str
    holds: bool
    nodes: list[str]
    wanted: int
    reason: str
    submitted: float
    since: float | None
    expected: float | None
    job: int
    ours: bool
    detached: bool
    priority: int
    nice: int
    others: bool
    down: list[str]


@dataclass(frozen=True)
class Queue:
    """`regatta queue --json`: who holds nodes, then who waits, first in line first."""

    cluster: str
    entries: list[QueueEntry]


@dataclass(frozen=True)
class File:
    """A file of a run: below its working directory; `changed`: it came with the code. Time in nanoseconds."""

    path: str
    size: int
    mtime_ns: int
    changed: bool


@dataclass(frozen=True)
class Place:
    """The outputs of a run on one node, or in a folder that all see: the first files of `count`, in `source`."""

    place: str
    source: str
    count: int
    bytes: int
    files: list[File]
    left_out: list[tuple[str, str]]


@dataclass(frozen=True)
class Files:
    """`regatta ls RUN --json`."""

    run: str
    places: list[Place]
    unasked: dict[str, str]


@dataclass(frozen=True)
class Environments:
    """`regatta environments --json`."""

    cluster: str
    environments: list[Layer]
    unasked: dict[str, str]


@dataclass(frozen=True)
class Pulled:
    """`regatta pull --json`: what was not as on the head, and was replaced."""

    inventory: str
    replaced: list[str]


@dataclass(frozen=True)
class Difference:
    """A value that differs; null where one has none."""

    path: str
    a: Any
    b: Any


@dataclass(frozen=True)
class Times:
    """Seconds of a phase in both runs."""

    a: float | None
    b: float | None


@dataclass(frozen=True)
class Diff:
    """`regatta diff A B --json`; `answers` is null where they cannot be compared, `files` where they are not known."""

    a: str
    b: str
    asked: list[Difference]
    versions: list[Difference]
    hosts: list[Difference]
    releases: list[str | None]
    files: list[str] | None
    phases: dict[str, Times]
    answers: list[Difference] | None


@dataclass(frozen=True)
class Spread:
    """Median, least and greatest of `n` runs, in seconds."""

    median: float
    low: float
    high: float
    n: int


@dataclass(frozen=True)
class OtherAnswer:
    """A value in which the answers of two runs differ; it has no `a` or `b` where that run's answer lacks it.

    `tolerance`: the allowed difference; null where the values must be equal.
    """

    path: str
    tolerance: float | None
    run_a: str
    run_b: str
    a: Any = UNSET
    b: Any = UNSET


@dataclass(frozen=True)
class Comparison:
    """`regatta run NAME --json FILE`: by framework its `runs`, and by phase their times; see `regatta.records.compare`.

    `phases` is null where times must not be compared (`reasons`). `beside`: runs whose times are left out, as others
    ran on their nodes; a framework that has no others is `marked`, and shows theirs.
    """

    schema_version: int
    comparable: bool
    workload: str
    runs: dict[str, list[str]]
    reasons: list[str]
    differences: list[OtherAnswer]
    words: list[str]
    beside: list[str]
    marked: list[str]
    phases: dict[str, dict[str, Spread]] | None


@dataclass(frozen=True)
class HdfsFile:
    """A file or folder in HDFS; `modified` in milliseconds since 1970."""

    path: str
    folder: bool
    length: int
    replication: int
    owner: str
    modified: int


@dataclass(frozen=True)
class HdfsFiles:
    """`regatta data-ls PATH --json`."""

    url: str
    entries: list[HdfsFile]


@dataclass(frozen=True)
class Node:
    """A node: `error` where it does not answer, systemd's state of each unit, versions and load."""

    node: str
    error: str | None
    units: dict[str, str]
    facts: dict[str, Any]


@dataclass(frozen=True)
class Status:
    """`regatta status --json`; `members`: of each framework with a service the addresses, or what is wrong."""

    nodes: list[Node]
    runs: list[str]
    monitoring: dict[str, Any]
    members: dict[str, list[str] | str]


@dataclass(frozen=True)
class Compared:
    """The ratio of a framework's seconds to those of `to`, by a timer, with the ends of its interval."""

    clock: str
    framework: str
    to: str
    ratio: float
    low: float | None
    high: float | None
    verdict: str


@dataclass(frozen=True)
class Finding:
    """A point of a plan: medians in seconds by timer and framework; what forbids to compare; runs that do not count."""

    point: str
    workload: str
    workers: int
    seconds: dict[str, dict[str, float]]
    compared: list[Compared]
    refused: list[str]
    failed: list[str]
    beside: list[str]
    published: dict[str, float]


@dataclass(frozen=True)
class Bench:
    """`regatta bench PLAN --json`: what the runs of a set have shown."""

    plan: str
    set: str
    cluster: str
    points: list[Finding]


@dataclass(frozen=True)
class SlowHost:
    """A host that does only this part of what the others do: `what` is a name of `figures`."""

    node: str
    what: str
    part: float


@dataclass(frozen=True)
class Probe:
    """`regatta probe --json`: rates by name and host, in bytes a second (`syncs`: small writes), and who is slow.

    `busy`: the load per core, before that, of hosts with other work.
    """

    cluster: str
    figures: dict[str, dict[str, float]]
    slow: list[SlowHost]
    busy: dict[str, float]


@dataclass(frozen=True)
class Efforts:
    """`regatta effort --json`."""

    efforts: list[Effort]


@dataclass(frozen=True)
class Watched:
    """A node, as `regatta top --json` lists them: `sample` is what the node counts, `rates` what that is a second."""

    node: str
    error: str | None
    rates: Rates | None
    sample: dict[str, Any] | None


@dataclass(frozen=True)
class Process:
    """A rank (-1: the driver), or another process of the run (null), and where it stands.

    `where`: the line of the program, `call` what is called there, `does` what it does meanwhile. `meeting`: the call in
    which it waits for other ranks, or empty. `stopped`: a signal holds it.
    """

    node: str
    rank: int | None
    pid: int
    program: str
    where: str
    call: str
    does: str
    meeting: str
    stopped: bool


@dataclass(frozen=True)
class Why:
    """`regatta why RUN --json`; `hosts`: a sentence about each, `likely`: the likely cause, in a sentence."""

    run: str
    processes: list[Process]
    hosts: dict[str, str]
    unasked: dict[str, str]
    likely: str


@dataclass(frozen=True)
class LogLine:
    """A line of `regatta logs RUN --json`: `rank` is -1 for a driver, and null where it is not known."""

    node: str
    rank: int | None
    text: str


@dataclass(frozen=True)
class Sealed:
    """`regatta results-verify FILE --json`; `missing`, `rates` (of false verdicts) and `answers` are sentences.

    `locks`: of the nodes' environment, by name, where the code has none.
    """

    set: str
    fingerprint: str
    made: str
    plan: str
    release: str
    commit: str | None
    runs: list[str]
    missing: list[str]
    rates: list[str]
    answers: list[str]
    locks: list[str]


@dataclass(frozen=True)
class Ratio:
    """One framework's time by another's, with the ends of its interval."""

    ratio: float
    low: float | None
    high: float | None
    verdict: str


@dataclass(frozen=True)
class Reproduced:
    """A verdict of `regatta reproduce FILE --json`, in the sealed set and on these hosts (null: not measured).

    `same_data`: whether both have read the same files, by their hashes.
    """

    what: str
    outcome: str
    there: Ratio
    here: Ratio | None
    same_data: bool


@dataclass(frozen=True)
class Output:
    """The output of a command on a node, both streams together, and its exit code."""

    node: str
    code: int
    output: str


@dataclass(frozen=True)
class Executed:
    """`regatta exec COMMAND --json`; `unasked`: why other nodes have not done it."""

    nodes: list[Output]
    unasked: dict[str, str]


@dataclass(frozen=True)
class HdfsRepaired:
    """`regatta hdfs-repair --json`; `read`: bytes of copies, `replaced`: damaged copies, by their files."""

    read: int
    replaced: dict[str, int]


TYPES: "Mapping[str, Any]" = {
    "bench": Bench,
    "effort": Efforts,
    "exec": Executed,
    "hdfs-repair": HdfsRepaired,
    "probe": Probe,
    "run": Comparison,
    "runs": Runs,
    "pull": Pulled,
    "queue": Queue,
    "ls": Files,
    "environments": Environments,
    "diff": Diff,
    "data-ls": HdfsFiles,
    "hdfs-status": Hdfs,
    "logs": LogLine,
    "reproduce": list[Reproduced],
    "results-verify": Sealed,
    "status": Status,
    "top": list[Watched],
    "why": Why,
}
"""By command, of `logs` each line, of `run` the file. `show --json` is the record, with the record's schema."""


def schemas() -> "dict[str, dict[str, Any]]":
    """The JSON schema of each, by command."""
    return {command: schema(kind) for command, kind in TYPES.items()}


def schema(kind: Any) -> "dict[str, Any]":
    """The JSON schema of a type."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **json.schema(kind)}


def say(value: object) -> None:
    """Print it as JSON."""
    print(text(value), flush=True)


def text(value: object) -> str:
    """Return it as JSON."""
    return plain_json.dumps(plain(value), indent=1)


def runs(lines: "Sequence[Line]", unasked: "Mapping[str, Exception]") -> Runs:
    """Lines of the list of runs."""
    return Runs([_run(line) for line in lines], reasons(unasked))


def queue(cluster: str, entries: "Sequence[Entry]") -> Queue:
    """The queue of a cluster."""
    return Queue(cluster, [QueueEntry(**{**vars(one), "nodes": [*one.nodes], "down": [*one.down]}) for one in entries])


def executed(done: "Mapping[str, tuple[int, str]]", failed: "Mapping[str, Exception]") -> Executed:
    """Return what a command has said on each node."""
    return Executed([Output(node, code, said) for node, (code, said) in done.items()], reasons(failed))


def top(nodes: "Sequence[Seen]") -> list[Watched]:
    """Return what was seen of each node."""
    return [
        Watched(one.node.name, one.error or None, one.rates, None if one.sample is None else {**one.sample})
        for one in nodes
    ]


def line(said: "api.Line") -> str:
    """Return a line of a log as JSON."""
    return plain_json.dumps(plain(LogLine(said.node, said.rank, said.text)))


def why(found: "standing.Why") -> Why:
    """Return where a run stands."""
    from regatta.run import standing

    processes = [
        Process(
            one.node,
            one.rank,
            one.process.pid,
            one.process.program,
            one.where,
            one.call,
            one.does,
            one.meeting,
            one.stopped,
        )
        for one in found.spots
    ]
    unasked = {node: standing.reason(error) for node, error in found.failed.items()}
    return Why(found.run, processes, found.hosts(), unasked, found.likely)


def sealed(found: "sealing.Sealed", answers: "Iterable[str]") -> Sealed:
    """Return what a sealed file holds."""
    return Sealed(
        found.set,
        found.fingerprint,
        found.made,
        found.plan,
        found.release,
        found.commit,
        [run.run_id for run in found.records],
        [*found.missing],
        [*found.rates],
        [*answers],
        [*found.locks],
    )


def reproduced(verdicts: "Sequence[comparing.Verdict]") -> list[Reproduced]:
    """Return each verdict of a sealed set, and whether it holds here."""

    def ratio(found: "stats.Ratio") -> Ratio:
        return Ratio(found.value, found.low, found.high, found.verdict)

    return [
        Reproduced(one.what, one.outcome, ratio(one.there), ratio(one.here) if one.here else None, one.same_data)
        for one in verdicts
    ]


def _run(line: "Line") -> Run:
    return Run(
        line.run,
        line.state,
        line.framework,
        line.workload,
        line.ranks,
        [*line.nodes],
        line.started.isoformat(),
        line.took,
        line.record is not None,
        line.elsewhere,
        [*line.record.others] if line.record else [],
        line.owner,
    )


def files(run: str, parts: "Sequence[NodeOutput]", failed: "Mapping[str, Exception]") -> Files:
    """Return what a run has left."""
    places = [
        Place(
            part.place,
            part.source,
            part.count,
            part.bytes,
            [File(one.path, one.size, one.mtime_ns, one.changed) for one in part.files],
            [*part.left_out],
        )
        for part in parts
    ]
    return Files(run, places, reasons(failed))


def diff(one: "Record", other: "Record", files: list[str] | None) -> Diff:
    """Return what differs between two runs, whose code differs in `files`."""
    from regatta.report import diff as differing

    answers = differing.answers(one, other)
    return Diff(
        one.run_id,
        other.run_id,
        **{name: _differences(found) for name, found in differing.parts(one, other).items()},
        releases=[one.identity.release, other.identity.release],
        files=files,
        phases={name: Times(*seconds) for name, seconds in differing.phases(one, other).items()},
        answers=None if answers is None else _differences(answers),
    )


def _differences(found: "Sequence[answers.Difference]") -> list[Difference]:
    from regatta.records.answers import ABSENT

    return [Difference(one.path, *(None if at is ABSENT else at for at in (one.a, one.b))) for one in found]


def comparison(found: "compare.Comparison") -> Comparison:
    """Return a comparison of runs."""
    spreads = {
        phase: {label: Spread(**vars(one)) for label, one in of_phase.items()}
        for phase, of_phase in found.spreads.items()
    }
    return Comparison(
        1,
        found.comparable,
        found.workload,
        {label: [*runs] for label, runs in found.runs.items()},
        [*found.reasons],
        [_other_answer(one) for one in found.differences],
        [*found.words],
        [*found.beside],
        [*found.marked],
        spreads if found.comparable else None,
    )


def _other_answer(found: "answers.Difference") -> OtherAnswer:
    from regatta.records.answers import ABSENT

    values = (UNSET if at is ABSENT else at for at in (found.a, found.b))
    return OtherAnswer(found.path, found.tolerance, found.run_a, found.run_b, *values)


def bench(plan: str, of_set: str, cluster: str, found: "Sequence[findings.Finding]") -> Bench:
    """Return what a bench has shown."""
    return Bench(plan, of_set, cluster, [_finding(one) for one in found])


def _finding(found: "findings.Finding") -> Finding:
    comparison, point, medians = found.comparison, found.point, found.medians()
    return Finding(
        point.name,
        point.workload,
        point.workers,
        medians,
        [
            Compared(clock, framework, to, ratio.value, ratio.low, ratio.high, ratio.verdict)
            for clock in medians
            for framework, to, ratio in found.ratios(clock)
        ],
        [*comparison.reasons, *map(str, comparison.differences)] if comparison else [],
        [*found.failed],
        [*comparison.beside] if comparison else [],
        {**point.published},
    )


def reasons(failed: "Mapping[str, Exception]") -> dict[str, str]:
    """By node why it could not be asked."""
    return {name: str(error) for name, error in failed.items()}
