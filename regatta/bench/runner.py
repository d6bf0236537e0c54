"""Runs what is left of a plan, one run after the other; a run that fails is a row, and a lost node is waited for."""

import contextlib
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Literal

from regatta.bench import order, until
from regatta.bench.estimate import span
from regatta.bench.inputs import Inputs
from regatta.bench.order import Entry
from regatta.bench.survey import Survey, check_room
from regatta.bench.view import View
from regatta.environment.variables import Variables
from regatta.errors import BusyError, NodesError, RecordError, RegattaError, RunError, RunFailedError, UnreachableError
from regatta.experiments import job
from regatta.hosts.cluster import Node
from regatta.hosts.lease import Lease
from regatta.program import hint
from regatta.records import stats, store
from regatta.records.record import Record
from regatta.release import sync
from regatta.run import catalogue, naming, services
from regatta.run.follow import ConnectionLostError
from regatta.run.prepare import Ready
from regatta.run.request import Request
from regatta.run.session import Session
from regatta.terminal.ctrl_c import interrupts_deferred
from regatta_protocol.operations.hosts import CoolCaches
from regatta_protocol.operations.launch import Inspect
from regatta_protocol.states import State

COOL_SECONDS = 120.0
ASK_SECONDS = 10.0
POLL_SECONDS = 5.0
AGAIN_SECONDS = 1.0
WAIT_SECONDS = 1800.0


@dataclass
class Spent:
    """Seconds of a bench: `runs` as their records say (one that was interrupted: as seen here), `prepared` for data and
    cold caches, `waited` for nodes.
    """

    count: int = 0
    wall: float = 0.0
    runs: float = 0.0
    prepared: float = 0.0
    waited: float = 0.0

    @property
    def overhead(self) -> float:
        """Seconds that the bench itself took: of `wall` what is neither runs, nor preparing, nor waiting."""
        return max(0.0, self.wall - self.runs - self.prepared - self.waited)

    def text(self) -> str:
        """For a person, with what the bench itself took."""
        share = self.overhead / self.wall if self.wall else 0.0
        waited = f", {self.waited:.1f} s waiting for nodes" if self.waited else ""
        return (
            f"{self.count} runs in {span(self.wall)}: {self.runs:.1f} s timed, {self.prepared:.1f} s for data and "
            f"caches{waited}; the bench itself {self.overhead:.2f} s ({share:.1%}), "
            f"{self.overhead / max(1, self.count):.2f} s a run"
        ).replace("%)", " %)")


