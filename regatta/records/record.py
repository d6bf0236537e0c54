"""The record of one run: its values, its schema, its text."""

import dataclasses
import functools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from regatta.errors import RecordError
from regatta.records.clocks import Clocks, Phases
from regatta.records.migrate import migrate

SCHEMA_VERSION = 4
_AS_THEY_ARE = {str, int, bool}

Framework = str
"""A framework's name: a-z, 0-9 and `-`. Records of any can be read, whether this Regatta can run it or not."""
SINGLE: Framework = "single"
"""One process that takes the work of all ranks: what every cluster has to beat."""
State = Literal["succeeded", "failed", "cancelled", "lost"]


@dataclass(frozen=True)
class RunIdentity:
    """What ran. `started` is UTC by the controller's clock, ISO 8601 with a final Z; `commit` is None outside git."""

    run_id: str
    workload: str
    framework: Framework
    started: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    seed: int | None = None
    release: str | None = None
    commit: str | None = None
    dirty: bool | None = None


@dataclass(frozen=True)
class Versions:
    """Versions on a node; None where the thing is not installed or was not asked for."""

    python: str | None = None
    torch: str | None = None
    ray: str | None = None
    java: str | None = None
    hadoop: str | None = None


@dataclass(frozen=True)
class NodeFacts:
    """A node that the run used and the ranks on it; None where the node could not be asked."""

    name: str
    address: str
    ranks: tuple[int, ...] = ()
    cpu: str | None = None
    cores: int | None = None
    ram_bytes: int | None = None
    kernel: str | None = None
    os: str | None = None
    versions: Versions = Versions()


@dataclass(frozen=True)
class ClusterFacts:
    """The cluster as far as the run used it."""

    name: str
    nodes: tuple[NodeFacts, ...]

    @property
    def versions_equal(self) -> bool:
        """Whether all nodes have the same versions of everything."""
        return len({node.versions for node in self.nodes}) <= 1

    @property
    def rank_map(self) -> tuple[str, ...]:
        """The name of each rank's node."""
        return tuple(name for _, name in sorted((rank, n.name) for n in self.nodes for rank in n.ranks))


@dataclass(frozen=True)
class Speed:
    """What else changes speed: threads a rank, network, protection, HDFS replication, state of caches."""

    threads: int | None = None
    backend: str | None = None
    interfaces: Mapping[str, str | None] = field(default_factory=dict)
    rendezvous: str | None = None
    token: bool = False
    tls: bool = False
    replication: int | None = None
    cache: Literal["cold", "warm"] | None = None


@dataclass(frozen=True)
class RankRecord:
    """One rank (-1: a Ray driver): seconds a phase, each repetition of repeated ones, what its process used, progress.

    `cpu_seconds` and `peak_bytes` are those until its computing had ended, with the start of Python and imports.
    `progress` maps what was counted to points: seconds since the rank's `ready`, units done, loss or residual.
    """

    rank: int
    node: str | None
    phases: Mapping[str, float] = field(default_factory=dict)
    laps: Mapping[str, Sequence[float]] = field(default_factory=dict)
    peak_bytes: int | None = None
    progress: Mapping[str, Sequence[Sequence[float | None]]] = field(default_factory=dict)
    cpu_seconds: float | None = None


@dataclass(frozen=True)
class NodeUse:
    """What a run has used on one of its nodes; None: not known there.

    Of all its processes: `cpu_seconds` (user and system), `peak_bytes` (the cgroup's, with pages of files; where the
    kernel keeps it), `largest_bytes` (resident memory of the largest process), `read_bytes` and `written_bytes` (of
    disks). In a Ray cluster these are None: its processes are Ray's. `received_bytes` and `sent_bytes` are those of the
    node's `interface` while the run was on it, whoever sent them.
    """

    node: str
    cpu_seconds: float | None = None
    peak_bytes: int | None = None
    largest_bytes: int | None = None
    read_bytes: int | None = None
    written_bytes: int | None = None
    interface: str | None = None
    received_bytes: int | None = None
    sent_bytes: int | None = None


@dataclass(frozen=True)
class Beside:
    """What else was on a node of the run meanwhile: the ids of other runs, and the load of others.

    `load`: cores that processes outside of Regatta have used on average; None: not known.
    """

    node: str
    runs: tuple[str, ...] = ()
    load: float | None = None


@dataclass(frozen=True)
class Failure:
    """The first thing that went wrong, and where."""

    cause: str
    node: str | None = None
    rank: int | None = None
    last_lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class ExitInfo:
    """How the run ended; a negative code is the signal that ended it."""

    state: State
    code: int | None = None
    failure: Failure | None = None


