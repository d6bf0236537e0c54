"""Tasks about any run: sync, torchrun, rayrun, sparkrun, runs, runs-gc, logs, attach, why, cancel.

All that a task needs is imported in it: a sync is over before rich and paramiko would be loaded.
"""

import collections
import functools
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from invoke.context import Context

from regatta import paths
from regatta.errors import DeclinedError, NodesError, RegattaError, RunError, UsageError
from regatta.hosts import inventories
from regatta.hosts.remote import Remote
from regatta.options.declaration import of as options
from regatta.options.option import typed
from regatta.program import hint
from regatta.release import sync as syncing
from regatta.release import tree
from regatta.tasks import sweeping
from regatta.tasks.common import JSON_HELP, RUN_HELP, records_dir, task, whole
from regatta.tasks.launching import advising, command, opened, tell_of_input, tell_of_queued
from regatta.tasks.program import of_script
from regatta.terminal.confirm import confirmed
from regatta.terminal.meter import size_text
from regatta.terminal.table import print_table
from regatta.text import owner
from regatta_protocol.states import State

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from regatta.api.run import Line
    from regatta.report import listing as listed
    from regatta.run.request import Request
    from regatta.run.shared_cleanup import SharedFolder


@task(help={"path": "tree to sync (default: the one around this folder)", "repair": "replace a damaged copy"})
def sync(c: Context, inventory: str | None = None, path: str = ".", repair: bool = False) -> None:
    """Put this source tree on every node, proven by hash."""
    began = time.monotonic()
    chosen = inventories.load(inventory)
    source = tree.read(tree.find_root(Path(path)))
    for line in source.notes:
        print(line)
    done = syncing.sync(Remote(chosen), source, chosen.nodes, repair=repair)
    sent = f"sent to {', '.join(done.sent_to)}" if done.sent_to else "already on every node"
    print(
        f"release {source.release}: {len(source.entries)} files, {source.size / 1e6:.1f} MB, {sent}; "
        f"proven on {len(chosen.nodes)} node(s) in {time.monotonic() - began:.2f} s"
    )


def _script(name: str, about: str) -> Any:
    return command(name, about, options(name), lambda words: _run_script(name, words), script=True)


torchrun = _script("torchrun", f"Run a script under PyTorch: {hint('torchrun --workers 4 train.py --epochs 3')}.")
rayrun = _script("rayrun", f"Run a script under Ray: {hint('rayrun --workers 4 train.py --epochs 3')}.")
sparkrun = _script(
    "sparkrun", f"Run a script under the cluster's Spark: {hint('sparkrun --workers 4 job.py --epochs 3')}."
)


def _run_script(name: str, words: dict[str, Any]) -> None:
    from regatta.api import requests
    from regatta.frameworks import registry

    line = of_script()
    given = typed(options(name), words)
    where = {name: given.pop(name) for name in requests.OF_CLUSTER if name in given}
    program, sweep = requests.module if line.module else requests.script, given.pop("sweep", ())
    framework = registry.of_command(name)

    def asked(number: int, chosen: dict[str, str]) -> "Request":
        """The request of one run of a sweep."""
        arguments = [*(line.script or []), *(word for name, value in chosen.items() for word in (f"--{name}", value))]
        return program(framework, words["script"], arguments, sweeping.named(given, number), line.notes)

    request = None if sweep else program(framework, words["script"], line.script or [], given, line.notes)
    with opened(**where) as cluster, advising(cluster.remote.cluster):
        tell_of_input(cluster.console.warn)
        if request is None:
            sweeping.start(cluster, sweep, asked, detach=bool(given.get("detach")))
        elif request.options.detach:
            tell_of_queued(*cluster.enqueue(request))
        else:
            kept = cluster.carry_out(request)
            cluster.console.note(
                f"{kept.run_id}: succeeded in {kept.phases.total:.1f} s; record "
                f"{paths.results_dir()}/{kept.run_id}.json"
            )


