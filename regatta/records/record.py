"""The record of one run, as values. The keys of its file are the fields of these types; `schema()` is made from them.

`document` reads and writes the file, `building` makes the record of a run that has ended.
"""

from collections.abc import Mapping, Sequence
from inspect import cleandoc
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, json
from msgspec.structs import force_setattr

from regatta.records import stats
from regatta.records.clocks import Number, Phases, Point
from regatta_protocol.events import ASIDE

Version = Literal[13]
SCHEMA_VERSION: Version = 13

Framework = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9-]{0,39}$(?!\n)")]
"""A framework's name: a-z, 0-9 and `-`. Records of any can be read, whether this Regatta can run it or not."""
SINGLE: Framework = "single"
"""One process that takes the work of all ranks: what every cluster has to beat."""
State = Literal["succeeded", "failed", "cancelled", "lost"]
RunId = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$(?!\n)")]
Time = Annotated[str, Meta(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?Z$(?!\n)")]
Text = Annotated[str, Meta(min_length=1)]
Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Rank = Annotated[int, Meta(ge=-1)]


class RunIdentity(Struct, frozen=True, forbid_unknown_fields=True):
    """The identity of a run. `started` is UTC by the controller's clock, ISO 8601 with a final Z; `commit` is None
    outside git. `owner`: the account that logged in to the nodes, and the fingerprint of its SSH key.
    """

    run_id: RunId
    workload: Text
    framework: Framework
    started: Time
    parameters: Mapping[str, Any] = {}
    seed: int | None = None
    release: str | None = None
    commit: str | None = None
    dirty: bool | None = None
    owner: str | None = None


class Gpu(Struct, frozen=True, forbid_unknown_fields=True):
    """A GPU of a node, or a part of one (MIG), and its memory; None where its driver does not tell that."""

    name: Text
    bytes: Count | None = None


class NodeFacts(Struct, frozen=True, forbid_unknown_fields=True):
    """A node that the run used and the ranks on it; None where the node could not be asked.

    `versions`: of Python, frameworks' packages and others there, by name; None where the thing is not installed or was
    not asked for. `shares`: the other nodes with ranks of the run that have some of its cores, being containers of one
    machine. `cpu_limit`: so many cores' worth of time it may use, where that is less than its cores. `gpus`: those that
    its driver, of version `gpu_driver`, can use.
    """

    name: Text
    address: str
    ranks: tuple[Count, ...] = ()
    cpu: str | None = None
    cores: Positive | None = None
    ram_bytes: Count | None = None
    kernel: str | None = None
    os: str | None = None
    versions: Mapping[str, str | None] = {}
    shares: tuple[str, ...] = ()
    cpu_limit: float | None = None
    gpus: tuple[Gpu, ...] = ()
    gpu_driver: str | None = None

    @property
    def cores_shared(self) -> bool:
        """Whether its ranks have to share cores, with those of other nodes or with each other."""
        return bool(self.ranks) and bool(self.shares or (self.cores and len(self.ranks) > self.cores))


class ClusterFacts(Struct, frozen=True, forbid_unknown_fields=True):
    """The cluster as far as the run used it. `versions_equal` and `rank_map` (each rank's node) follow from `nodes`.

    `price_per_hour`: of all its hosts together, in whichever money its inventory says; None where it does not.
    """

    name: Text
    nodes: Annotated[tuple[NodeFacts, ...], Meta(min_length=1)]
    versions_equal: bool = True
    rank_map: tuple[str, ...] = ()
    price_per_hour: Number | None = None

    def __post_init__(self) -> None:
        """Ignore what a file says: they are those of the nodes."""
        ranks = sorted((rank, node.name) for node in self.nodes for rank in node.ranks)
        force_setattr(self, "versions_equal", all(node.versions == self.nodes[0].versions for node in self.nodes))
        force_setattr(self, "rank_map", tuple(name for _, name in ranks))


class Speed(Struct, frozen=True, forbid_unknown_fields=True):
    """Further settings that change speed: threads a rank, network, protection, HDFS replication, state of caches."""

    threads: Positive | None = None
    backend: str | None = None
    interfaces: Mapping[str, str | None] = {}
    rendezvous: str | None = None
    token: bool = False
    tls: bool = False
    replication: Positive | None = None
    cache: Literal["cold", "warm"] | None = None


class RankRecord(Struct, frozen=True, forbid_unknown_fields=True):
    """One rank (-1: a Ray driver): seconds a phase, each repetition of repeated ones, what its process used, progress.

    `cpu_seconds` and `peak_bytes` are those until its computing had ended, with the start of Python and imports.
    `exchanged_bytes`: what it sent to other ranks in its `exchanges` with them; None where the workload does not tell.
    `progress` maps what was counted to points: seconds since the rank's `ready`, units done, and a value:
    loss, residual or accuracy.
    """

    rank: Rank
    node: str | None
    phases: Mapping[str, Number] = {}
    repetitions: Mapping[str, Sequence[Number]] = {}
    peak_bytes: Count | None = None
    progress: Mapping[str, Sequence[Point]] = {}
    cpu_seconds: Number | None = None
    exchanged_bytes: Count | None = None
    exchanges: Count | None = None


class NodeUse(Struct, frozen=True, forbid_unknown_fields=True):
    """The resources that a run has used on one of its nodes; None: not known there.

    Of all its processes: `cpu_seconds` (user and system), `peak_bytes` (the cgroup's, with pages of files; where the
    kernel keeps it), `largest_bytes` (resident memory of the largest process), `read_bytes` and `written_bytes` (of
    disks). In a Ray cluster these are None: its processes are Ray's. `received_bytes` and `sent_bytes` are those of the
    node's `interface` while the run was on it, whoever sent them.
    """

    node: Text
    cpu_seconds: Number | None = None
    peak_bytes: Count | None = None
    largest_bytes: Count | None = None
    read_bytes: Count | None = None
    written_bytes: Count | None = None
    interface: str | None = None
    received_bytes: Count | None = None
    sent_bytes: Count | None = None


class Beside(Struct, frozen=True, forbid_unknown_fields=True):
    """Other load on a node of the run meanwhile: the ids of other runs, and the load of other processes.

    `load`: cores that processes outside of Regatta have used on average; `joules`: energy of its processors and their
    memory, `gpu_joules`: that of its GPUs, whoever used it. None: not known.
    """

    node: Text
    runs: tuple[str, ...] = ()
    load: Number | None = None
    joules: Number | None = None
    gpu_joules: Number | None = None


class Overhead(Struct, frozen=True, forbid_unknown_fields=True):
    """The framework's own account, in a log that `source` names, of where the run's time went; seconds.

    `wall` are parts of the driver's time, from its asking for the framework until it had left it; `work` parts of the
    time of all tasks together, as the driver saw them; `within` are in the part of `work` that is the program's. `own`
    names the parts of both that are the framework's. `stages` and `tasks` count each attempt, `failed` the tasks that
    failed or were ended. `whole`: whether the log had its end, and was read to it.
    """

    source: Text
    whole: bool = True
    jobs: Count = 0
    stages: Count = 0
    tasks: Count = 0
    failed: Count = 0
    wall: Mapping[str, Number] = {}
    work: Mapping[str, Number] = {}
    within: Mapping[str, Number] = {}
    own: tuple[str, ...] = ()

    def share(self, parts: Mapping[str, Number]) -> float | None:
        """Which share of `wall` or `work` is the framework's own, 0 to 1; None where there is no time."""
        every = sum(parts.values())
        return sum(seconds for name, seconds in parts.items() if name in self.own) / every if every else None


class Failure(Struct, frozen=True, forbid_unknown_fields=True):
    """The first thing that went wrong, and where."""

    cause: Text
    node: str | None = None
    rank: int | None = None
    last_lines: tuple[str, ...] = ()


class ExitInfo(Struct, frozen=True, forbid_unknown_fields=True):
    """The end of the run; a negative code is the signal that ended it."""

    state: State
    code: int | None = None
    failure: Failure | None = None


class Series(Struct, frozen=True, forbid_unknown_fields=True):
    """The place of the run among its repeats; `index` counts from 1, runs that are compared have the same `label`.

    The rest is None where no bench asked for the run. All runs of one bench have the same `set`, and those of one
    point of its plan the same `point`; a `warm_up` is not compared. `published` are seconds measured on other hardware,
    and `published_size` the edges, rows or images that they are of, where ours are a scaled form of it. `until`:
    the part by which ends of intervals may differ from the ratio where the bench ends. `partner`: the run that ran at
    the same moment on the other half of the cores, whose time it is paired with; `half`: 1 or 2, which it had.
    `shuffled`: whether the hosts had another order in each repeat, the same for all runs of a pair. `about`: what the
    plan says of itself, where it has this experiment only.
    """

    label: Text
    index: Positive
    total: Positive
    plan: str | None = None
    set: str | None = None
    point: str | None = None
    warm_up: bool = False
    published: Number | None = None
    published_size: Positive | None = None
    until: Number | None = None
    partner: RunId | None = None
    half: Positive | None = None
    shuffled: bool = False
    about: Text | None = None

    @property
    def looks(self) -> int:
        """How often the bench could look at its intervals, and end."""
        return len(stats.looks(self.total)) if self.until is not None else 1


class Record(Struct, frozen=True, forbid_unknown_fields=True):
    """One run as it is kept in `results/<run id>.json`.

    `answer` is as the workload printed it, `tolerance` maps dotted names in it to absolute tolerances; `beside` is
    empty where that was not looked at. `packages`: the version of each Python package that the run could import, those
    of its layer before the nodes' own; empty where that was not asked. `overhead`: None where the framework reports
    nothing. `chosen`: by option, the value that the workload has decided on, and why.
    """

    identity: RunIdentity
    cluster: ClusterFacts
    speed: Speed
    phases: Phases
    ranks: tuple[RankRecord, ...]
    exit: ExitInfo
    answer: Mapping[str, Any] | None = None
    tolerance: Mapping[str, Number] = {}
    show: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    series: Series | None = None
    use: tuple[NodeUse, ...] = ()
    beside: tuple[Beside, ...] = ()
    packages: Mapping[str, str] = {}
    overhead: Overhead | None = None
    chosen: Mapping[str, str] = {}
    schema_version: Version = SCHEMA_VERSION

    @property
    def others(self) -> tuple[str, ...]:
        """Ids of the runs that ran while this one was timed, on whichever of its nodes: its times are no measure.

        Its partner is none of them.
        """
        partner = self.series.partner if self.series else None
        return tuple(sorted({run for place in self.beside for run in place.runs} - {partner}))

    @property
    def joules(self) -> float | None:
        """Energy of the processors of all nodes of the run while it was there; None where one did not tell."""
        told = [place.joules for place in self.beside]
        return sum(filter(None, told)) if told and None not in told else None

    @property
    def has_gpus(self) -> bool:
        """Whether one of its nodes has a GPU."""
        return any(node.gpus for node in self.cluster.nodes)

    @property
    def gpu_joules(self) -> float | None:
        """Energy of all GPUs of the run's nodes while it was there; None where there are none, or one did not tell."""
        nodes = {node.name for node in self.cluster.nodes if node.gpus}
        told = [place.gpu_joules for place in self.beside if place.node in nodes]
        return sum(filter(None, told)) if nodes and len(told) == len(nodes) and None not in told else None

    @property
    def cost(self) -> float | None:
        """What all hosts of its inventory cost during the run, in the money of their `price_per_hour`."""
        price, seconds = self.cluster.price_per_hour, self.phases.total
        return price * seconds / 3600 if price is not None and seconds is not None else None

    @property
    def aside(self) -> str | None:
        """Why the run is compared with no other, in its own words; None where it may be."""
        found = (line.removeprefix(ASIDE) for line in self.warnings if line.startswith(ASIDE))
        return next(found, None)

    @property
    def cores_shared(self) -> bool:
        """Whether some rank shares its core: how the work scales over cores is not seen in the times."""
        return any(node.cores_shared for node in self.cluster.nodes)

    @property
    def run_id(self) -> str:
        """The run's id, which its record's file is named by."""
        return self.identity.run_id

    @property
    def cpu_seconds(self) -> float | None:
        """Number of CPU of all ranks together, and of a Ray driver; None where none of them told."""
        told = [rank.cpu_seconds for rank in self.ranks if rank.cpu_seconds is not None]
        return sum(told) if told else None

    @property
    def peak_bytes(self) -> int | None:
        """Peak resident memory of the largest rank; None where none of them told."""
        return max((rank.peak_bytes for rank in self.ranks if rank.peak_bytes is not None), default=None)

    @property
    def sent_bytes(self) -> int | None:
        """Return what the nodes of the run sent over their interfaces while it was there; None where none of
        them told.
        """
        told = [use.sent_bytes for use in self.use if use.sent_bytes is not None]
        return sum(told) if told else None


PARTIAL = (Series,)
"""Of these a file may lack what has a default. It has every key of all others."""


def schema() -> dict[str, Any]:
    """The JSON schema of a record's file, for readers in other languages."""
    made = json.schema(Record)
    for name, part in made["$defs"].items():
        part["description"] = cleandoc(part["description"])
        if name not in {kind.__name__ for kind in PARTIAL}:
            part["required"] = [*part["properties"]]
            for rule in part["properties"].values():
                rule.pop("default", None)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made}
