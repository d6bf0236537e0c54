"""Tasks about what runs have left on the nodes: ls, fetch, board (imports: see `regatta.tasks.runs`)."""

import contextlib
import io
import sys
import time
from typing import TYPE_CHECKING

from invoke.context import Context

from regatta import paths
from regatta.errors import NodesError
from regatta.hosts import inventories
from regatta.hosts.remote import Remote
from regatta.options.declaration import OF_RUNS
from regatta.options.kinds import GIGABYTES
from regatta.program import hint
from regatta.tasks.common import JSON_HELP, RUN_HELP, task, whole
from regatta.tasks.launching import opened
from regatta.terminal.meter import size_text
from regatta.terminal.table import print_table
from regatta.text import shown

if TYPE_CHECKING:
    from regatta.run.outputs import NodeOutput

PATTERN_HELP = "files below the run's working directory: out/*.pt, logs (all in it), **/*.csv (default: all)"
SHOWN = "100"
BOARD_SECONDS = 10.0
"""Between two looks at what runs have written since."""


@task(
    positional=["run"],
    further="pattern",
    help={
        "run": RUN_HELP,
        "pattern": PATTERN_HELP,
        "count": f"how many files of a node to show (default {SHOWN})",
        "json": JSON_HELP,
    },
)
def ls(
    c: Context, run: str, pattern: list[str], inventory: str | None = None, count: str = SHOWN, json: bool = False
) -> None:
    """List what a run has written or changed in its working directory, on each of its nodes, and in $REGATTA_SHARED."""
    number = whole("count", count) or int(SHOWN)
    with opened(inventory) as cluster:
        known = cluster.find(run)
        parts, failed = known.files(*pattern, most=number)
    if json:
        from regatta.tasks import shown as shown_as

        shown_as.say(shown_as.files(known.id, parts, failed))
    else:
        _list(known.id, parts)
    if failed:
        raise NodesError(f"ls {known.id}", failed)


def _list(run: str, parts: "list[NodeOutput]") -> None:
    from regatta.run import outputs

    rows = [
        (part.place, size_text(file.size), "changed" if file.changed else "new", shown(file.path))
        for part in parts
        for file in part.files
    ]
    if rows:
        print_table([("node", "size", "", "file"), *rows])
    for part in parts:
        if part.count > len(part.files):
            print(f"{part.place}: {part.count - len(part.files)} more; --count shows them")
    print(f"{run}: {outputs.words(parts)}; {hint('fetch', run)} brings them to {paths.results_dir() / run}")
    for line in (*outputs.pieces(parts), *outputs.reasons(parts)):
        print(f"warning: {line}", file=sys.stderr)


@task(
    positional=["run"],
    further="pattern",
    help={
        "run": RUN_HELP,
        "pattern": PATTERN_HELP,
        "to": "folder to bring them to (default: RUN next to the records), or s3://bucket/key: there, too",
        "max-gb": OF_RUNS["max_gb"].about,
        "env": OF_RUNS["env"].help.replace("the run's processes", "what puts them into a bucket"),
        "env-file": OF_RUNS["env_file"].help,
    },
    iterable=["env", "env_file"],
)
def fetch(
    c: Context,
    run: str,
    pattern: list[str],
    to: str | None = None,
    inventory: str | None = None,
    max_gb: str | None = None,
    env: list[str] | None = None,
    env_file: list[str] | None = None,
) -> None:
    """Bring here what a run, also one in progress, has written: proven by hash; if interrupted, run it again."""
    most = OF_RUNS["max_gb"].default if max_gb is None else GIGABYTES.word("--max-gb", max_gb)
    given = {"env": env or (), "env_file": env_file or ()}
    with opened(inventory) as cluster:
        cluster.find(run).fetch(*pattern, to=to, max_gb=most, **given, progress=sys.stderr)


@task(
    positional=["run"],
    further="more",
    help={"run": RUN_HELP, "more": "further runs, to compare with it", "port": "port of this machine (default 6006)"},
)
def board(
    c: Context,
    run: str,
    more: list[str],
    inventory: str | None = None,
    port: str | None = None,
    open: bool = False,
) -> None:
    """Open TensorBoard on the event files of runs, also of those in progress, until Ctrl-C."""
    import webbrowser

    from regatta.run import catalogue, outputs, tensorboard

    at = whole("port", port)
    remote = Remote(inventories.load(inventory))
    runs = [outputs.Run.of(catalogue.find(remote, one)) for one in dict.fromkeys([run, *more])]
    folders = tensorboard.bring(remote, runs)
    with contextlib.suppress(KeyboardInterrupt), tensorboard.serving(folders, at, print) as url:
        print(f"{url} shows {', '.join(folder.name for folder in folders)} (Ctrl-C ends it)", flush=True)
        if open:
            webbrowser.open(url)
        while True:
            time.sleep(BOARD_SECONDS)
            tensorboard.bring(remote, runs, io.StringIO())
