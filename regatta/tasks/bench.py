"""The task that runs plans (imports: see `regatta.tasks.runs`)."""

import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from regatta import paths
from regatta.errors import RegattaError, UsageError
from regatta.hosts import inventories
from regatta.options import declaration
from regatta.options.declaration import RunOptions
from regatta.options.kinds import PERCENT, SECONDS, SWITCH
from regatta.options.option import BENCH, Option, typed
from regatta.program import hint
from regatta.tasks.common import AT_LEAST_HELP, JSON_HELP
from regatta.tasks.launching import advising, command
from regatta.terminal import screen

if TYPE_CHECKING:
    from regatta.bench.findings import Finding
    from regatta.records.record import Record

PLAN = Option("a plan that comes with Regatta (a wrong name is answered with all), or the path of a TOML file")
OWN = {
    "dry_run": Option("show the plan with an estimate, start nothing", SWITCH),
    "fresh": Option("begin a new set, also where one is unfinished", SWITCH),
    "retry": Option("also repeat runs that failed or were lost", SWITCH),
    "at_least": Option(AT_LEAST_HELP, PERCENT, name="at_least"),
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
    plan = plan_file.load(words["plan"], given)
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
        limit = given.get("wait", OWN["wait"].default)
        running = Bench(session, found, view, lease, wait_seconds=limit, variables=given_variables)
        try:
            running.run()
        finally:
            if running.spent.count:
                kept = f"{running.recorded()} of {found.total} runs recorded in {results}"
                view.say(f"\n{running.spent.text()}\nset {found.set}: {kept}\n")
        at_least = given.get("at_least", stats.AT_LEAST)
        told = findings.findings(found.points, running.records, at_least)
        if words["json"]:
            from regatta.tasks import shown

            shown.say(shown.bench(plan.name, found.set, used.name, told))
        for line in () if words["json"] else _said(told, running.records, at_least):
            view.say(line)
        if bad := sum(len(one.failed) for one in told):
            raise RegattaError(f"{bad} run(s) failed: see above, and '{hint('logs', 'RUN')}'; --retry repeats them")


def _said(told: "Sequence[Finding]", records: "Sequence[Record]", at_least: float) -> list[str]:
    """The end of a bench: tables, answers, and the rate of false verdicts where it was measured."""
    from regatta.bench import findings
    from regatta.records import calibration
    from regatta.report import answers
    from regatta.report.cases import cases
    from regatta.report.summary import summarise

    answered = answers.lines(summarise(cases(records), at_least))
    return [*findings.lines(told, screen.width(sys.stdout)), *answered, *map(str, calibration.of(records, at_least))]


bench = command(
    BENCH,
    "Run a plan of many runs, interleaved; an interrupted one continues.",
    OPTIONS,
    _bench,
    positional={"plan": PLAN},
)