@task(
    help={
        "count": "how many of the latest to show (default 20)",
        "workload": "only runs of this workload that have a record",
        "framework": "only runs under this framework",
        "since": "only runs started since: 2026-11-21, 2026-11-21T10:00 (UTC), or 30m, 12h, 3d, 2w ago",
        "failed": "only runs that did not succeed",
        "sort": "started (default), run, workload, framework, state or took",
        "records": "ask no node: the records of all clusters",
        "json": JSON_HELP,
    }
)
def runs(
    c: Context,
    inventory: str | None = None,
    count: str = "20",
    workload: str | None = None,
    framework: str | None = None,
    since: str | None = None,
    failed: bool = False,
    sort: str = "started",
    records: bool = False,
    json: bool = False,
) -> None:
    """List the runs that the nodes know and those of the records, latest last."""
    from regatta.frameworks import choice
    from regatta.records.store import Store
    from regatta.report import listing
    from regatta.run import outputs

    number = whole("count", count) or 20
    wanted = listing.Wanted(workload, framework, listing.moment("since", since), failed=failed)
    kept = Store(records_dir()).list()
    unasked: dict[str, Exception] = {}

    def choose(lines: "list[listed.Line]") -> "tuple[list[listed.Line], int]":
        """The latest that fit, and how many more do."""
        if framework is not None:
            choice.recorded(framework, (line.framework for line in lines))
        found = listing.choose(lines, wanted, sort)
        return found[-number:], len(found[:-number])

    if records:
        lines, where = listing.of_records(kept.records), str(paths.results_dir())
        chosen, more = choose(lines)
    else:
        with opened(inventory) as cluster:
            found = cluster.runs(unasked)
            tell = functools.partial(print, file=sys.stderr) if json else print
            if cluster.adopt(found, unasked, tell):
                kept = Store(paths.results_dir()).list()
            lines, where = listing.of_nodes(found, kept.records, cluster.name), cluster.name
            chosen, more = choose(lines)
            names = {line.run for line in chosen}
            sizes = {} if json else cluster.sizes([info for info in found if info.run in names])
        chosen = [replace(line, left=outputs.brief(sizes[line.run])) if line.run in sizes else line for line in chosen]
    if json:
        from regatta.tasks import shown

        shown.say(shown.runs(chosen, unasked))
    elif chosen:
        print_table([listing.HEADINGS, *(line.cells() for line in chosen)])
        if more:
            print(f"and {more} earlier ones: {hint('runs', f'--count {more + len(chosen)}')}")
        if any(line.left != "-" for line in chosen):
            print(
                f"left: in runs/RUN/work of each node's {cluster.remote.cluster.head.state}; {hint('ls', 'RUN')}, "
                f"{hint('fetch', 'RUN')}"
            )
    else:
        print(f"no runs {'like that ' if lines else ''}on {where}{'' if lines else ' yet'}")
    if unasked:
        raise RegattaError("; ".join(str(error) for error in unasked.values()))


