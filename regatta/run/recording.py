"""Records a run. The request goes to the nodes with it, so that any controller can write its record.

A record is written by whoever followed the run to its end; for one that no one follows any more, by whoever attaches
to it or asks for `runs` next, from what its nodes know.
"""

import contextlib
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from regatta import paths
from regatta.errors import RecordError, RegattaError
from regatta.frameworks import plan, registry
from regatta.frameworks.api import Framework, StartedRun
from regatta.hosts import shared_cores
from regatta.hosts.cluster import Cluster, Node
from regatta.hosts.remote import Remote
from regatta.records import building, document, record, store
from regatta.records.clocks import Clocks
from regatta.records.plain import plain
from regatta.run.catalogue import RunInfo, unserved
from regatta.run.follow import Follower
from regatta.run.outcome import Failure, Outcome
from regatta_protocol import events
from regatta_protocol.operations.runs import AskAccount, AskContention, Contended, FinishRun, MarkRecorded
from regatta_protocol.run import FollowedBy
from regatta_protocol.states import State

if TYPE_CHECKING:
    from regatta.run.request import Request

MARK_TIMEOUT = 5.0
ORPHAN_SECONDS = 60.0
"""Seconds after its end when a run of another machine's controller counts as one that no one follows."""
MOST_AT_ONCE = 20
NOTE = (
    "no controller followed this run to its end: the record is made from what its nodes know, "
    "without the controller's timers"
)


def now() -> str:
    """UTC by this machine's clock, as records have it."""
    return at(time.time())


def at(seconds: float) -> str:
    """A moment, in Unix seconds, as records have it."""
    moment = datetime.fromtimestamp(seconds, timezone.utc)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def asked(
    cluster: Cluster,
    request: "Request",
    made: plan.Plan,
    started: str,
    commit: str | None,
    dirty: bool | None,
    layer: Mapping[str, str],
    base: Mapping[str, str],
) -> dict[str, Any]:
    """Return what the record says of the run before it starts, as JSON, and who follows it.

    `layer` and `base`: versions of its packages by name, those of the layer before those of the nodes' environment. A
    run with another layer, other variables, or other folders that are kept is another case.
    """
    framework = registry.of_run(request.framework)
    brought = {"packages": dict(layer), "variables": dict(made.variables)}
    given = {name: value for name, value in {**brought, **made.options.kept()}.items() if value}
    identity = record.RunIdentity(
        run_id=made.run,
        workload=made.program.label,
        framework=request.framework,
        started=started,
        parameters={**parameters(cluster, request, len(made.ranks)), **given},
        seed=request.seed,
        release=made.release,
        commit=commit,
        dirty=dirty,
    )
    speed = record.Speed(
        threads=made.threads,
        backend=_backend(framework, made),
        rendezvous=framework.rendezvous(made),
        token=framework.token,
        cache=request.cache,
    )
    kept = {"identity": identity, "speed": speed, "series": request.series, "warnings": request.notes, "by": _own()}
    return dict(plain({**kept, "packages": {**base, **layer}}))


def _backend(framework: Framework, made: plan.Plan) -> str | None:
    on_gpus = any(own.visible for own in made.cards.values())
    return (framework.gpu_backend if on_gpus else None) or framework.backend


def parameters(cluster: Cluster, request: "Request", workers: int | None) -> dict[str, Any]:
    """Return what the run was asked to do; with hosts left out, or on half of the cores, it is another
    case than on all of them.
    """
    more: dict[str, Any] = {"without": list(cluster.left_out)} if cluster.left_out else {}
    more |= {"duet": True} if request.series and request.series.half else {}
    return {"workers": workers, **(request.parameters or {"argv": list(request.program.argv)}), **more}


@dataclass(frozen=True)
class Ended:
    """The facts of a run that has ended: `ranks` maps each to its node, `facts` are those of the nodes it used.

    `interfaces`: of each node the one that holds its address in the cluster. `beside`: what else was on the nodes.
    `owner`: by the login on the nodes.
    """

    ranks: Mapping[int, str]
    facts: Mapping[str, Mapping[str, Any]]
    interfaces: Mapping[str, str | None]
    beside: Mapping[str, Contended]
    owner: str = ""
    notes: Sequence[str] = ()


def _failure(failure: Failure, clocks: Clocks) -> record.Failure:
    """Why it failed: what the workload itself says of it, where a process ended and no host or service was lost."""
    said = clocks.error.message if clocks.error and failure.rank is not None else failure.cause
    return record.Failure(said, failure.node, failure.rank, failure.printed)


