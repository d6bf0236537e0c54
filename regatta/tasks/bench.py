"""The task that runs plans (imports: see `regatta.tasks.runs`)."""

import contextlib
import os

from invoke.context import Context

from regatta import paths
from regatta.errors import RegattaError
from regatta.hosts import inventories
from regatta.program import hint
from regatta.tasks.common import seconds, task
from regatta.tasks.launching import LAUNCH, NODES_HELP
from regatta.tasks.runs import advising, choose_hosts


@task(
    positional=["plan"],
    help={
        "plan": "a plan that comes with Regatta (a wrong name is answered with all), or the path of a TOML file",
        "dry-run": "show the plan with an estimate, start nothing",
        "fresh": "begin a new set, also where one is unfinished",
        "retry": "also repeat runs that failed or were lost",
        "wait": "seconds to wait for a node that is lost (default 1800)",
        "lease": "break: take the cluster from a command that is gone (also LEASE=break)",
        "env": LAUNCH["env"].help,
        "env-file": LAUNCH["env_file"].help,
        **NODES_HELP,
    },
    iterable=["env", "env_file"],
)
def bench(
    c: Context,
    plan: str,
    dry_run: bool = False,
    fresh: bool = False,
    retry: bool = False,
    wait: str | None = None,
    env: list[str] | None = None,
    env_file: list[str] | None = None,
    inventory: str | None = None,
    nodes: str | None = None,
    without: str | None = None,
    skip_lost: bool = False,
    lease: str | None = None,
) -> None:
    """Run a plan of many runs, interleaved; goes on where it was interrupted."""
    from regatta.bench import findings
    from regatta.bench.runner import WAIT_SECONDS, Bench
    from regatta.bench.survey import survey
    from regatta.bench.view import View
    from regatta.environment import variables
    from regatta.experiments import plan_file
    from regatta.hosts.lease import Lease, may_break
    from regatta.hosts.selection import Selection
    from regatta.run.session import Session

    given = variables.typed(env or (), env_file or ())
    chosen, found_hosts = plan_file.load(plan), inventories.load(inventory)
    limit = seconds("wait", wait) or WAIT_SECONDS
    results = paths.results_dir()
    with contextlib.ExitStack() as stack:
        view = stack.enter_context(View())
        used = choose_hosts(found_hosts, Selection(nodes, without, skip_lost), view.warn)
        stack.enter_context(advising(used))
        session = stack.enter_context(Session(used, view, results))
        taken = may_break(os.environ.get("LEASE", "") if lease is None else lease)
        held = Lease(session.remote, hint("bench", chosen.name), view.warn, breaks=taken)
        if not dry_run:
            stack.enter_context(held)
        found = survey(session.remote, chosen, results, fresh=fresh, retry=retry)
        for text in found.warnings:
            view.warn(text)
        for text in [*found.notes, *found.lines()]:
            view.say(text)
        if dry_run:
            return
        running = Bench(session, found, view, held, wait_seconds=limit, variables=given)
        try:
            running.run()
        finally:
            if running.spent.count:
                kept = f"{running.recorded()} of {found.total} runs recorded in {results}"
                view.say(f"\n{running.spent.text()}\nset {found.set}: {kept}\n")
        shown = findings.findings(found.points, running.records)
        for line in findings.lines(shown):
            view.say(line)
        if bad := sum(len(one.failed) for one in shown):
            raise RegattaError(f"{bad} run(s) failed: see above, and '{hint('logs', 'RUN')}'; --retry repeats them")
