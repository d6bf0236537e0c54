"""Tasks about the data in a cluster's HDFS (imports: see `regatta.tasks.runs`)."""

import sys
import time
from collections import Counter
from dataclasses import fields
from pathlib import Path
from typing import Any

from invoke.context import Context

from regatta.cards import discovery
from regatta.errors import DeclinedError, RegattaError, UsageError
from regatta.hosts import inventories
from regatta.hosts.remote import Remote
from regatta.tasks.common import JSON_HELP, task, whole
from regatta.terminal.confirm import confirmed
from regatta.terminal.meter import size_text
from regatta.terminal.table import print_table

FORCE_HELP = "replace what is there"
HDFS_HELP = "hdfs:///folder/file, or /folder/file"


def _note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@task(
    name="data-put",
    positional=["path", "hdfs_path"],
    help={
        "path": "file or folder on this machine",
        "hdfs-path": f"{HDFS_HELP}; a folder: into it",
        "force": FORCE_HELP,
    },
)
def data_put(c: Context, path: str, hdfs_path: str, force: bool = False, inventory: str | None = None) -> None:
    """Store a file or folder in HDFS, proven by checksum."""
    from regatta.hdfs import client as hdfs
    from regatta.hdfs import files as hdfsfiles

    remote, url = Remote(inventories.load(inventory)), hdfs.address(hdfs_path)
    _say(
        "stored as", hdfsfiles.put(remote, Path(path).expanduser().absolute(), url, force=force, note=_note), "hdfs://"
    )


@task(
    name="data-get",
    positional=["hdfs_path", "path"],
    help={"hdfs-path": HDFS_HELP, "path": "where to put it on this machine; a folder: into it", "force": FORCE_HELP},
)
def data_get(c: Context, hdfs_path: str, path: str, force: bool = False, inventory: str | None = None) -> None:
    """Fetch a file or folder from HDFS, proven by checksum."""
    from regatta.hdfs import client as hdfs
    from regatta.hdfs import files as hdfsfiles

    remote, url = Remote(inventories.load(inventory)), hdfs.address(hdfs_path)
    _say("stored as", hdfsfiles.get(remote, url, Path(path).expanduser().absolute(), force=force, note=_note), "")


@task(
    name="data-ls",
    positional=["hdfs_path"],
    help={
        "hdfs-path": "folder or file in HDFS; / is the root",
        "recursive": "with all that is below",
        "json": JSON_HELP,
    },
)
def data_ls(
    c: Context, hdfs_path: str, recursive: bool = False, inventory: str | None = None, json: bool = False
) -> None:
    """List what is in HDFS."""
    from regatta.hdfs import client as hdfs

    url = hdfs.address(hdfs_path)
    found = hdfs.ask(Remote(inventories.load(inventory)), "list", url, recursive=recursive)["entries"]
    if json:
        from regatta.tasks import shown

        names = [field.name for field in fields(shown.HdfsFile)]
        shown.say(shown.HdfsFiles(url, [shown.HdfsFile(**{name: item[name] for name in names}) for item in found]))
        return
    rows = [("size", "copies", "owner", "modified (UTC)", "path")]
    for item in found:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(item["modified"] / 1000))
        size, copies = ("-", "-") if item["folder"] else (size_text(item["length"]), str(item["replication"]))
        rows.append((size, copies, item["owner"], when, item["path"] + ("/" if item["folder"] else "")))
    if found:
        print_table(rows)
    else:
        print(f"{url} is empty")