def of_run(
    cluster: Cluster,
    asked: Mapping[str, Any],
    run: Ended,
    clocks: Clocks,
    outcome: Outcome,
) -> record.Record:
    """The record of a run that has ended. `asked`: what `asked` made of it before it started."""
    identity, speed, failure = asked["identity"], asked["speed"], outcome.failure
    framework = registry.of_run(identity["framework"])
    end = record.ExitInfo(
        state=cast(record.State, outcome.state.recorded),
        code=outcome.code,
        failure=_failure(failure, clocks) if failure else None,
    )
    shares = shared_cores.sharing(run.facts, run.ranks.values())
    nodes = tuple(
        _node_facts(name, cluster.node(name).cluster_address, run.ranks, said, shares.get(name, ()))
        for name, said in run.facts.items()
    )
    return building.build(
        record.RunIdentity(**{**identity, "owner": run.owner or None}),
        record.ClusterFacts(cluster.name, nodes, price_per_hour=cluster.price_per_hour),
        record.Speed(**{**speed, "interfaces": dict(run.interfaces) if framework.interfaces else {}}),
        clocks,
        end,
        building.Account(
            series=record.Series(**asked["series"]) if asked["series"] else None,
            driver_node=cluster.head.name if framework.driver else None,
            warnings=[*asked["warnings"], *run.notes],
            used=outcome.used,
            beside=run.beside,
            packages=asked.get("packages") or {},
        ),
    )


def of_unstarted(cluster: Cluster, request: "Request", cause: str, *, lost: bool) -> record.Record:
    """The record of a run that could not be started: it has a row, and the cause, and no times."""
    assert request.options.name is not None
    identity = record.RunIdentity(
        run_id=request.options.name,
        workload=request.program.label,
        framework=request.framework,
        started=now(),
        parameters=parameters(cluster, request, request.options.workers),
        seed=request.seed,
        release=request.source.release if request.source else None,
    )
    nodes = tuple(record.NodeFacts(node.name, node.cluster_address) for node in cluster.workers)
    return building.build(
        identity,
        record.ClusterFacts(cluster.name, nodes, price_per_hour=cluster.price_per_hour),
        record.Speed(cache=request.cache),
        Clocks(0),
        record.ExitInfo("lost" if lost else "failed", None, record.Failure(cause)),
        building.Account(series=request.series, warnings=request.notes),
    )


def mark(remote: Remote, handle: StartedRun, outcome: Outcome) -> None:
    """Tell the nodes that the run has a record; one that cannot be told is left out."""
    remote.gather(
        _answering(handle, outcome),
        lambda node: remote.call(node, MarkRecorded(handle.run), timeout=MARK_TIMEOUT),
    )


def contention(remote: Remote, handle: StartedRun, outcome: Outcome) -> dict[str, Contended]:
    """Return what else was on the run's nodes meanwhile, by node; those that do not answer are left out."""

    def ask(node: Node) -> Contended:
        asked = AskContention(handle.run, handle.strangers(node), handle.energy(node))
        return remote.call(node, asked, timeout=MARK_TIMEOUT)

    return remote.gather(_answering(handle, outcome), ask)[0]


def _answering(handle: StartedRun, outcome: Outcome) -> list[Node]:
    """The nodes that have told how the run ended there; all where none was asked."""
    return [node for node in handle.nodes if not outcome.used or node.name in outcome.used]


def is_orphan(info: RunInfo, results: store.Store) -> bool:
    """Whether the run has ended without a record, and no one is left who would write it."""
    if info.state is State.RUNNING or info.recorded or not info.by or results.has(info.run):
        return False
    alive = _alive(info.by)
    if alive is None:
        return info.ended is None or time.time() - info.ended > ORPHAN_SECONDS
    return not alive


def from_nodes(remote: Remote, info: RunInfo, clocks: Clocks, outcome: Outcome) -> record.Record:
    """The record of a run from what its nodes know. RecordError where they do not know enough."""
    said, failed = remote.gather(info.nodes, lambda node: remote.call(node, AskAccount(info.run)))
    try:
        if not all(answer.record for answer in said.values()):
            raise KeyError("record")
        told = {name: answer.record or {} for name, answer in said.items()}
        asked = dict(next(iter(told.values())))
        asked["identity"] = {**asked["identity"], "run_id": info.run, "started": at(info.started)}
        ended = Ended(
            info.places,
            {node.name: told.get(node.name, {}).get("facts") or {} for node in info.nodes},
            {name: answer.interface for name, answer in said.items()},
            contention(remote, unserved(remote, info), outcome),
            info.owner,
            [NOTE],
        )
        made = of_run(remote.cluster, asked, ended, clocks, outcome)
        document.to_json(made)
    except (StopIteration, AttributeError, KeyError, TypeError, ValueError) as error:
        why = "; ".join(map(str, failed.values())) or f"what they keep of it is damaged ({type(error).__name__})"
        raise RecordError(f"no record of {info.run} can be made from what its nodes know: {why}") from error
    return made


