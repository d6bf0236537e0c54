"""Tasks about records: report, show, diff, export, import, gc (imports: see `regatta.tasks.runs`)."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from invoke.context import Context

from regatta.errors import DeclinedError, RecordError, RegattaError, UsageError
from regatta.hosts import inventories
from regatta.hosts.remote import Remote
from regatta.options.kinds import PERCENT
from regatta.program import hint
from regatta.tasks.common import AT_LEAST_HELP, JSON_HELP, records_dir, task, whole
from regatta.tasks.launching import opened
from regatta.terminal import screen
from regatta.terminal.confirm import confirmed
from regatta.terminal.table import print_table
from regatta_protocol.operations.releases import ReleaseEntries

if TYPE_CHECKING:
    from regatta.records.record import Record
    from regatta.report.diff import Entries

_LOOK_EVERY = 1.0
"""Seconds between two looks at the records."""
RUN_HELP = "id of a run that has a record, a unique beginning of it, 'last', or the record's file"


@task(
    help={
        "run": f"only this run: {RUN_HELP}",
        "only": "only runs of this workload, plan, experiment or point",
        "against": "earlier records to compare with: a folder, a record or a .parquet file",
        "out": "folder to write to (default: report/ next to the records)",
        "charts": "charts as files: svg,png (default), svg, png or none",
        "at_least": AT_LEAST_HELP,
        "cases": "write the charts of so many of the latest cases as files (default 2)",
        "history": "also show where each experiment became slower or faster over time",
        "pdf": "also print the page into this file, by a browser that is here",
        "open": "open the page in a browser",
        "watch": "make it again when records change, until Ctrl-C",
    }
)
def report(
    c: Context,
    run: str | None = None,
    only: str | None = None,
    against: str | None = None,
    out: str | None = None,
    charts: str = "svg,png",
    at_least: str | None = None,
    cases: str = "2",
    history: bool = False,
    pdf: str | None = None,
    open: bool = False,
    watch: bool = False,
) -> None:
    """Make a report of all records: one HTML file with the answers first, tables, charts."""
    from regatta.report import drawing

    formats = drawing.image_formats(charts)
    most = whole("cases", cases) or 2
    records = records_dir()
    earlier = Path(against).expanduser() if against else None
    folder = Path(out).expanduser() if out else records / "report"

    def made() -> Path:
        chosen = {"run": run, "only": only, "against": earlier, "histories": history, **_margin(at_least)}
        return write_report(records, folder, formats, most, **chosen)

    page = made()
    if pdf:
        from regatta.report import pdf as printing

        printing.write(page, Path(pdf).expanduser())
        print(f"{pdf}: the page, printed")
    if open:
        import webbrowser

        if not webbrowser.open(page.resolve().as_uri()):
            print(f"warning: no browser is here: open {page} yourself", file=sys.stderr)
    while watch:
        _await_change(records)
        made()


def write_report(records: Path, folder: Path, formats: "tuple[str, ...]", most: int, **chosen: Any) -> Path:
    """Make the page, with files of the charts of so many of the latest cases, and print where it is and what changed.

    `chosen`: what `regatta.report.make.report` takes. Returns the page's path. Raises RecordError.
    """
    from regatta.report.drawing import Drawer

    with Drawer() as drawer:  # which begins while the records are read
        from regatta.report import files, make

        made = make.report(records, **chosen)
        written = files.write(folder, made, formats, most, drawer)
    for line in made.broken:
        print(f"warning: left out: {line}", file=sys.stderr)
    for line in made.notes:
        print(f"note: {line}", file=sys.stderr)
    print(f"{written.page}: {len(made.records)} run(s), {written.page.stat().st_size / 1e6:.1f} MB")
    print(f"{len(written.others)} files with its tables and charts next to it")
    if written.not_drawn:
        print(f"the charts of {written.not_drawn} more case(s) are only in the page; --cases writes more")
    for change in made.changes or ():
        if change.verdict in ("slower", "faster"):
            print(f"{change.verdict}: {change.sentence}")
    for found in made.histories:
        print(found.line)
    return written.page


def _await_change(records: Path) -> None:
    """Return when a record has come, gone or changed."""
    before = _seen(records)
    while _seen(records) == before:
        time.sleep(_LOOK_EVERY)


def _seen(records: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in records.glob("*.json")}


def _margin(typed: str | None) -> dict[str, float]:
    return {} if typed is None else {"at_least": PERCENT.word("--at-least", typed)}


@task(help={"workload": "only this workload", "json": JSON_HELP})
def effort(c: Context, workload: str | None = None, json: bool = False) -> None:
    """Count what each framework takes: code, packages, services, steps, and what one sees while it works."""
    from regatta.cards import discovery
    from regatta.effort import counted, installed
    from regatta.records import bare
    from regatta.records.store import Store
    from regatta.report import effort as tables

    chosen = [discovery.find(workload, Path.cwd())] if workload else [*discovery.ours().values()]
    layers = Path(inventories.load("inventory/local").head.root) / "layers"
    first = tables.first_runs(Store(records_dir()).list().records, bare.known())
    found = [*counted.efforts(chosen, installed.here(layers), first)]
    if json:
        from regatta.tasks import shown

        shown.say(shown.Efforts(found))
        return
    table = tables.table(found)
    print_table([table.columns, *table.rows])
    print(f"\n{table.note}")


@task(positional=["run"], help={"run": RUN_HELP, "json": "print its record (schema: regatta/records/schemas/)"})
def show(c: Context, run: str, inventory: str | None = None, json: bool = False) -> None:
    """Show one run: its phases, its ranks, the slowest of them, what it has left on its nodes."""
    from regatta.records import document
    from regatta.records.store import Store
    from regatta.report import show as showing
    from regatta.report import sources

    found = sources.find(Store(records_dir()), run)
    if json:
        print(document.to_json(found), end="")
        return
    print("\n".join(showing.lines(found, screen.width(sys.stdout))))
    for line in _left(found, inventory):
        print(line)


def _left(record: "Record", inventory: str | None) -> list[str]:
    """Return what the run has left, where the chosen inventory is its cluster, which answers and knows the run
    still.
    """
    from regatta.run import outputs

    try:
        with opened(inventory) as cluster:
            if cluster.name != record.cluster.name:
                return []
            known = cluster.find(record.run_id)
            parts, _ = known.files(most=3)
    except RegattaError:
        return []
    if not any(part.count for part in parts):
        return []
    folders = ", ".join(f"{part.node.name}:{part.source}" for part in parts if part.count)
    lines = ["", f"  left        {outputs.words(parts)}: {outputs.first(parts)}", f"              in {folders}"]
    return [*lines, f"              {hint('ls', known.id)}; {hint('fetch', known.id)} 'PATTERN' brings them here"]


@task(positional=["a", "b"], help={"a": RUN_HELP, "b": "the other run", "json": JSON_HELP})
def diff(c: Context, a: str, b: str, inventory: str | None = None, json: bool = False) -> None:
    """Show what differs between two runs, then their times."""
    from regatta.records.store import Store
    from regatta.report import diff as differing
    from regatta.report import sources

    store = Store(records_dir())
    one, other = sources.find(store, a), sources.find(store, b)
    entries = _entries(one, other, inventory)
    if json:
        from regatta.tasks import shown

        shown.say(shown.diff(one, other, differing.files(one.identity, other.identity, entries, Path.cwd())))
    else:
        print("\n".join(differing.lines(one, other, entries, Path.cwd())))


def _entries(one: "Record", other: "Record", inventory: str | None) -> "Entries":
    """Asks the head for a release's files, where the chosen inventory is the cluster of both runs."""
    try:
        found = inventories.load(inventory)
    except RegattaError:
        return lambda release: None
    if {one.cluster.name, other.cluster.name} != {found.name}:
        return lambda release: None
    remote = Remote(found)

    def ask(release: str) -> dict[str, str] | None:
        try:
            entries = remote.call(found.head, ReleaseEntries(release)).entries
        except RegattaError as error:
            print(f"warning: {error}", file=sys.stderr)
            return None
        return None if entries is None else {path: f"{kind} {content}" for path, kind, content in entries}

    return ask