@dataclass
class Bench:
    """One `fab bench`. `records` are those of the whole set, also of earlier commands; `variables` of all its runs."""

    session: Session
    survey: Survey
    view: View
    lease: Lease
    wait_seconds: float = WAIT_SECONDS
    variables: Variables = field(default_factory=Variables)
    records: list[Record] = field(init=False)
    left: list[Entry] = field(init=False)
    spent: Spent = field(default_factory=Spent)
    _jobs: dict[str, job.Job] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.records = list(self.survey.done)
        self.left = list(self.survey.left)

    def run(self) -> None:
        """Run what is left, within the plan's budget.

        Raises BusyError where other runs are in progress, RecordError where records cannot be kept any more,
        RunError where a lost node stays away; what has run until then is recorded, and the same command continues.
        """
        began = time.monotonic()
        check_room(self.session.results, len(self.left))
        try:
            with self.session.together(self.survey.set):
                self._alone()
                self._prepare()
                self._all(began)
        except KeyboardInterrupt:
            self.view.rest()
            self.view.say(f"interrupted: {self._again()}")
            raise
        finally:
            self.view.rest()
            self.spent.wall = time.monotonic() - began

    def _all(self, began: float) -> None:
        """Run all that is left, within the budget since `began`."""
        budget = self.survey.plan.budget
        index = 0
        while index < len(self.left):  # `_look` shortens it meanwhile
            if budget is not None and time.monotonic() - began > budget:
                left = len(self.left) - index
                self.view.say(f"{span(budget)} are used up, {left} runs are left: {self._again()}")
                return
            if self.left[index].half:
                self._duet(index, *self.left[index : index + 2])
                index += 2
            else:
                self._one(index, self.left[index])
                index += 1
            self._look(index)

    def _look(self, index: int) -> None:
        """Leave out what is left of points whose intervals are narrow enough, where a round has ended."""
        rest = self.left[index:]
        if self.survey.plan.until is None or (rest and rest[0].repeat == self.left[index - 1].repeat):
            return
        del self.left[index:]
        self.left += until.left(self.survey.plan, rest, self.records)
        if self.left[index - 1].repeat in stats.looks(self.survey.plan.repeats) and not self.left[index - 1].warm_up:
            for line in until.lines(self.survey.plan, self.survey.points, self.records):
                self.view.say(line)

    def _alone(self) -> None:
        """BusyError where something runs on the cluster, such as what a bench left whose controller was killed."""
        going = [info.run for info in catalogue.listing(self.session.remote)[0] if info.state is State.RUNNING]
        if going:
            raise BusyError(
                f"{', '.join(going)} still run(s) on {self.session.cluster.name} and would be timed with the bench: "
                f"wait, or '{hint('cancel', going[0])}'"
            )

    def recorded(self) -> int:
        """Return how many of the set's runs have a record."""
        return len(order.recorded(self.records))

    def _prepare(self) -> None:
        """Release, data and packages on every node, outside the timers."""
        began = time.monotonic()
        sync.sync(self.session.remote, self.survey.source, self.session.cluster.nodes)
        inputs = Inputs(self.session, self.survey.plan.seed, self.view.say)
        wanted = {entry.point.name: entry.point for entry in self.survey.left}
        self._jobs = {name: inputs.job(point) for name, point in wanted.items()}
        requests = [self._request(entry, None, ()) for entry in self.survey.left]
        for request in {(one.framework, one.environment): one for one in requests}.values():
            self.session.bring(request)
        self.spent.prepared += time.monotonic() - began

    def _one(self, index: int, entry: Entry) -> None:
        entries, estimates = self.left, self.survey.estimates
        following = entries[index + 1] if index + 1 < len(entries) else None
        done = self.survey.total - len(self.survey.left)
        left = estimates.total(entries[index:])
        self.view.begin(self.survey.set, entry, done + index + 1, done + len(entries), following, left)
        cold = self.survey.plan.cache == "cold"
        request = self._request(entry, *(self._cool() if cold else (_warm(entry), ())))
        began = time.monotonic()
        total: float | None = None
        try:
            record = self._run(request)
            total = record.phases.total
        finally:
            self.spent.runs += total if total is not None else time.monotonic() - began
        self.spent.count += 1
        self.records.append(record)
        estimates.add(record)
        self.view.end(record, estimates.total(entries[index + 1 :]))
        if record.exit.state != "succeeded" and following is not None:
            self._wait_for_nodes([str(request.options.name)])

    def _duet(self, index: int, one: Entry, other: Entry) -> None:
        """Run two at the same moment, each on its half of the cores."""
        entries, estimates = self.left, self.survey.estimates
        following = entries[index + 2] if index + 2 < len(entries) else None
        done, left = self.survey.total - len(self.survey.left), estimates.total(entries[index:]) / 2
        self.view.begin(self.survey.set, one, done + index + 1, done + len(entries), following, left, beside=other)
        cache, notes = self._cool() if self.survey.plan.cache == "cold" else (_warm(one), ())
        label = self._jobs[one.point.name].label
        names = [naming.new_run_name(label, each.framework) for each in (one, other)]
        requests = [self._request(one, cache, notes, names), self._request(other, cache, notes, names[::-1])]
        ready: list[Ready] = []
        with contextlib.suppress(RegattaError):  # each run meets it again, and records it
            ready = self.session.ready(requests)
        began = time.monotonic()
        with ThreadPoolExecutor(2) as pool:
            going = [pool.submit(self._run, *each) for each in zip_longest(requests, ready)]
            try:
                records = [future.result() for future in going]
            except KeyboardInterrupt:
                self._cancel(names, going)
                self.records += [future.result() for future in going if future.exception() is None]
                raise
            finally:
                self.spent.runs += time.monotonic() - began
        self.spent.count += 2
        self.records += records
        for record in records:
            estimates.add(record)
        self.view.end(records[0], estimates.total(entries[index + 2 :]) / 2, beside=records[1])
        if any(record.exit.state != "succeeded" for record in records) and following is not None:
            self._wait_for_nodes(names)

    def _cancel(self, names: Sequence[str], going: Sequence[Future[Record]]) -> None:
        """Cancel runs that threads follow, where Ctrl-C does not reach them, until they have ended."""
        with interrupts_deferred():
            while not all(future.done() for future in going):
                for name in names:
                    self._end(name)
                wait(going, AGAIN_SECONDS)

    def _end(self, name: str) -> None:
        with contextlib.suppress(RegattaError):  # it may have ended, or never begun
            catalogue.cancel(self.session.remote, catalogue.find(self.session.remote, name))

    def _request(
        self,
        entry: Entry,
        cache: Literal["cold", "warm"] | None,
        notes: tuple[str, ...],
        names: Sequence[str] = (),
    ) -> Request:
        """`names`: of the run and its partner, where it has one."""
        job = self._jobs[entry.point.name]
        name, partner = names or (naming.new_run_name(job.label, entry.framework), None)
        base = Request(
            program=job.programs[entry.framework],
            framework=entry.framework,
            root=self.survey.source.root,
            options=replace(
                entry.point.options,
                workers=entry.point.workers,
                name=name,
            ),
            series=entry.series(self.survey.plan, self.survey.set, partner),
            hosts=entry.hosts(self.survey.plan, [node.name for node in self.session.cluster.workers]),
            source=self.survey.source,
            cache=cache,
            notes=notes,
            variables=self.variables,
        )
        return job.request(base, entry.framework)

    def _cool(self) -> tuple[Literal["cold"] | None, tuple[str, ...]]:
        """Make the caches of every node cold; says which could not be."""
        began = time.monotonic()
        answers, failed = self.session.remote.gather(
            self.session.cluster.nodes,
            lambda node: self.session.remote.call(node, CoolCaches(whole=node.privileged), timeout=COOL_SECONDS),
        )
        self.spent.prepared += time.monotonic() - began
        notes = [f"{name}: caches are not cold ({error})" for name, error in failed.items()]
        notes += [
            f"{name}: caches are cold only for input files, programs' pages stay ({answer.reason})"
            for name, answer in answers.items()
            if answer.pages != "all"
        ]
        for note in notes:
            self.view.warn(note)
        return (None if notes else "cold"), tuple(notes)

    def _run(self, request: Request, ready: Ready | None = None) -> Record:
        """Run, and find or make the record, whatever happens."""
        assert request.options.name is not None
        kept = store.Store(self.session.results)
        try:
            return self.session.run(request, ready)
        except RunFailedError:
            return kept.find(request.options.name)
        except RecordError as error:
            raise RecordError(
                f"{error}\nThe run {request.options.name} has no record, and will be repeated: {self._again()}"
            ) from None
        except RegattaError as error:
            lost = isinstance(error, UnreachableError | ConnectionLostError) or (
                isinstance(error, NodesError) and any(isinstance(e, UnreachableError) for e in error.failures.values())
            )
            return self.session.keep_unstarted(request, " ".join(str(error).split()), lost=lost)

    def _wait_for_nodes(self, names: Sequence[str]) -> None:
        """After runs that failed: where nodes do not answer, wait until they are back and what they serve is, too."""
        away = self._away()
        if not away:
            return
        began = time.monotonic()
        try:
            self.view.say(f"{', '.join(away)}: no answer; waiting up to {span(self.wait_seconds)} until back")
            while away := self._away():
                if time.monotonic() - began > self.wait_seconds:
                    raise RunError(
                        f"{', '.join(away)} did not come back within {span(self.wait_seconds)}. "
                        f"When it is up again: {self._again()}"
                    )
                time.sleep(POLL_SECONDS)
            self.view.say("all nodes answer again")
            self.session.reconnect()
            for name in names:
                self._end(name)
            if not self.session.cluster.local:
                services.wait_for_hdfs(self.session.remote)
                for framework in services.served(self.session.cluster):
                    services.wait_until_joined(self.session.remote, framework)
            self.lease.take()
        finally:
            self.spent.waited += time.monotonic() - began
        self._prepare()

    def _again(self) -> str:
        return f"the same `{hint('bench')}` continues with what is left of {self.survey.set}"

    def _away(self) -> list[str]:
        def ask(node: Node) -> None:
            self.session.remote.call(node, Inspect(facts_wanted=False), timeout=ASK_SECONDS)

        return list(self.session.remote.gather(self.session.cluster.nodes, ask)[1])


def _warm(entry: Entry) -> Literal["warm"] | None:
    return None if entry.warm_up else "warm"