@dataclass(frozen=True)
class Series:
    """The place of the run among its repeats; `index` counts from 1, runs that are compared have the same `label`.

    The rest is None where no bench asked for the run. All runs of one bench have the same `set`, and those of one
    point of its plan the same `point`; a `warm_up` is not compared. `published` are seconds measured on other hardware,
    and `published_size` the edges, rows or images that they are of, where ours are a scaled form of it.
    """

    label: str
    index: int
    total: int
    plan: str | None = None
    set: str | None = None
    point: str | None = None
    warm_up: bool = False
    published: float | None = None
    published_size: int | None = None


@dataclass(frozen=True)
class Record:
    """One run as it is kept in `results/<run id>.json`."""

    identity: RunIdentity
    cluster: ClusterFacts
    speed: Speed
    phases: Phases
    ranks: tuple[RankRecord, ...]
    exit: ExitInfo
    answer: Mapping[str, Any] | None = None
    tolerance: Mapping[str, float] = field(default_factory=dict)
    show: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    series: Series | None = None
    use: tuple[NodeUse, ...] = ()
    beside: tuple[Beside, ...] = ()

    @property
    def others(self) -> tuple[str, ...]:
        """Ids of the runs beside which this one was timed, on whichever of its nodes: its clocks are no measure."""
        return tuple(sorted({run for place in self.beside for run in place.runs}))

    @property
    def run_id(self) -> str:
        """The run's id, which its record's file is named by."""
        return self.identity.run_id

    @property
    def cpu_seconds(self) -> float | None:
        """Seconds of CPU of all ranks together, and of a Ray driver; None where none of them told."""
        told = [rank.cpu_seconds for rank in self.ranks if rank.cpu_seconds is not None]
        return sum(told) if told else None

    @property
    def peak_bytes(self) -> int | None:
        """Peak resident memory of the largest rank; None where none of them told."""
        return max((rank.peak_bytes for rank in self.ranks if rank.peak_bytes is not None), default=None)

    @property
    def sent_bytes(self) -> int | None:
        """What the nodes of the run sent over their interfaces while it was there; None where none of them told."""
        told = [use.sent_bytes for use in self.use if use.sent_bytes is not None]
        return sum(told) if told else None

    def to_dict(self) -> dict[str, Any]:
        """The JSON object of the schema, not yet validated."""
        cluster = {"versions_equal": self.cluster.versions_equal, "rank_map": self.cluster.rank_map}
        fields = {f.name: plain(getattr(self, f.name)) for f in dataclasses.fields(self)}
        fields["cluster"] |= plain(cluster)
        return {"schema_version": SCHEMA_VERSION, **fields}

    def to_json(self) -> str:
        """The text of the record's file; raises RecordError when it does not fit the schema."""
        document = self.to_dict()
        validate(document, f"record of run {self.run_id}")
        try:
            return json.dumps(document, indent=1, allow_nan=False) + "\n"
        except (TypeError, ValueError) as error:
            raise RecordError(f"record of run {self.run_id} cannot be written as JSON: {error}") from error


def build(
    identity: RunIdentity,
    cluster: ClusterFacts,
    speed: Speed,
    clocks: Clocks,
    exit: ExitInfo,
    *,
    series: Series | None = None,
    driver_node: str | None = None,
    warnings: Sequence[str] = (),
    used: Mapping[str, Mapping[str, Any]] | None = None,
    beside: Mapping[str, Mapping[str, Any]] | None = None,
) -> Record:
    """The record of a run that has ended, in whatever way; `driver_node` is where the Ray driver ran.

    `warnings` of the controller come before those of the workload; `used` is what nodes say that the run used there,
    `beside` what else was there.
    """
    nodes = {rank: node.name for node in cluster.nodes for rank in node.ranks}
    nodes |= {-1: driver_node} if driver_node else {}
    result = clocks.result
    return Record(
        identity=dataclasses.replace(identity, parameters=plain(identity.parameters)),
        cluster=cluster,
        speed=speed,
        phases=clocks.phases(),
        ranks=tuple(
            RankRecord(
                r.rank, nodes.get(r.rank), r.phases, plain(r.laps), r.peak_bytes, plain(r.progress), r.cpu_seconds
            )
            for r in clocks.ranks
        ),
        exit=exit,
        answer=plain(result.answer) if result else None,
        tolerance=result.tolerance if result else {},
        show=result.show if result else (),
        warnings=(*warnings, *clocks.warnings),
        series=series,
        use=tuple(_use(node.name, (used or {})[node.name]) for node in cluster.nodes if (used or {}).get(node.name)),
        beside=tuple(_beside(name, said) for name, said in (beside or {}).items()),
    )


def plain(value: Any) -> Any:
    """`value` as JSON has it: lists for tuples, objects for dataclasses, and strings for NaN and infinities."""
    kind = type(value)
    if value is None or kind in _AS_THEY_ARE:
        return value
    if kind is float or isinstance(value, float):
        return value if math.isfinite(value) else _odd(value)
    if kind is dict or isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if kind is list or isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if dataclasses.is_dataclass(kind):
        return {name: plain(getattr(value, name)) for name in _names(kind)}
    return value