@task(
    name="data-rm",
    positional=["hdfs_path"],
    help={"hdfs-path": HDFS_HELP, "recursive": "a folder with all in it", "yes": "do not ask (also CONFIRM=yes)"},
)
def data_rm(
    c: Context, hdfs_path: str, recursive: bool = False, yes: bool = False, inventory: str | None = None
) -> None:
    """Remove a file or folder from HDFS (asks first)."""
    from regatta.hdfs import client as hdfs

    remote, url = Remote(inventories.load(inventory)), hdfs.address(hdfs_path)
    found = hdfs.ask(remote, "remove", url, recursive=recursive, look=True)
    what = f"{found['files']} file(s), {size_text(found['bytes'])}"
    if found["folder"] and found["files"] and not recursive:
        raise UsageError(f"{url} is a folder with {what}: add --recursive to remove all of it")
    if not confirmed(f"remove {what} from {url} on {remote.cluster.name}", yes):
        raise DeclinedError("nothing was removed")
    hdfs.ask(remote, "remove", url, recursive=recursive)
    print(f"removed {url}: {what}")


@task(name="hdfs-status", help={"json": JSON_HELP})
def hdfs_status(c: Context, inventory: str | None = None, json: bool = False) -> None:
    """Show HDFS: capacity, DataNodes, copies, safe mode."""
    from regatta.hdfs import client as hdfs
    from regatta.hdfs import status

    remote = Remote(inventories.load(inventory))
    state = status.read(hdfs.ask(remote, "status", "hdfs:///"))
    if json:
        from regatta.tasks import shown

        shown.say(state)
    else:
        print(f"HDFS of {remote.cluster.name}, Hadoop {state.version}")
        for line in state.lines():
            print(line)
        if state.nodes:
            print()
            print_table(state.table())
    if state.problems():
        raise RegattaError("\n       ".join(state.problems()))


@task(
    name="hdfs-repair",
    help={"below": "look at this file, or what is below this folder of HDFS (default: everything)", "json": JSON_HELP},
)
def hdfs_repair(c: Context, below: str = "/", inventory: str | None = None, json: bool = False) -> None:
    """Read every copy of every block on its own host, and replace those that are damaged."""
    from regatta.hdfs import repair

    if not below.startswith("/"):
        raise UsageError(f"'{below}' is no path in HDFS: write /folder/file")
    done = repair.repair(Remote(inventories.load(inventory)), below, _note)
    if json:
        from regatta.tasks import shown

        shown.say(shown.HdfsRepaired(done.read, dict(Counter(copy.file for copy in done.copies))))
        return
    files = ", ".join(sorted({copy.file for copy in done.copies}))
    found = f"{len(done.copies)} damaged, replaced ({files})" if done.copies else "none is damaged"
    print(f"{size_text(done.read)} of copies read: {found}")


def _say(what: str, done: Any, scheme: str) -> None:
    files = f"{done.files} files, " if done.files != 1 else ""
    print(
        f"{what} {scheme}{done.path}: {files}{size_text(done.bytes)} in {done.seconds:.1f} s "
        f"({done.bytes / 1e6 / max(done.seconds, 1e-3):.0f} MB/s), checksum proven"
    )


def _generated() -> str:
    """`digits (images of digits), graph (edges of ppr)`: what cards have generators for."""
    found = discovery.ours().values()
    return ", ".join(f"{of.card.generate.kind} ({of.card.unit} of {of.name})" for of in found if of.card.generate)


@task(
    name="data-gen",
    positional=["kind"],
    help={
        "kind": _generated(),
        "size": "of the workload's units",
        "to": "where in HDFS (default: below /generated): a file, compressed where its name ends in .gz, or a folder",
        "seed": "the same seed makes the same bytes (default 0)",
        "force": FORCE_HELP,
    },
)
def data_gen(
    c: Context,
    kind: str,
    size: str = "1000000",
    to: str | None = None,
    seed: str = "0",
    force: bool = False,
    inventory: str | None = None,
) -> None:
    """Make input of any size, straight into HDFS."""
    from regatta.experiments import generators

    of = generators.find(discovery.every(Path.cwd()), kind)
    remote = Remote(inventories.load(inventory))
    number, chosen = whole("size", size) or 1, whole("seed", seed, least=0) or 0
    for done in generators.make(remote, of, number, chosen, to, force=force):
        _say("made", done, "hdfs://")
