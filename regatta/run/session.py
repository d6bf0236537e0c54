"""One run from the synced tree to its record; what all `run` commands share."""

import contextlib
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from regatta.errors import LaunchError, RecordError, RunFailedError, UsageError
from regatta.frameworks import plan, registry
from regatta.frameworks.api import Framework, Handle, JobService
from regatta.hosts.cluster import Cluster
from regatta.hosts.remote import Remote
from regatta.records import building, events, record, store
from regatta.records.clocks import Clocks
from regatta.release import sync, tree
from regatta.run import catalogue, launch, naming, placement, recording
from regatta.run.follow import Follower, Outcome, reached
from regatta.run.interrupts import undisturbed
from regatta.run.request import Request
from regatta.terminal.console import Console

INTERRUPTED = 130


class Session:
    """Runs on one cluster from one controller; connections are shared between its runs."""

    def __init__(self, cluster: Cluster, console: Console, results: Path) -> None:
        self.cluster = cluster
        self.remote = Remote(cluster)
        self.console = console
        self.results = results
        self._stack = contextlib.ExitStack()
        self._pool = ThreadPoolExecutor(1)
        self._services: dict[str, Future[JobService]] = {}
        self._handle: Handle | None = None
        self._told: set[str] = set()

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=True)
        self._stack.close()

    def cores(self) -> int:
        """Cores of all workers together: the ranks of a run that says nothing about its workers."""
        answers = self.remote.everywhere(self.cluster.workers, "hello", step="cores")
        return sum(int(answer["facts"]["cores"]) for answer in answers.values())

    def _open(self, framework: Framework) -> "Future[JobService]":
        """Reach the service that takes a run while the release is being proven; it takes all runs of the session."""
        known = self._services.get(framework.name)
        if known is None or (known.done() and known.exception()):
            known = self._pool.submit(lambda: self._stack.enter_context(framework.open(self.remote)))
            self._services[framework.name] = known
        return known

    def reconnect(self) -> None:
        """Reach services anew at the next run: the head was away."""
        self._services.clear()

    def run(self, request: Request) -> record.Record:
        """Sync, start, follow, record. Raises RunFailedError after the record of a failed run has been kept."""
        if request.name and store.Store(self.results).has(request.name):
            raise UsageError(f"a record of a run named '{request.name}' is in {self.results}: choose another name")
        started = _now()
        clocks_start = time.monotonic()
        framework = registry.find(request.framework)
        service = self._open(framework) if framework.served(self.cluster) else None
        source = request.source or tree.read(request.root)
        self._tell(source)
        ports = {"ports": list(plan.PORTS)}
        seen = self._pool.submit(lambda: service.result().look()) if service else None
        ask: dict[str, dict[str, Any]] = {n.name: dict(ports) for n in (self.cluster.head, *self.cluster.workers)}
        if service:
            ask = {n.name: {**ask.get(n.name, {}), **framework.asks(self.cluster)} for n in self.cluster.nodes}
        synced = sync.sync(self.remote, source, self.cluster.nodes, ask=ask)
        synced_at = time.monotonic()
        facts = {name: answer["facts"] for name, answer in synced.answers.items()}
        if any(answer.get("unfinished") for answer in synced.answers.values()):
            for node, run in catalogue.end_stale(self.remote):
                self.console.warn(f"{node}: ended what was left there of {run}, which has ended elsewhere")
            self._tell_of_others()
        made = self._plan(request, source, {name: fact["cores"] for name, fact in facts.items()}, synced.answers)
        used = framework.nodes(made, self.cluster)
        if service and seen:
            service.result().wait(used, seen.result(), synced.answers, self.console.note)
        clocks = Clocks(len(made.ranks), driver=framework.driver)
        clocks.sync_seconds = synced_at - clocks_start
        clocks.start(synced_at)
        self.console.note(_headline(framework, made, self.cluster, source))

        about = recording.asked(self.cluster, request, made, started, source.commit, source.dirty)
        ranks = {rank.rank: rank.node.name for rank in made.ranks}

        def keep(outcome: Outcome) -> record.Record:
            clocks.end()
            own = {node.name: facts[node.name] for node in used}
            interfaces = self._handle.interfaces if self._handle else {}
            beside = recording.company(self.remote, self._handle, outcome) if self._handle else {}
            kept = recording.of_run(
                self.cluster, about, ranks, own, clocks, outcome, interfaces=interfaces, beside=beside
            )
            store.Store(self.results).save(kept)
            if self._handle:
                recording.mark(self.remote, self._handle, outcome)
            return kept

        self._handle = None
        try:
            with self._cancelled_by_hand(made.run):
                self._handle = launch.start(
                    self.remote,
                    made,
                    service.result() if service else None,
                    keep=lambda node: {**about, "facts": facts[node.name]},
                )
                outcome = self._follow(self._handle, clocks)
        except KeyboardInterrupt:
            if self._handle is not None:
                with undisturbed():
                    keep(Outcome("stopped", INTERRUPTED, None))
            raise
        try:
            kept = keep(outcome)
        except RecordError as error:
            self.console.error(f"{error}: free some room")
            self._raise_unless_succeeded(made.run, outcome, clocks)
            raise RecordError(f"{made.run} succeeded and has no record; what it printed: fab logs {made.run}") from None
        self._raise_unless_succeeded(made.run, outcome, clocks)
        return kept

    def _tell(self, source: tree.Tree) -> None:
        """Say once in a session what of a tree is not synced."""
        for line in source.notes:
            if line not in self._told:
                self._told.add(line)
                self.console.note(line)

    def _tell_of_others(self) -> None:
        """Say which runs go on beside the one that starts now."""
        for info in catalogue.listing(self.remote)[0]:
            if info.state == "running":
                self.console.warn(
                    f"{info.run} goes on on {', '.join(node.name for node in info.nodes)}: times taken beside it are "
                    f"marked, and left out of verdicts. For clean ones wait for its end, or 'fab cancel {info.run}'"
                )

    def keep_unstarted(self, request: Request, cause: str, *, lost: bool) -> record.Record:
        """Keep a record of a run that could not be started: it has a row, and the cause, and no clocks."""
        assert request.name is not None
        identity = record.RunIdentity(
            run_id=request.name,
            workload=request.program.label,
            framework=request.framework,
            started=_now(),
            parameters=recording.parameters(self.cluster, request, request.workers),
            seed=request.seed,
            release=request.source.release if request.source else None,
        )
        kept = building.build(
            identity,
            record.ClusterFacts(
                self.cluster.name,
                tuple(record.NodeFacts(node.name, node.cluster_address) for node in self.cluster.workers),
            ),
            record.Speed(cache=request.cache),
            Clocks(0),
            record.ExitInfo("lost" if lost else "failed", None, record.Failure(cause)),
            series=request.series,
            warnings=request.notes,
        )
        store.Store(self.results).save(kept)
        return kept

    def attach(self, info: catalogue.RunInfo) -> Outcome:
        """Follow a run that somebody started earlier, from its first line. Raises RunFailedError as `run` does.

        Where whoever started it is gone, its record is written here.
        """
        clocks = Clocks(info.ranks, driver=info.adapter.driver)
        self._handle = None
        recording.settle(self.remote, info)
        try:
            with contextlib.ExitStack() as stack:
                if info.state == "running":
                    stack.enter_context(self._cancelled_by_hand(info.run))
                    self._handle = stack.enter_context(catalogue.handle(self.remote, info))
                else:
                    self._handle = catalogue.unserved(self.remote, info)
                outcome = self._follow(self._handle, clocks)
        except KeyboardInterrupt:
            with undisturbed():
                self._adopt(info, clocks, Outcome("stopped", INTERRUPTED, None))
            raise
        self._adopt(info, clocks, outcome)
        self._raise_unless_succeeded(info.run, outcome, clocks)
        return outcome

    def _adopt(self, info: catalogue.RunInfo, clocks: Clocks, outcome: Outcome) -> None:
        """Write the record of a run that only we have seen to its end."""
        kept = store.Store(self.results)
        if recording.is_orphan(replace(info, state=outcome.state, ended=info.ended or 0.0), kept):
            try:
                kept.save(recording.from_nodes(self.remote, info, clocks, outcome))
            except RecordError as error:
                self.console.error(str(error))

    def _follow(self, handle: Handle, clocks: Clocks) -> Outcome:
        def on_line(node: str, rank: int | None, text: str) -> None:
            event = events.parse_line(text)
            if event is None:
                self.console.line(node, rank, text)
                return
            clocks.feed(event, time.monotonic())
            self.console.event(node, event)

        outcome = Follower(self.remote, handle, on_line, self.console.bars).follow()
        for name, ended in outcome.exits.items():
            if outcome.state == "succeeded":
                for text in reached(name, ended.get("reached") or {}):
                    self.console.warn(text)
            if lost := ended.get("lost_lines"):
                self.console.warn(f"{name}: {lost} line(s) of the log could not be written there: is a disk full?")
        return outcome

    @contextlib.contextmanager
    def _cancelled_by_hand(self, run: str) -> Iterator[None]:
        try:
            yield
        except KeyboardInterrupt:
            self.console.warn(f"cancelling {run} on every node")
            if self._handle is not None:
                _, failed = launch.stop_everywhere(self.remote, self._handle, list(self._handle.nodes), "Ctrl-C")
                for name, error in failed.items():
                    self.console.error(f"{name}: could not be told to stop ({error}); later: fab cancel {run}")
            raise

    def _plan(
        self, request: Request, source: tree.Tree, cores: dict[str, int], answers: dict[str, dict[str, Any]]
    ) -> plan.Plan:
        framework = registry.find(request.framework)
        ranks = placement.placed(framework, request.workers, self.cluster, cores)
        for warning in placement.crowded(ranks, cores):
            self.console.warn(warning)
        name = naming.check_run_name(request.name) if request.name else None
        return plan.Plan(
            run=name or naming.new_run_name(request.program.label, request.framework),
            framework=request.framework,
            program=request.program,
            release=source.release,
            ranks=ranks,
            threads=placement.threads(ranks, cores),
            launcher=request.launcher or framework.launcher(request.restarts),
            pg_timeout=request.pg_timeout,
            master_port=answers[ranks[0].node.name].get("port"),
            time_limit=request.time_limit,
            restarts=request.restarts,
            first_run=request.first_run,
        )

    def _raise_unless_succeeded(self, run: str, outcome: Outcome, clocks: Clocks) -> None:
        if outcome.state == "succeeded":
            return
        if clocks.error is not None:
            raise RunFailedError(clocks.error.message, outcome.code)
        if outcome.failure is not None:
            message = f"{run} failed: {outcome.failure.text()}\nthe whole log: fab logs {run}"
            raise RunFailedError(message, outcome.code, outcome.failure.host)
        raise RunFailedError(f"{run} was {recording.STATES[outcome.state]}", outcome.code)