@task(
    name="runs-gc",
    help={
        "before": "runs started before: 2026-11-21, or 30m, 12h, 3d, 2w ago",
        "project": "delete also what this project keeps in the shared folder: its name in the list",
        "yes": "do not ask (also CONFIRM=yes)",
    },
)
def runs_gc(
    c: Context,
    before: str | None = None,
    inventory: str | None = None,
    project: str | None = None,
    yes: bool = False,
) -> None:
    """Delete from the nodes what runs have left there: logs, files, unused input (asks first; records stay)."""
    from regatta.report import listing
    from regatta.run import catalogue, outputs, recording, shared_cleanup
    from regatta.text import clean

    start = listing.moment("before", before)
    if start is None:
        raise UsageError("say which runs: --before 4w")
    remote = Remote(inventories.load(inventory))
    found, unasked = catalogue.listing(remote)
    chosen = [info for info in found if info.started < start.timestamp() and info.state is not State.RUNNING]
    while recording.adopt(remote, chosen, paths.results_dir(), unasked, print):
        pass  # so many at a time; what a record is made from goes with the runs
    if chosen:
        sizes = outputs.sizes(remote, chosen)
        labels = {info.run: clean(info.plan.label) or None for info in chosen}
        lines = [
            replace(line, left=outputs.brief(sizes[line.run]), workload=labels[line.run])
            for line in listing.of_nodes(chosen, [], remote.cluster.name)
        ]
        whose = {info.run: listing.project(info) for info in chosen}
        rows = [(*line.cells()[:-1], whose[line.run]) for line in lines]
        print_table([(*listing.HEADINGS[:-1], "project"), *rows])
    parts = shared_cleanup.look(remote)
    old = shared_cleanup.to_go(parts, found, chosen, 0.0 if unasked else start.timestamp())
    ours = [part for part in parts.projects if part.name == project]
    if project and not ours:
        raise UsageError(f"no project '{project}' keeps anything: {_names(parts.projects) or 'none does'}")
    _show_shared(old, parts.projects, ours)
    what = f"delete what these {len(chosen)} run(s) left on the nodes" if chosen else "delete from the nodes"
    if old or ours:
        what += f"{',' if chosen else ''} {len(old) + len(ours)} part(s) of the shared folder"
    what += f"{', and' if chosen or old or ours else ''} input files that no run has asked for since"
    what += f" {start:%Y-%m-%d %H:%M} UTC"
    if not confirmed(what, yes):
        raise DeclinedError("nothing was deleted")
    done, failed = catalogue.delete(remote, chosen, time.time() - start.timestamp())
    for name, said in done.items():
        print(
            f"{name}: {len(said.runs)} run(s), {said.inputs} input file(s), {said.bytes / 1e6:.1f} MB deleted"
            + (f"; still running there: {', '.join(said.going)}" if said.going else "")
        )
    gone = shared_cleanup.remove(remote, old, ours, time.time() - start.timestamp())
    count = f"{len(gone.runs)} part(s) of runs, {len(gone.projects)} of projects"
    print(f"shared folder: {count}, {size_text(gone.bytes)} deleted")
    if problems := {**unasked, **failed}:
        raise NodesError("runs-gc", problems)


def _names(parts: "tuple[SharedFolder, ...]") -> str:
    return ", ".join(part.name for part in parts)


def _show_shared(runs: "list[SharedFolder]", projects: "tuple[SharedFolder, ...]", ours: "list[SharedFolder]") -> None:
    """Show what is in the shared folder: parts of runs that go, and all that projects keep."""
    rows = [(part, "run", "goes") for part in runs]
    rows += [(part, "project", "goes" if part in ours else "stays") for part in projects]
    if rows:
        heading = ("shared folder", "of a", "size", "last change", "")
        print_table([heading, *((part.name, kind, size_text(part.bytes), _day(part), end) for part, kind, end in rows)])


def _day(part: "SharedFolder") -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(part.changed))


@task(
    positional=["run"],
    help={
        "run": RUN_HELP,
        "follow": "then print what comes, until the run ends; Ctrl-C does not stop the run",
        "tail": "of each node only so many of the last lines",
        "rank": "only lines of this rank, or of 'driver'",
        "json": "a JSON object for each line (schema: regatta/tasks/schemas/)",
    },
)
def logs(
    c: Context,
    run: str,
    inventory: str | None = None,
    follow: bool = False,
    tail: str | None = None,
    rank: str | None = None,
    json: bool = False,
) -> None:
    """Print what a run has printed so far."""
    from regatta.terminal.console import event_text, label
    from regatta.text import clean
    from regatta_protocol import events
    from regatta_protocol.log import DRIVER, PREFIX

    most = whole("tail", tail, least=0)
    wanted = DRIVER if rank == "driver" else whole("rank", rank, least=0)

    def show(lines: "Iterable[Line]") -> None:
        for line in lines:
            print(text(line), flush=follow)

    def text(line: "Line") -> str:
        if json:
            from regatta.tasks import shown

            return shown.line(line)
        return f"{label(line.node, line.rank)} | {clean(line.text)}"

    def chosen(lines: "Iterable[Line]") -> "Iterator[Line]":
        own = (line for line in lines if wanted is None or line.rank == wanted)
        return own if json else (readable for line in own for readable in without_json(line))

    def without_json(line: "Line") -> "Sequence[Line]":
        event = events.parse_line(line.text) if line.text.startswith(PREFIX) else None
        if event is None or events.malformed(event):
            return [line]
        rank = line.rank if event.rank == DRIVER else event.rank
        return [replace(line, rank=rank, text=text) for text in event_text(event).splitlines()]

    with opened(inventory) as cluster:
        found, read = cluster.find(run), dict[str, int]()
        if follow and most is None:
            show(chosen(found.follow()))
            return
        now = chosen(found.logs(read))
        show(now if most is None else _last(now, most))
        if follow:
            show(chosen(found.follow(read)))


