"""The task that runs plans (imports: see `regatta.tasks.runs`)."""

import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TextIO

from regatta import paths
from regatta.errors import RegattaError, UsageError
from regatta.hosts import inventories
from regatta.options import declaration
from regatta.options.declaration import RunOptions
from regatta.options.kinds import PERCENT, SECONDS, SWITCH, WHOLE
from regatta.options.option import BENCH, Option, typed
from regatta.program import hint
from regatta.tasks.common import AT_LEAST_HELP, JSON_HELP
from regatta.tasks.launching import advising, command
from regatta.terminal import screen

if TYPE_CHECKING:
    from regatta.bench.findings import Finding
    from regatta.experiments.plans import BenchPlan
    from regatta.records.record import Record

PLAN = Option("a plan that comes with Regatta (a wrong name is answered with all), or the path of a TOML file")
OWN = {
    "dry_run": Option("show the plan with an estimate, start nothing", SWITCH),
    "fresh": Option("begin a new set, also where one is unfinished", SWITCH),
    "retry": Option("also repeat runs that failed or were lost", SWITCH),
    "at_least": Option(AT_LEAST_HELP, PERCENT, name="at_least"),
    "until": Option(
        "repeat each point until its ratios are known to 2%, however many repeats the plan says", PERCENT, name="until"
    ),
    "max_repeats": Option("with --until: at most so many times", WHOLE, 40, "max_repeats"),
    "duet": Option(
        "run these two frameworks of each point at the same moment, each on half of the cores: torch,ray", name="duet"
    ),
    "shuffle_hosts": Option(
        "give the ranks another order of the hosts in each repeat, the same under all frameworks", SWITCH
    ),
    "report": Option("at the end make the report of the plan's runs, as report --only PLAN does", SWITCH),
    "lease": Option("break: take the cluster from a command that is gone (also LEASE=break)"),
    "json": Option(f"at the end {JSON_HELP}", SWITCH),
    "wait": Option("seconds to wait for a node that is lost", SECONDS, 1800.0, "wait"),
}
OPTIONS = {**OWN, **declaration.of(BENCH)}


def _bench(words: Mapping[str, Any]) -> None:
    from regatta.bench import findings
    from regatta.bench.runner import Bench
    from regatta.bench.survey import survey
    from regatta.bench.view import View
    from regatta.environment import variables
    from regatta.experiments import plan_file
    from regatta.hosts.lease import Lease, may_break
    from regatta.hosts.selection import Selection
    from regatta.records import stats
    from regatta.run.session import Session

    if words["json"] and words["dry_run"]:
        raise UsageError("--json shows what runs have shown: --dry-run starts none")
    given = typed(OPTIONS, words)
    said = declaration.said(RunOptions, given)
    plan = replace(plan_file.load(words["plan"], given), shuffled=words["shuffle_hosts"])
    plan = _duet(_until(plan, given), given)
    given_variables = variables.typed(said.env, said.env_file)
    found_hosts, results = inventories.load(said.inventory), paths.results_dir()
    with contextlib.ExitStack() as stack:
        view = stack.enter_context(View(sys.stderr) if words["json"] else View())
        used = Selection(said.nodes, said.without, said.skip_lost).of(found_hosts, view.warn)
        stack.enter_context(advising(used))
        session = stack.enter_context(Session(used, view, results))
        taken = may_break(words["lease"] or os.environ.get("LEASE", ""))
        lease = Lease(session.remote, hint("bench", plan.name), view.warn, breaks=taken)
        if not words["dry_run"]:
            stack.enter_context(lease)
        found = survey(session.remote, plan, results, fresh=words["fresh"], retry=words["retry"])
        for text in found.warnings:
            view.warn(text)
        for text in [*found.notes, *found.lines(screen.width(sys.stdout))]:
            view.say(text)
        if words["dry_run"]:
            return
        running = Bench(
            session, found, view, lease, wait_seconds=given.get("wait", OWN["wait"].default), variables=given_variables
        )
        try:
            running.run()
        finally:
            if running.spent.count:
                of = f" of {found.total}" if plan.until is None else ""
                kept = f"{running.recorded()}{of} runs recorded in {results}"
                view.say(f"\n{running.spent.text()}\nset {found.set}: {kept}\n")
        at_least = given.get("at_least", stats.AT_LEAST)
        told = findings.findings(found.points, running.records, at_least)
        if words["json"]:
            from regatta.tasks import shown

            shown.say(shown.bench(plan.name, found.set, used.name, told))
        for line in () if words["json"] else _said(told, running.records, at_least):
            view.say(line)
    if words["report"]:
        _report(plan.name, at_least, sys.stderr if words["json"] else sys.stdout)
    if bad := sum(len(one.failed) for one in told):
        raise RegattaError(f"{bad} run(s) failed: see above, and '{hint('logs', 'RUN')}'; --retry repeats them")


def _report(plan: str, at_least: float, stream: TextIO) -> None:
    """Make the report of a plan's runs, and say on the stream where it is."""
    from regatta.report.drawing import FORMATS
    from regatta.tasks.results import write_report

    results = paths.results_dir()
    with contextlib.redirect_stdout(stream):
        write_report(results, results / "report", FORMATS, 2, only=plan, at_least=at_least)


def _until(plan: "BenchPlan", given: Mapping[str, Any]) -> "BenchPlan":
    """The plan, with as many repeats as narrow intervals take. UsageError where these could not be found."""
    from regatta.records import stats

    if "until" not in given:
        if "max_repeats" in given:
            raise UsageError("--max-repeats is the end of --until: give both, or the plan's own 'repeats'")
        return plan
    most, least = given.get("max_repeats", OWN["max_repeats"].default), stats.FIRST_LOOK
    if most < least or not given["until"]:
        raise UsageError(f"--until takes a part above 0, as 2%, and --max-repeats at least {least}")
    if all(len(one.frameworks) < 2 for one in plan.experiments):
        raise UsageError(f"--until: plan {plan.name} compares nothing, as it has one framework: leave --until out")
    return replace(plan, repeats=most, until=given["until"])


def _duet(plan: "BenchPlan", given: Mapping[str, Any]) -> "BenchPlan":
    """The plan, with two frameworks that run at the same moment. UsageError where these are not two."""
    two = tuple(given.get("duet", "").split(",")) if "duet" in given else ()
    if two and len(two) != 2:
        raise UsageError(f"--duet takes two frameworks, as torch,ray, or one twice, not '{given['duet']}'")
    return replace(plan, duet=two)


def _said(told: "Sequence[Finding]", records: "Sequence[Record]", at_least: float) -> list[str]:
    """The end of a bench: tables, answers, and the rate of false verdicts where it was measured."""
    from regatta.bench import findings
    from regatta.records import calibration
    from regatta.records.store import Store
    from regatta.report import answers
    from regatta.report.cases import cases
    from regatta.report.summary import summarise

    rates = calibration.rates(Store(paths.results_dir()).list().records, at_least)
    answered = answers.lines(summarise(cases(records), at_least), rates)
    return [
        *findings.lines(told, screen.width(sys.stdout)),
        *answered,
        *map(str, calibration.of(records, at_least)),
        *map(str, calibration.biases(records)),
    ]


bench = command(
    BENCH,
    "Run a plan of many runs, interleaved; an interrupted one continues.",
    OPTIONS,
    _bench,
    positional={"plan": PLAN},
)
