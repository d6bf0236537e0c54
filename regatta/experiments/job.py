"""The same work under several frameworks, interleaved: what all its runs share."""

import contextlib
import random
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from regatta.cards.card import Workload
from regatta.errors import RunFailedError, UsageError
from regatta.experiments import staging
from regatta.experiments.invocation import Invocation
from regatta.frameworks import plan, registry
from regatta.hdfs import client as hdfs
from regatta.program import hint
from regatta.projects import place
from regatta.records import record
from regatta.release import objects
from regatta.run import elastic, naming
from regatta.run.prepare import LOCK
from regatta.run.request import Request
from regatta.run.session import Session


@dataclass(frozen=True)
class Job:
    """All that runs of a comparison have in common: the programs by framework, and what their records say of them.

    `packages`: what they need to read their input, besides the project's own. `locked`: Regatta's lock says in which
    versions, and with which files.
    """

    programs: Mapping[str, plan.Program]
    parameters: Mapping[str, object]
    place: place.Place
    requirements: Path | None = None
    packages: tuple[str, ...] = ()
    locked: bool = False

    @property
    def label(self) -> str:
        """Of its runs."""
        return next(iter(self.programs.values())).label

    def request(self, base: Request, framework: str) -> Request:
        """A run of it under a framework."""
        program = self.programs[framework]
        given = base.environment
        file, more = given.requirements or self.requirements, (*given.more, *self.packages)
        environment = replace(given, requirements=file, more=more, lock=LOCK if self.locked else given.lock)
        return replace(
            base,
            program=program,
            framework=framework,
            root=self.place.tree,
            project=self.place.project,
            start=self.place.start,
            parameters=self.parameters,
            environment=environment,
        )


def prepare(session: Session, asked: Invocation, ranks: int, *, compared: bool = True) -> Job:
    """Put the input in place, outside the timers. Raises DataError, UsageError.

    The single process does what all `ranks` together do. A program that is not `compared` with other runs may keep its
    prepared input for later ones: runs that are compared all read it again.
    """
    workload = asked.workload
    given, described = staging.stage(session, workload, asked.input, asked.values)
    values = [word.partition("=")[2] for word in given]
    if not compared and any(hdfs.is_address(value) or objects.is_address(value) for value in values):
        asked = asked.keeping()
    words = asked.words(ranks)
    items = workload.card.items
    lists = [path for path in (items.list, items.lines) if path] if items else []
    programs = {
        framework: _program(workload, framework, [*given, *asked.words(ranks, alone=registry.of_run(framework).single)])
        for framework in workload.card.frameworks
    }
    packages = (*objects.packages([*given, *words, *lists]), *workload.card.brings(asked.values))
    locked = bool(packages or (workload.requirements and not workload.own))
    here = place.of(workload.root, workload.root)
    return Job(programs, {**described, "options": words}, here, workload.requirements, packages, locked)


def _program(workload: Workload, framework: str, words: Sequence[str]) -> plan.Program:
    card = workload.card
    if card.called:
        return plan.Program.of_items(workload.name, words, library=workload.own, search=card.search is not None)
    if card.module is not None:
        own = workload.own
        return replace(plan.Program.module(card.module, words, workload.name), any_node=own, gpus=own or card.gpus)
    command = card.command if isinstance(card.command, str) else (card.command or {})[framework]
    return plan.Program((*shlex.split(command), *words), workload.name, any_node=True)


def run(
    session: Session,
    asked: Invocation,
    frameworks: Sequence[str],
    *,
    repeats: int,
    request: Request,
) -> dict[str, list[record.Record]]:
    """Do what is asked `repeats` times under each framework, interleaved."""
    job, request = _prepared(session, asked, frameworks, len(frameworks) * repeats, request)
    return in_turns(session, request, job, frameworks, repeats=repeats)


def one(session: Session, asked: Invocation, framework: str, request: Request) -> Request:
    """The one run that is asked for, its input in place."""
    job, request = _prepared(session, asked, [framework], 1, request)
    return job.request(request, framework)


def _prepared(
    session: Session, asked: Invocation, frameworks: Sequence[str], runs: int, request: Request
) -> tuple[Job, Request]:
    """The job, and the request of its runs, which have equally many ranks under all of these frameworks."""
    asked.check(runs)
    ranks = request.options.workers
    if not ranks:
        programs = {framework: _program(asked.workload, framework, ()) for framework in frameworks}
        ranks, on_gpus = session.ranks(programs, request.options)
        if on_gpus and len(frameworks) > 1:
            request = replace(request, options=replace(request.options, workers=ranks))
    return prepare(session, asked, ranks, compared=runs > 1), request


def in_turns(
    session: Session,
    request: Request,
    job: Job,
    frameworks: Sequence[str],
    *,
    repeats: int,
) -> dict[str, list[record.Record]]:
    """Run a job `repeats` times under each framework; chance decides the order in each repeat, as verdicts need it."""
    if repeats < 1:
        raise UsageError(f"--repeats must be at least 1, not {repeats}")
    done: dict[str, list[record.Record]] = {framework: [] for framework in frameworks}
    label = f"{job.label}-{naming.new_run_name('series', 'x').rpartition('x-')[2]}"
    for framework in frameworks if len(frameworks) * repeats > 1 else ():
        session.bring(job.request(request, framework))
    dice = random.Random(label)
    alone = len(frameworks) * repeats == 1  # it waits for its own nodes
    with contextlib.nullcontext() if alone else session.together(label, now=request.options.now):
        for index in range(repeats):
            for framework in frameworks if repeats == 1 else dice.sample(frameworks, len(frameworks)):
                name = request.options.name and (
                    request.options.name if len(frameworks) == repeats == 1 else _name(request, framework, index)
                )
                series = record.Series(label, index + 1, repeats)
                base = replace(request, options=replace(request.options, name=name), series=series)
                try:
                    done[framework].append(elastic.run(session, job.request(base, framework)))
                except RunFailedError:
                    count = sum(map(len, done.values()))
                    if count:
                        session.console.warn(
                            f"{count} of {len(frameworks) * repeats} runs are recorded, '{hint('report')}' shows them; "
                            "the same command begins with the first run again"
                        )
                    raise
    return done


def _name(request: Request, framework: str, index: int) -> str:
    return f"{request.options.name}-{framework}-{index + 1}"