@task(name="results-export", positional=["file"], help={"file": "the .parquet file to write", "force": "replace it"})
def results_export(c: Context, file: str, force: bool = False) -> None:
    """Write all records to one Parquet file, for pandas and polars."""
    from regatta.records.store import Store
    from regatta.report import parquet

    path = Path(file).expanduser()
    if path.suffix != parquet.SUFFIX:
        raise UsageError(f"{file}: give the file a name in {parquet.SUFFIX}")
    if path.exists() and not force:
        raise UsageError(f"{file} is there already: another name, or --force")
    found = Store(records_dir()).list()
    parquet.write(path, found.records)
    print(f"{path}: {len(found.records)} record(s), {path.stat().st_size / 1e6:.2f} MB")
    _say_broken(found.broken)


@task(name="results-import", positional=["file"], help={"file": "a .parquet file of results-export, or a folder"})
def results_import(c: Context, file: str) -> None:
    """Add the records of a Parquet file or folder; none is ever overwritten."""
    from regatta.records.store import Store
    from regatta.report import sources

    found = sources.read(Path(file).expanduser())
    store = Store(records_dir())
    added, same, differ = 0, 0, []
    for record in found.records:
        if not store.has(record.run_id):
            store.save(record)
            added += 1
        elif store.find(record.run_id) == record:
            same += 1
        else:
            differ.append(record.run_id)
    print(f"{added} record(s) added to {store.root}, {same} were there already")
    _say_broken(found.broken)
    if differ:
        raise RecordError(
            f"other records are there under the same names, and stay: {', '.join(differ)}. Import into another folder "
            "(REGATTA_RESULTS)"
        )


@task(
    name="results-gc",
    help={
        "before": "records of runs started before: 2026-11-21, or 30m, 12h, 3d, 2w ago",
        "workload": "only of this workload",
        "framework": "only of runs under this framework",
        "failed": "only runs that did not succeed",
        "yes": "do not ask (also CONFIRM=yes)",
    },
)
def results_gc(
    c: Context,
    before: str | None = None,
    workload: str | None = None,
    framework: str | None = None,
    failed: bool = False,
    yes: bool = False,
) -> None:
    """Delete records (asks first; say which ones)."""
    from regatta.frameworks import choice
    from regatta.records.store import Store
    from regatta.report import listing

    wanted = listing.Wanted(workload, framework, before=listing.moment("before", before), failed=failed)
    if wanted == listing.Wanted():
        raise UsageError("say which records: --before, --failed, --workload, --framework")
    store = Store(records_dir())
    lines = listing.of_records(store.list().records)
    if framework is not None:
        choice.recorded(framework, (line.framework for line in lines))
    found = listing.choose(lines, wanted)
    if not found:
        print(f"no records like that in {store.root}")
        return
    print_table([listing.HEADINGS, *(line.cells() for line in found)])
    if not confirmed(f"delete these {len(found)} record(s) from {store.root}", yes):
        raise DeclinedError("nothing was deleted")
    for line in found:
        store.delete(line.run)
    print(f"deleted {len(found)} record(s)")


def _say_broken(broken: "tuple[str, ...]") -> None:
    for line in broken:
        print(f"warning: left out: {line}", file=sys.stderr)
