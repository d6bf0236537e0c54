"""``python3 -m workloads.ppr.debian OUT.txt[.gz]``: this machine's Debian package dependency graph as an edge list.

Nodes are package names: those that ``apt-cache dumpavail`` lists and those that they refer to; where apt has no lists
(a container), the installed packages and those that they refer to. An edge leads from a package to each name in its
Depends, Pre-Depends, Recommends and Suggests (``--relations depends``: the first two), every alternative of ``a | b``
included, once whatever its versions and architectures: ``python3:any (>= 3.9)`` is ``python3``.
A name without a record, virtual or not to be had, is a node without edges out: what provides it is not looked up.
Ids number the names in order, from 0. On Debian 12, 72,120 nodes and 341,948 edges.

Only the standard library: this runs where the controller runs.
"""

from __future__ import annotations

import argparse
import gzip
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

RELATIONS = {
    "depends": ("Depends", "Pre-Depends"),
    "all": ("Depends", "Pre-Depends", "Recommends", "Suggests"),
}
ELSE = "give another graph with --graph FILE"
STATUS = Path("/var/lib/dpkg/status")

_NAME = re.compile(r"(?:^|[,|])\s*([^\s:(\[<,|]+)")


class NoPackages(Exception):
    """This machine has no list of packages, and the message says what to do."""


def dump(status: Path) -> str:
    """Give the records of all packages that apt knows of, else of those in `status`. Raises :class:`NoPackages`."""
    try:
        available = dump_available()
        if available.strip() or not status.is_file():
            return available
    except NoPackages:
        if not status.is_file():
            raise
    return status.read_text("utf-8", "replace")


def dump_available() -> str:
    """Give the records of all packages in apt's lists. Raises :class:`NoPackages`."""
    try:
        run = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, check=True)
    except FileNotFoundError:
        raise NoPackages(f"this machine has no apt-cache: {ELSE}") from None
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip()
        raise NoPackages(f"apt-cache dumpavail failed ({said}): run apt-get update, or {ELSE}") from None
    return run.stdout.decode("utf-8", "replace")


def dependencies(records: str, relations: Iterable[str]) -> dict[str, set[str]]:
    """Names that each package refers to in the fields `relations`; one without any is there with none."""
    found: dict[str, set[str]] = {}
    targets = set[str]()
    for field, value in _fields(records.split("\n"), ("Package", *relations)):
        if field == "Package":
            targets = found.setdefault(value, set())
        else:
            targets.update(_NAME.findall(value))
    return found


def _fields(lines: list[str], wanted: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """The `wanted` fields in order, continuation lines joined on."""
    starts = tuple(f"{name}:" for name in wanted)
    field, value = "", ""
    for line in lines:
        if field and line[:1] in (" ", "\t"):
            value += line
            continue
        if field:
            yield field, value.strip()
            field = ""
        if line.startswith(starts):
            field, _, value = line.partition(":")
    if field:
        yield field, value.strip()


def edge_list(found: dict[str, set[str]]) -> str:
    """The graph as text, the same for the same `found`. Raises :class:`NoPackages` if there are no edges."""
    names = sorted({*found, *(name for targets in found.values() for name in targets)})
    ids = {name: number for number, name in enumerate(names)}
    edges = [
        (ids[package], target) for package in sorted(found) for target in sorted(map(ids.__getitem__, found[package]))
    ]
    if not edges:
        raise NoPackages(f"apt's list of packages is empty: run apt-get update, or {ELSE}")
    lines = [f"# Debian package dependencies: {len(names)} nodes, {len(edges)} edges"]
    lines += [f"# node {number} {name}" for number, name in enumerate(names)]
    lines += [f"{source}\t{target}" for source, target in edges]
    return "\n".join(lines) + "\n"


def write(path: Path, text: str) -> None:
    """Write `text`, compressed if the name ends in .gz; the file appears whole or not at all."""
    data = text.encode()
    if path.suffix == ".gz":
        data = gzip.compress(data, compresslevel=6, mtime=0)
    descriptor, unfinished = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
        mask = os.umask(0)
        os.umask(mask)
        Path(unfinished).chmod(0o666 & ~mask)
        Path(unfinished).replace(path)
    except BaseException:
        Path(unfinished).unlink(missing_ok=True)
        raise


def main() -> None:
    """Run with the arguments of the process; status 2 where there is no list of packages or no place to write."""
    parser = argparse.ArgumentParser(prog="python3 -m workloads.ppr.debian", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("out", type=Path, metavar="OUT.txt[.gz]")
    parser.add_argument(
        "--relations", choices=sorted(RELATIONS), default="all", help="fields that make edges (default all)"
    )
    parser.add_argument(
        "--status",
        type=Path,
        default=STATUS,
        help="installed packages, for where apt has no lists (default %(default)s)",
    )
    given = parser.parse_args()
    try:
        write(given.out, edge_list(dependencies(dump(given.status), RELATIONS[given.relations])))
    except NoPackages as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    except OSError as error:
        print(f"{given.out}: {error.strerror}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
