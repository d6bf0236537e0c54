"""Runs as the nodes know them: list, find, read the log, cancel, attach. Nothing is kept on the controller for this."""

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from regatta.errors import NodesError, RegattaError, RunError
from regatta.frameworks import registry
from regatta.frameworks.api import Framework, JobService, StartedRun
from regatta.hosts.cluster import Node
from regatta.hosts.remote import TIMEOUT, Remote
from regatta.run.launch import STOP_TIMEOUT, stop_everywhere
from regatta_protocol.operations.runs import ListRuns, Prune, Pruned, StopRun, WatchRun
from regatta_protocol.run import FollowedBy, Listed, PlanKept
from regatta_protocol.states import State

STALE_SECONDS = 10.0
DELETE_TIMEOUT = 600.0
_WORST = (State.RUNNING, State.FAILED, State.LOST, State.STOPPED, State.SUCCEEDED)


@dataclass(frozen=True)
class RunInfo:
    """A run, put together from what each node says; times are Unix seconds by the nodes' clocks.

    `recorded`: who followed it to its end has kept a record; `by`: the process that started it to follow it; `owner`:
    whose it is, `others`: not ours.
    """

    run: str
    state: State
    framework: str
    started: float
    ended: float | None
    code: int | None
    nodes: tuple[Node, ...]
    plan: PlanKept
    release: str
    recorded: bool = False
    by: FollowedBy | None = None
    owner: str = ""
    others: bool = False

    @property
    def adapter(self) -> Framework:
        """Its framework's adapter."""
        return registry.of_run(self.framework)

    @property
    def places(self) -> dict[int, str]:
        """The name of each rank's node."""
        return {int(rank): node for rank, node in self.plan.ranks.items()}

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return len(self.plan.ranks)


def listing(remote: Remote, timeout: float = TIMEOUT) -> tuple[list[RunInfo], dict[str, Exception]]:
    """All runs, oldest first, and the nodes that could not be asked. NodesError where none could."""
    answers, failed = _listed(remote, timeout)
    if failed and not answers:
        raise NodesError("runs", failed)
    return together(remote, answers), failed


def _listed(remote: Remote, timeout: float = TIMEOUT) -> tuple[dict[str, tuple[Listed, ...]], dict[str, Exception]]:
    if timeout >= TIMEOUT:
        return remote.gather(remote.cluster.nodes, lambda node: remote.call(node, ListRuns()).runs)
    said, failed = remote.promptly(remote.cluster.nodes, ListRuns(), timeout)
    order = [node.name for node in remote.cluster.nodes]
    return {name: said[name].runs for name in order if name in said}, failed


def together(remote: Remote, said: Mapping[str, Sequence[Listed]]) -> list[RunInfo]:
    """The runs that nodes, by name, have told of, oldest first."""
    parts: dict[str, dict[str, Listed]] = {}
    for name, items in said.items():
        for item in items:
            parts.setdefault(item.id, {})[name] = item
    return sorted((_merge(remote, run, by_node) for run, by_node in parts.items()), key=lambda info: info.started)


def _merge(remote: Remote, run: str, by_node: dict[str, Listed]) -> RunInfo:
    items = list(by_node.values())
    spec = items[0].spec
    telling = items
    if registry.of_run(spec.framework).driver and remote.cluster.head.name in by_node:
        telling = [by_node[remote.cluster.head.name]]
    state = min((item.state for item in telling), key=_WORST.index)
    ended = [item.ended for item in telling if item.ended]
    codes = [item.code for item in telling if item.state is state]
    return RunInfo(
        run=run,
        state=state,
        framework=spec.framework,
        started=min(item.started for item in items),
        ended=max(ended) if len(ended) == len(telling) else None,
        code=codes[0] if codes else None,
        nodes=tuple(remote.cluster.node(name) for name in by_node),
        plan=spec.plan,
        release=spec.release,
        recorded=any(item.recorded for item in items),
        by=next((item.by for item in items if item.by), None),
        owner=next((item.owner for item in items if item.owner), ""),
        others=any(item.others for item in items),
    )


def find(remote: Remote, wanted: str, timeout: float = TIMEOUT) -> RunInfo:
    """A run by its id, a unique beginning of it, or `last`. RunError names what there is instead."""
    runs, failed = listing(remote, timeout)
    missing = f" ({', '.join(failed)} could not be asked)" if failed else ""
    if wanted == "last" and runs:
        return runs[-1]
    found = [info for info in runs if info.run == wanted] or [info for info in runs if info.run.startswith(wanted)]
    if len(found) == 1:
        return found[0]
    if found:
        raise RunError(f"'{wanted}' may be any of {', '.join(info.run for info in found)}: type more of the name")
    known = ", ".join(info.run for info in runs[-5:]) or "none"
    raise RunError(f"no run '{wanted}' on {remote.cluster.name}{missing}; the latest are: {known}")