def _now() -> str:
    """UTC by this machine's clock, as records have it."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def check_framework(value: str) -> tuple[record.Framework, ...]:
    """`torch`, `ray`, `single` or `both` -> the frameworks to run, in order."""
    if value == "both":
        return ("torch", "ray")
    for known in ("single", "torch", "ray"):
        if value == known:
            return (known,)
    raise UsageError(f"--framework must be torch, ray, single or both, not '{value}'")


def check_script(root: Path, script: str) -> str:
    """A script's path relative to the tree that is synced. UsageError where it is missing or outside."""
    path = Path(script)
    full = (path if path.is_absolute() else Path.cwd() / path).resolve()
    if not full.is_file():
        raise UsageError(f"there is no script {script} in {Path.cwd()}")
    try:
        return str(full.relative_to(root.resolve()))
    except ValueError:
        raise UsageError(f"{full} is outside {root}, the tree that is synced; run from the folder it is in") from None


def check_synced(source: tree.Tree, script: str) -> None:
    """LaunchError where the script is not synced: an ignore rule leaves it out, or it may be a secret."""
    if script in {entry[0] for entry in source.entries}:
        return
    if reason := dict(source.left).get(script):
        raise LaunchError(f"{script} is not synced ({reason}):\n" + "\n".join(source.notes))
    raise LaunchError(f"{script} is ignored by git, so it is not synced: add '!/{script}' to {tree.IGNORE_FILE}")


def _headline(framework: Framework, made: plan.Plan, cluster: Cluster, source: tree.Tree) -> str:
    places: Sequence[str] = [f"{len(made.on(node))} on {node.name}" for node in made.nodes]
    ranks = f"{len(made.ranks)} rank(s) x {made.threads} thread(s): {', '.join(places)}"
    return f"{made.run}: {framework.headline(made)}, {ranks}; release {source.release[:8]} on {cluster.name}"
