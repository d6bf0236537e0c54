"""One run from the synced tree to its record; what all `run` commands share."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from regatta.errors import RecordError, RunFailedError, UsageError
from regatta.frameworks import registry
from regatta.frameworks.api import StartedRun
from regatta.frameworks.plan import Program
from regatta.hosts.cluster import Cluster
from regatta.hosts.remote import Remote, ourselves
from regatta.options.declaration import RunOptions
from regatta.program import about_hosts, hint
from regatta.records import record, store
from regatta.records.clocks import Clocks
from regatta.run import catalogue, detach, gpus, launch, queue, recording
from regatta.run.follow import Follower
from regatta.run.outcome import Outcome, reached
from regatta.run.prepare import Preparer, Ready
from regatta.run.request import Request
from regatta.terminal.console import Console, quiet_line
from regatta.terminal.ctrl_c import interrupts_deferred
from regatta_protocol import events
from regatta_protocol.log import DRIVER
from regatta_protocol.operations.launch import Inspect
from regatta_protocol.operations.queue import Submitted
from regatta_protocol.states import State

INTERRUPTED = 130
AGAIN_SECONDS = 2.0
"""Seconds after Ctrl-C in which another one cancels a run that is only watched."""
LATE_SECONDS = 0.5
"""Seconds that times may be late, as output was not shown at once, before a warning."""


class LeftAlone(KeyboardInterrupt):
    """A person stopped watching a run, which continues."""


@dataclass(frozen=True)
class Begun:
    """A run that has been started here, and is to be followed."""

    request: Request
    ready: Ready
    clocks: Clocks
    handle: StartedRun


class Session:
    """Runs on one cluster from one controller; connections are shared between its runs, which threads may start."""

    def __init__(self, cluster: Cluster, console: Console, results: Path, remote: Remote | None = None) -> None:
        self.cluster = cluster
        self.remote = remote or Remote(cluster)
        self.console = console
        self.results = results
        self._preparer = Preparer(self.remote, console)
        self._beginning = threading.Lock()

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self._preparer.close()
        self.remote.rest(self.cluster.nodes)

    def cores(self) -> dict[str, int]:
        """Cores of each worker."""
        answers = self.remote.everywhere(self.cluster.workers, Inspect(), step="cores")
        return {name: int(answer.facts["cores"]) for name, answer in answers.items()}

    def ranks(self, programs: Mapping[str, Program], options: RunOptions) -> tuple[int, bool]:
        """Return how many ranks all of these programs, by framework, can have that say nothing about it: one a GPU
        where one of them computes on those (the second value), else one a core. UsageError for GPUs that are not there.
        """
        computing = {name: program for name, program in programs.items() if program.gpus}
        head, workers = self.cluster.head, self.cluster.workers
        nodes = tuple({node.name: node for node in (head, *workers)}.values())
        answers = self.remote.everywhere(nodes, Inspect(packages=bool(computing)), step="cores")
        told = {name: gpus.granted(answer, None, waits=True) for name, answer in answers.items()}
        chosen = [
            (framework, gpus.choose(framework, program, options, self.cluster, told, answers[head.name].packages).ranks)
            for framework, program in ((registry.find(name), program) for name, program in computing.items())
        ]
        counts = [len(ranks) for framework, ranks in chosen if ranks and not framework.single]
        cores = sum(int(answers[node.name].facts["cores"]) for node in workers)
        return (min(counts), True) if counts else (cores, False)

    @contextlib.contextmanager
    def together(self, label: str, *, now: bool = False) -> Iterator[None]:
        """Hold all workers for several runs, which then wait for nothing."""
        self._preparer.held = None if now else queue.of_all(self.remote, label, self.console.note)
        try:
            yield
        finally:
            held, self._preparer.held = self._preparer.held, None
            if held:
                held.close()

    def reconnect(self) -> None:
        """Reach services again at the next run: the head was away."""
        self._preparer.reconnect()

    def bring(self, request: Request) -> None:
        """Bring the tree and the packages of a run to the nodes, so that a timed run finds them there."""
        with self._beginning:
            self._preparer.bring(request)

    def run(self, request: Request, ready: Ready | None = None) -> record.Record:
        """Sync, start, follow, record. Raises RunFailedError after the record of a failed run has been kept."""
        return self.finish(self.begin(request, ready))

    def ready(self, requests: Sequence[Request]) -> list[Ready]:
        """Make runs ready that threads then start at the same moment."""
        with self._beginning:
            found = [self._preparer.ready(request) for request in requests]
        now = time.monotonic()
        return [one.at(now) for one in found]

    def begin(self, request: Request, ready: Ready | None = None) -> Begun:
        """Sync and start; only start what is `ready`."""
        if request.options.after:
            raise UsageError("--after needs --detach: a run with a controller starts when you start it")
        if request.options.notify:
            from regatta.run import notices

            notices.check(request.options.notify)
        if ready is not None:
            return self._begun(request, ready)
        self._check_name(request)
        with self._beginning:
            return self._begun(request, self._preparer.ready(request))

    def _begun(self, request: Request, ready: Ready) -> Begun:
        clocks = ready.clocks()
        try:
            return Begun(request, ready, clocks, self._start(ready))
        except BaseException:
            ready.leave()
            raise

    def _check_name(self, request: Request) -> None:
        """UsageError where there is a record of a run of this name, which would hide that of the new one."""
        if request.options.name and store.Store(self.results).has(request.options.name):
            raise UsageError(
                f"a record of a run named '{request.options.name}' is in {self.results}: choose another name"
            )

    def submit(self, request: Request) -> tuple[str, Submitted]:
        """Put a run into the cluster's queue, from which it starts without this program; returns its name.

        Raises UsageError where it cannot be without a controller.
        """
        framework = registry.find(request.framework)
        if not queue.slurm(self.remote):
            raise UsageError(
                f"--detach needs Slurm, and {self.cluster.name} has none: set slurm_enabled: true in its "
                f"variables, then '{about_hosts('provision')}'"
                if not self.cluster.local
                else "--detach needs a cluster of hosts: leave it out on this machine"
            )
        if why := framework.followed:
            raise UsageError(f"{framework.name} needs a controller until the run's end ({why}): leave --detach out")
        self._check_name(request)
        after = queue.job_of(self.remote, request.options.after) if request.options.after else None
        with self._beginning:
            ready = self._preparer.ready(request)
        asked = detach.request(self.remote, ready.plan, framework, ready.about, ready.facts, after)
        return ready.plan.run, self.remote.call(self.cluster.head, asked)

    def finish(self, begun: Begun) -> record.Record:
        """Follow a run that has begun, and record it. Ctrl-C cancels it. Raises RunFailedError as `run` does."""
        try:
            with self._telling(begun.request, begun.handle.run) as tell:
                return self._finish(begun, tell)
        finally:
            begun.ready.leave()

    @contextlib.contextmanager
    def _telling(self, request: Request, run: str) -> Iterator[Callable[[str, str], None]]:
        """Send how a run has ended to its `--notify`, and what the caller gives meanwhile: a state, and a sentence."""
        if not request.options.notify:
            yield lambda state, words: None
            return
        from regatta.run.notices import Notices

        made = Notices(request.options.notify, run, self.cluster.name, ourselves(), self.console.warn)
        try:
            yield made.tell
            made.tell(State.SUCCEEDED, f"{run} on {self.cluster.name}: succeeded")
        except RunFailedError as error:
            made.tell(State.FAILED, f"{run} on {self.cluster.name}: {error}")
            raise
        finally:
            made.settle()

    def _finish(self, begun: Begun, tell: Callable[[str, str], None]) -> record.Record:
        request, ready, clocks, handle = begun.request, begun.ready, begun.clocks, begun.handle
        try:
            with self._cancelled_by_hand(handle):
                outcome = self._follow(handle, clocks, tell)
        except KeyboardInterrupt:
            with interrupts_deferred():
                self._keep(ready, handle, clocks, Outcome(State.STOPPED, INTERRUPTED, None))
            raise
        run = handle.run
        try:
            kept = self._keep(ready, handle, clocks, outcome)
        except RecordError as error:
            self.console.error(str(error))
            self._fetch(request, handle, failed=outcome.state is not State.SUCCEEDED)
            _raise_unless_succeeded(run, outcome, clocks)
            raise RecordError(f"{run} succeeded and has no record; what it printed: {hint('logs', run)}") from None
        self._fetch(request, handle, failed=outcome.state is not State.SUCCEEDED)
        _raise_unless_succeeded(run, outcome, clocks)
        return kept

    def _fetch(self, request: Request, handle: StartedRun, *, failed: bool) -> None:
        """Bring here what was asked for of a run that has ended; what does not come is a line, and no failure."""
        from regatta.run import fetching

        if request.options.fetch:
            with self._told_of_what_is_left(handle.run):
                fetching.at_end(self.remote, handle, request, self.results, self.console, failed=failed)

    @contextlib.contextmanager
    def _told_of_what_is_left(self, run: str) -> Iterator[None]:
        try:
            yield
        except KeyboardInterrupt:
            self.console.warn(f"{run}: interrupted; to continue: {hint('fetch', run)}")
            raise

    def keep_unstarted(self, request: Request, cause: str, *, lost: bool) -> record.Record:
        """Keep a record of a run that could not be started: it has a row, and the cause, and no times."""
        kept = recording.of_unstarted(self.cluster, request, cause, lost=lost)
        store.Store(self.results).save(kept)
        return kept

    def attach(self, info: catalogue.RunInfo) -> Outcome:
        """Follow a run that was started earlier, from its first line. Raises RunFailedError as `run` does.

        Where whoever started it is gone, its record is written here. Ctrl-C raises LeftAlone, and the run continues.
        """
        clocks = Clocks(info.ranks, driver=info.adapter.driver)
        recording.settle(self.remote, info)
        try:
            with self._attached(info) as handle:
                outcome = self._follow(handle, clocks)
        except LeftAlone:
            raise
        except KeyboardInterrupt:
            with interrupts_deferred():
                self._adopt(info, clocks, Outcome(State.STOPPED, INTERRUPTED, None))
            raise
        self._adopt(info, clocks, outcome)
        _raise_unless_succeeded(info.run, outcome, clocks)
        return outcome

    def _start(self, ready: Ready) -> StartedRun:
        try:
            handle = launch.start(self.remote, ready.plan, ready.service, keep=ready.kept_on)
            for name, said in handle.answers.items():
                if said.unshared:
                    self.console.warn(f"{name}: {said.unshared}")
            return handle
        except KeyboardInterrupt:
            self._warn_of_cancelling(ready.plan.run)
            raise

    def _follow(
        self, handle: StartedRun, clocks: Clocks, tell: Callable[[str, str], None] = lambda state, words: None
    ) -> Outcome:
        def on_line(node: str, rank: int | None, text: str, came: float) -> None:
            event = events.parse_line(text)
            if event is None:
                self.console.line(node, rank, text)
                return
            clocks.feed(event, came)
            self.console.event(node, event)

        def warn(text: str) -> None:
            event = events.WarningEvent(rank=DRIVER, t=time.time(), message=text)
            clocks.feed(event, time.monotonic())
            self.console.event(handle.cluster.head.name, event)

        def on_gone(node: str) -> None:
            warn(f"{node} is lost in mid-run: the run continues without it")

        def on_quiet(seconds: float) -> None:
            self.console.note(quiet_line(handle.run, seconds))
            tell("stalled", quiet_line(handle.run, seconds))

        follower = Follower(self.remote, handle, on_line, self.console.bars, on_gone=on_gone, on_quiet=on_quiet)
        try:
            outcome = follower.follow()
        finally:
            self.console.clear_bars()
        if (late := max(follower.watch.held.values(), default=0.0)) >= LATE_SECONDS:
            warn(f"the run printed more than could be shown at once: its times here are late by up to {late:.1f} s")
        for name, ended in outcome.exits.items():
            if outcome.state is State.SUCCEEDED:
                for text in reached(name, ended.reached):
                    self.console.warn(text)
            if lost := ended.lost_lines:
                self.console.warn(f"{name}: {lost} line(s) of the log could not be written there: is a disk full?")
        return outcome

    def _keep(self, ready: Ready, handle: StartedRun, clocks: Clocks, outcome: Outcome) -> record.Record:
        """Write the record of a run that has ended, and tell the nodes. Raises RecordError."""
        clocks.end()
        ended = recording.Ended(
            ready.places,
            {node.name: ready.facts[node.name] for node in ready.nodes},
            handle.interfaces,
            recording.contention(self.remote, handle, outcome),
            handle.owner,
        )
        kept = recording.of_run(self.cluster, ready.about, ended, clocks, outcome)
        store.Store(self.results).save(kept)
        recording.mark(self.remote, handle, outcome)
        return kept

    @contextlib.contextmanager
    def _attached(self, info: catalogue.RunInfo) -> Iterator[StartedRun]:
        """Give what is needed to follow a run; Ctrl-C leaves it alone, a second one cancels it."""
        if info.state is not State.RUNNING:
            yield catalogue.unserved(self.remote, info)
            return
        with catalogue.handle(self.remote, info) as handle, self._left_by_hand(handle):
            yield handle

    def _adopt(self, info: catalogue.RunInfo, clocks: Clocks, outcome: Outcome) -> None:
        """Write the record of a run that only we have seen to its end."""
        kept = store.Store(self.results)
        if recording.is_orphan(replace(info, state=outcome.state, ended=info.ended or 0.0), kept):
            try:
                kept.save(recording.from_nodes(self.remote, info, clocks, outcome))
            except RecordError as error:
                self.console.error(str(error))

    @contextlib.contextmanager
    def _left_by_hand(self, handle: StartedRun) -> Iterator[None]:
        try:
            yield
        except KeyboardInterrupt:
            run = handle.run
            with self._cancelled_by_hand(handle):
                self.console.note(
                    f"{run} continues. To watch it again: {hint('attach', run)}; to end it: {hint('cancel', run)}, "
                    "or Ctrl-C again now"
                )
                time.sleep(AGAIN_SECONDS)
            raise LeftAlone from None

    @contextlib.contextmanager
    def _cancelled_by_hand(self, handle: StartedRun) -> Iterator[None]:
        try:
            yield
        except KeyboardInterrupt:
            self._warn_of_cancelling(handle.run)
            _, failed = launch.stop_everywhere(self.remote, handle, list(handle.nodes), "Ctrl-C")
            for name, error in failed.items():
                self.console.error(f"{name}: could not be told to stop ({error}); later: {hint('cancel', handle.run)}")
            raise

    def _warn_of_cancelling(self, run: str) -> None:
        self.console.warn(f"cancelling {run} on every node")


def _raise_unless_succeeded(run: str, outcome: Outcome, clocks: Clocks) -> None:
    if outcome.state is State.SUCCEEDED:
        return
    if clocks.error is not None:
        raise RunFailedError(clocks.error.message, outcome.code)
    if outcome.failure is not None:
        message = f"{run} failed: {outcome.failure.text()}\nthe whole log: {hint('logs', run)}"
        raise RunFailedError(message, outcome.code, outcome.failure.host)
    raise RunFailedError(f"{run} was {outcome.state.recorded}", outcome.code)