@contextlib.contextmanager
def handle(remote: Remote, info: RunInfo) -> Iterator[StartedRun]:
    """Give what is needed to follow or cancel a run; a service is reached only where it takes the run."""
    with contextlib.ExitStack() as stack:
        served = info.adapter.served(remote.cluster)
        yield unserved(remote, info, stack.enter_context(info.adapter.open(remote)) if served else None)


def unserved(remote: Remote, info: RunInfo, service: JobService | None = None) -> StartedRun:
    """The same without the service that takes the run: it has ended, or cannot be reached."""
    return StartedRun(info.run, remote.cluster, info.nodes, info.adapter, info.places, service)


def cancel(remote: Remote, info: RunInfo) -> None:
    """Stop a run on all its nodes, also what a lost one has left behind.

    RunError where it has ended already, NodesError where a node could not be asked.
    """
    if info.state not in (State.RUNNING, State.LOST):
        raise RunError(f"{info.run} is not running: it has {info.state}")
    with contextlib.ExitStack() as stack:
        try:
            used = stack.enter_context(handle(remote, info))
        except RegattaError:
            used = unserved(remote, info)
        _, failed = stop_everywhere(remote, used, list(info.nodes), "cancelled")
        if silent := [node for node in info.nodes if node.name in failed]:  # a busy one may answer now
            _, failed = stop_everywhere(remote, used, silent, "cancelled")
    if failed:
        raise NodesError(f"cancel {info.run}", failed)


def end_stale(remote: Remote) -> list[tuple[str, str]]:
    """End what nodes still have of runs that have ended elsewhere, as after a host was cut off: (node, run) of each.

    A run whose host went down is lost there. A run in progress everywhere is left alone; nodes that do not
    answer are left out. One that has just ended may be being ended still: that is waited for, `STALE_SECONDS` at most.
    """
    until = time.monotonic() + STALE_SECONDS + 1
    while True:
        by_node, head = _listed(remote)[0], remote.cluster.head.name
        found = stale(by_node, head)
        if set(found) == set(stale(by_node, head, settled=0.0)) or time.monotonic() > until:
            break
        time.sleep(0.5)
    work = [remote.cluster.node(name) for name in {name for name, _ in found}]

    def end(node: Node) -> None:
        for name, run in found:
            if name == node.name:
                remote.call(node, StopRun(run, "the run has ended elsewhere"), timeout=STOP_TIMEOUT)

    ended, _ = remote.gather(work, end)
    return [(name, run) for name, run in found if name in ended]


def stale(by_node: Mapping[str, Sequence[Listed]], head: str, settled: float = STALE_SECONDS) -> list[tuple[str, str]]:
    """(node, run) of runs that are lost on a node, or still run there though they failed or were stopped elsewhere.

    Where a driver speaks for all ranks, what counts is how it has ended on the head. A run that ended less than
    `settled` seconds ago is still being ended, and one that has just begun is not lost.
    """
    ended: set[str] = set()
    for name, items in by_node.items():
        for item in items:
            over = item.state in (State.FAILED, State.STOPPED, State.LOST)
            if registry.of_run(item.spec.framework).driver:
                over = name == head and item.state is not State.RUNNING
            if over and item.idle is not None and item.idle > settled:
                ended.add(item.id)
    return [
        (name, item.id)
        for name, items in by_node.items()
        for item in items
        if item.idle is None and item.age > STALE_SECONDS
        if item.state is State.LOST or item.id in ended
    ]


def delete(remote: Remote, chosen: list[RunInfo], unused: float) -> tuple[dict[str, Pruned], dict[str, Exception]]:
    """Delete what ended runs have left on all nodes, and input files that no run has used for `unused` seconds.

    By node what went there, or why it could not be asked.
    """
    asked = Prune(tuple(info.run for info in chosen), unused)
    return remote.gather(remote.cluster.nodes, lambda node: remote.call(node, asked, timeout=DELETE_TIMEOUT))


def log(remote: Remote, info: RunInfo, read: dict[str, int] | None = None) -> Iterator[tuple[str, int | None, str]]:
    """(node, rank, text) of everything that a run has printed so far, node after node.

    `read` gets how many bytes of each node's log that is.
    """
    for node in info.nodes:
        with remote.stream(node, WatchRun(info.run)) as stream:
            for line in stream:
                for rank, text in line.lines or ():
                    yield node.name, rank, text
                if read is not None and line.offset is not None:
                    read[node.name] = line.offset
                if line.beat:
                    break