def _last(lines: "Iterable[Line]", most: int) -> "Iterator[Line]":
    """The last lines of each node."""
    kept: dict[str, collections.deque[Line]] = {}
    for line in lines:
        kept.setdefault(line.node, collections.deque(maxlen=most)).append(line)
    for of_node in kept.values():
        yield from of_node


@task(positional=["run"], help={"run": RUN_HELP})
def attach(c: Context, run: str, inventory: str | None = None) -> None:
    """Follow a run from its first line to its end (after Ctrl-C it continues)."""
    with opened(inventory) as cluster:
        found = cluster.find(run)
        found.attach()
        cluster.console.note(f"{found.id}: succeeded")


@task(positional=["run"], help={"run": RUN_HELP, "json": JSON_HELP})
def why(c: Context, run: str, inventory: str | None = None, json: bool = False) -> None:
    """Say where each rank of a run stands now, and which rank the others wait for. It stops nothing."""
    with opened(inventory) as cluster:
        found = cluster.why(run)
    if json:
        from regatta.tasks import shown

        shown.say(shown.why(found))
        return
    for line in found.lines():
        print(line, flush=True)


@task(positional=["run"], help={"run": RUN_HELP, "yes": "another person's run, too, without asking (also CONFIRM=yes)"})
def cancel(c: Context, run: str, inventory: str | None = None, yes: bool = False) -> None:
    """End a run on all its nodes, with everything that it started, or take one that waits out of the queue."""
    with opened(inventory) as cluster:
        try:
            found = cluster.find(run)
        except RunError:
            waiting = next((one for one in cluster.queue() if one.is_run(run) and not one.holds), None)
            if waiting is None:
                raise
            _agreed(run, waiting.owner if waiting.others else "", yes)
            cluster.withdraw(run)
            print(f"{run}: taken out of the queue")
            return
        _agreed(found.id, found.info.owner if found.info.others else "", yes)
        found.cancel()
        print(f"{found.id}: cancelled on {', '.join(found.nodes)}")


def _agreed(run: str, others: str, yes: bool) -> None:
    """Ask before the run of another person, if it is one's, ends. Raises DeclinedError, UsageError."""
    if others and not confirmed(f"end {run}, which {owner(others)} has started", yes):
        raise DeclinedError(f"{run} continues")


@task(help={"json": JSON_HELP})
def environments(c: Context, inventory: str | None = None, json: bool = False) -> None:
    """List what runs have beyond the system: environments, and layers of projects with size, last use and whose."""
    from regatta.environment import listing

    remote = Remote(inventories.load(inventory))
    found, unasked = listing.look(remote)
    if json:
        from regatta.tasks import shown

        shown.say(shown.Environments(remote.cluster.name, found, shown.reasons(unasked)))
    elif found:
        print_table([listing.HEADINGS, *(layer.cells() for layer in found)])
    elif not unasked:
        print(f"no environments and no layers on {remote.cluster.name} yet")
    if unasked:
        raise NodesError("environments", unasked)