def _odd(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


@functools.cache
def _names(kind: type) -> tuple[str, ...]:
    """The names of a dataclass's fields."""
    return tuple(field.name for field in dataclasses.fields(kind))


def validate(document: object, source: str) -> None:
    """Raise RecordError with `source` and the path of each fault (the first three) unless the schema is met."""
    if not isinstance(document, dict) or not {"schema_version", "identity"} & document.keys():
        raise RecordError(f"{source} is JSON, but no record of a run")
    if "schema_version" in document:
        version = document["schema_version"]
        if isinstance(version, bool) or version != SCHEMA_VERSION:
            raise RecordError(
                f"{source}: schema version {str(version)[:40]} is unknown, this Regatta reads 1 to {SCHEMA_VERSION}: "
                "read it with the Regatta that wrote it"
            )
    if _fits(document):
        return
    faults = sorted(_validator().iter_errors(document), key=lambda fault: str(fault.json_path))
    if faults:
        lines = [f"{_path(f)}: {_shorten(str(f.message))}" for f in faults[:3]]
        more = [f"and {len(faults) - 3} more"] if len(faults) > 3 else []
        raise RecordError(f"{source} does not fit the schema: " + "; ".join(lines + more))


def parse(text: str, source: str) -> Record:
    """The record in `text`, brought to this version's schema; RecordError names `source` and the path of the fault."""
    try:
        document = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{source} is truncated or not JSON: {error}") from error
    document = migrate(document)
    validate(document, source)
    fields = {name: value for name, value in document.items() if name != "schema_version"}
    failure, cluster = fields["exit"].pop("failure"), fields["cluster"]
    return Record(
        **fields
        | {
            "identity": RunIdentity(**fields["identity"]),
            "cluster": ClusterFacts(cluster["name"], tuple(_node(n) for n in cluster["nodes"])),
            "speed": Speed(**fields["speed"]),
            "phases": Phases(**fields["phases"]),
            "ranks": tuple(RankRecord(**rank) for rank in fields["ranks"]),
            "exit": ExitInfo(failure=_failure(failure), **fields["exit"]),
            "show": tuple(fields["show"]),
            "warnings": tuple(fields["warnings"]),
            "series": Series(**fields["series"]) if fields["series"] else None,
            "use": tuple(NodeUse(**use) for use in fields["use"]),
            "beside": tuple(Beside(**place | {"runs": tuple(place["runs"])}) for place in fields["beside"]),
        }
    )


def load(path: Path) -> Record:
    """The record in the file `path`; RecordError when it is unreadable, truncated or does not fit the schema."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise RecordError(f"{path} cannot be read: {error}") from error
    return parse(text, str(path))


def _node(fields: dict[str, Any]) -> NodeFacts:
    return NodeFacts(**fields | {"ranks": tuple(fields["ranks"]), "versions": Versions(**fields["versions"])})


def _use(node: str, said: Mapping[str, Any]) -> NodeUse:
    """What a node says; a run may have written there what it likes, so that only what fits is believed."""
    numbers = {
        field.name: value
        for field in dataclasses.fields(NodeUse)
        if field.name not in ("node", "interface") and _is_amount(value := said.get(field.name), field.name)
    }
    name = said.get("interface")
    return NodeUse(node, interface=name if isinstance(name, str) else None, **numbers)


def _beside(node: str, said: Mapping[str, Any]) -> Beside:
    return Beside(node, tuple(map(str, said["runs"])), said["load"])


def _is_amount(value: Any, name: str) -> bool:
    kinds = int | float if name == "cpu_seconds" else int
    return isinstance(value, kinds) and not isinstance(value, bool) and bool(0 <= value < 2**63)


def _failure(fields: dict[str, Any] | None) -> Failure | None:
    return Failure(**fields | {"last_lines": tuple(fields["last_lines"])}) if fields else None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _path(fault: Any) -> str:
    return str(fault.json_path).removeprefix("$").removeprefix(".") or "top level"


def _shorten(message: str) -> str:
    return message if len(message) <= 200 else f"{message[:120]} ... {message[-70:]}"


def _fits(document: object) -> bool:
    """Whether the schema is met, said two hundred times as fast as `_validator` says why it is not."""
    try:
        return bool(_fast_validator().is_valid(document))
    except (ValueError, TypeError):
        return False


@functools.cache
def _schema() -> Any:
    return json.loads(
        (resources.files("regatta.records") / "schemas" / "record.schema.json").read_text(encoding="utf-8")
    )


@functools.cache
def _fast_validator() -> Any:
    import jsonschema_rs

    return jsonschema_rs.Draft202012Validator(_schema())


@functools.cache
def _validator() -> Any:
    import jsonschema

    return jsonschema.Draft202012Validator(_schema())