def adopt(
    remote: Remote,
    infos: Sequence[RunInfo],
    results: Path,
    unasked: Mapping[str, Exception],
    say: Callable[[str], None],
) -> list[RunInfo]:
    """Write the records of ended runs that no one follows, the latest first, so many at a time; gives those runs.

    A run waits until all its nodes answer.
    """
    stores = {info.run: store.Store(_home(remote.cluster, info, results)) for info in infos}
    answered = [info for info in reversed(infos) if not set(_nodes(info)) & set(unasked)]
    done = []
    for info in [info for info in answered if is_orphan(info, stores[info.run])][:MOST_AT_ONCE]:
        kept, clocks = stores[info.run], Clocks(info.ranks, driver=info.adapter.driver)
        try:
            outcome = _account(remote, info, clocks)
            kept.save(from_nodes(remote, info, clocks, outcome))
            done.append(info)
            say(
                f"{info.run}: no controller followed it to its end; its record is written now, from what its nodes "
                f"know{'' if kept.root == results else f', in {kept.root}'}"
            )
        except RegattaError as error:
            say(f"{info.run} has no record yet: {error}")
    return done


def _home(cluster: Cluster, info: RunInfo, results: Path) -> Path:
    """The folder for a run's record: for runs only on this machine its own project's, else `results`."""
    its = Path(info.by.results) if cluster.local and info.by and info.by.results else results
    return its if its.is_dir() else results


def settle(remote: Remote, info: RunInfo) -> None:
    """Let the nodes of a run that a service took know that it has ended: without its controller only the head does."""
    if info.adapter.served(remote.cluster) and info.state is not State.RUNNING:
        ended = FinishRun(info.run, info.state, info.code or 0)
        remote.gather(info.nodes, lambda node: remote.call(node, ended, timeout=8))


def _account(remote: Remote, info: RunInfo, clocks: Clocks) -> Outcome:
    """Read what an ended run has printed about itself, and how it has ended on each node."""

    def on_line(_node: str, _rank: int | None, text: str, came: float) -> None:
        if event := events.parse_line(text):
            clocks.feed(event, came)

    settle(remote, info)
    return Follower(remote, unserved(remote, info), on_line, events_only=True).follow()


def _nodes(info: RunInfo) -> list[str]:
    """The nodes that the run was planned on, also those that have forgotten it."""
    return list(dict.fromkeys([*(node.name for node in info.nodes), *info.plan.ranks.values()]))


def _node_facts(
    name: str, address: str, ranks: Mapping[int, str], facts: Mapping[str, Any], shares: Sequence[str]
) -> record.NodeFacts:
    gpus = facts.get("gpus") or {}
    return record.NodeFacts(
        name=name,
        address=address,
        ranks=tuple(sorted(rank for rank, node in ranks.items() if node == name)),
        cpu=facts.get("cpu_model"),
        cores=facts.get("cores"),
        ram_bytes=facts.get("ram_bytes"),
        kernel=facts.get("kernel"),
        os=facts.get("os"),
        versions=facts.get("versions") or {},
        shares=tuple(shares),
        cpu_limit=facts.get("cpu_limit"),
        gpus=tuple(record.Gpu(card["name"], card["bytes"]) for card in gpus.get("cards", ())),
        gpu_driver=gpus.get("driver"),
    )


def _own() -> dict[str, Any]:
    """This process, so that another one can tell whether it lives, and where it keeps records."""
    place = {"host": platform.node(), "results": str(paths.results_dir().resolve())}
    return {"boot": _boot(), "pid": os.getpid(), "began": _began(os.getpid()), **place}


def _alive(by: FollowedBy) -> bool | None:
    """Whether the process that follows a run lives; None where it is, or was, one of another machine."""
    if by.boot != _boot():
        return None
    return by.pid is not None and _began(by.pid) == by.began


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _began(pid: int) -> str | None:
    """When a process of this machine was started, in the kernel's ticks; None where there is none."""
    with contextlib.suppress(OSError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return fields[19] if fields[0] != "Z" else None
    return None
