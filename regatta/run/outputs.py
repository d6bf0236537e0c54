"""The outputs of a run in its working directory on each of its nodes: looked at, chosen by patterns."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from regatta.errors import RemoteError
from regatta.hosts.cluster import Node
from regatta.hosts.remote import Remote
from regatta.run.catalogue import RunInfo
from regatta.terminal.meter import size_text
from regatta.text import shown
from regatta_protocol.operations.outputs import AskLeft, AskSizes, Left

LOOK_TIMEOUT = 130.0
MOST_FILES = 200_000
_PIECE = re.compile(r"(.+?)/(_temporary/.*/)?part-\d{5}\b[^/]*\Z", re.DOTALL)
"""A part of a folder that several processes write; those in `_temporary` were never put in their place."""
_PLACES = {"runs": "shared", "projects": "kept"}


@dataclass(frozen=True)
class File:
    """A file of a run on a node: its path in the working directory, its time in nanoseconds.

    `changed`: it came with the code.
    """

    path: str
    size: int
    mtime_ns: int
    changed: bool


@dataclass(frozen=True)
class NodeOutput:
    """The outputs of a run on one node: `files` are the first of `count`, `left_out` names with the reason.

    `source`: the folder that has them there; `shared`: the part of the shared folder, where it is one: `runs/NAME`.
    """

    node: Node
    count: int
    bytes: int
    files: tuple[File, ...]
    left_out: tuple[tuple[str, str], ...]
    source: str
    shared: str | None = None

    @property
    def place(self) -> str:
        """Return where a person finds them: the node's name; `shared` or `kept`, which all nodes see."""
        return _PLACES[self.shared.partition("/")[0]] if self.shared else self.node.name


@dataclass(frozen=True)
class Run:
    """A run whose outputs are asked for: its nodes, and the names of all that it was planned on.

    `shared`: its parts of the shared folder, of which the project's is the last; a run of an older Regatta has none.
    """

    id: str
    nodes: tuple[Node, ...]
    planned: tuple[str, ...]
    shared: tuple[str, ...] = ()

    @classmethod
    def of(cls, info: RunInfo) -> "Run":
        """A run as the nodes know it."""
        names = (*(node.name for node in info.nodes), *map(str, info.places.values()))
        return cls(info.run, info.nodes, tuple(dict.fromkeys(names)), shared_parts(info.plan.shared, info.plan.project))

    @property
    def several(self) -> bool:
        """Whether its files are in folders by node."""
        return len(self.planned) > 1

    @property
    def missing(self) -> tuple[str, ...]:
        """The names of nodes that were planned and cannot be asked."""
        known = {node.name for node in self.nodes}
        return tuple(name for name in self.planned if name not in known)


def shared_parts(shared: str | None, project: str | None) -> tuple[str, ...]:
    """The parts of the shared folder that a run has: its own, by its name there, and its project's, by its key."""
    known = {"runs": shared, "projects": project}
    return tuple(f"{kind}/{name}" for kind, name in known.items() if name)


def look(
    remote: Remote, run: Run, wanted: Sequence[str] = (), most: int = MOST_FILES
) -> tuple[list[NodeOutput], dict[str, Exception]]:
    """Return what fits one of the patterns (none: all) on each node, and why nodes could not be asked, by name."""
    ask = AskLeft(run.id, most, tuple(wanted))
    head = remote.cluster.head

    def parts(node: Node) -> list[NodeOutput]:
        wanted = [*([None] if node in run.nodes else []), *(run.shared if node == head else ())]
        answers = [(part, remote.call(node, ask.changed(part=part), timeout=LOOK_TIMEOUT)) for part in wanted]
        return [_part(node, run.id, answer, part) for part, answer in answers]

    said, failed = remote.gather(tuple(dict.fromkeys((*run.nodes, *([head] if run.shared else [])))), parts)
    for name in run.missing:
        failed[name] = RemoteError(name, "does not answer, or has forgotten the run")
    found = [part for answers in said.values() for part in answers]
    return sorted(found, key=lambda part: part.shared is not None), failed


def _part(node: Node, run: str, said: Left, shared: str | None = None) -> NodeOutput:
    """Return what a node says; the names in it are the run's choice."""
    files = tuple(File(str(path), int(size), int(at), bool(came)) for path, size, at, came in said.files)
    if bad := next((file.path for file in files if _leads_out(file.path)), None):
        raise RemoteError(
            node.name, f"names a file outside of the run's working directory: {shown(bad)}; nothing of it was fetched"
        )
    left_out = tuple((str(path), str(why)) for path, why in said.left_out)
    return NodeOutput(node, said.count, said.bytes, files, left_out, said.top, shared)


def _leads_out(path: str) -> bool:
    return not path or "\0" in path or any(name in ("", ".", "..") for name in path.split("/"))


def sizes(remote: Remote, runs: Iterable[RunInfo]) -> dict[str, tuple[NodeOutput, ...]]:
    """Return what each of several runs has left, by its id, with its first files; what cannot be told in time is left
    out.
    """
    runs = [*runs]

    def ask(node: Node) -> dict[str, NodeOutput]:
        here = tuple(info.run for info in runs if node in info.nodes)
        said = remote.call(node, AskSizes(here), timeout=LOOK_TIMEOUT).runs if here else {}
        return {run: _part(node, run, part) for run, part in said.items()}

    said, _ = remote.gather(remote.cluster.nodes, ask)
    return {info.run: tuple(found[info.run] for found in said.values() if info.run in found) for info in runs}


def brief(parts: Sequence[NodeOutput], most: int = 2) -> str:
    """Size and first files, in a few words; '-' where there is nothing."""
    size = size_text(sum(part.bytes for part in parts))
    return f"{size}: {first(parts, most)}" if any(part.count for part in parts) else "-"


def words(parts: Iterable[NodeOutput]) -> str:
    """`3 files, 1.2 MB`."""
    parts = [*parts]
    count = sum(part.count for part in parts)
    return f"{count} file{'s' * (count != 1)}, {size_text(sum(part.bytes for part in parts))}"


def first(parts: Iterable[NodeOutput], most: int = 3) -> str:
    """The names of the first files, on one line."""
    parts = [*parts]
    names = list(dict.fromkeys(shown(file.path) for part in parts for file in part.files))
    more = " ..." if sum(part.count for part in parts) > len(names[:most]) else ""
    return f"{', '.join(names[:most])}{more}"


def pieces(parts: Iterable[NodeOutput]) -> list[str]:
    """A line for each folder of which executors have written pieces, each on its own host."""
    found: dict[str, dict[str, bool]] = {}
    for part in parts:
        for file in part.files if not part.shared else ():
            if piece := _PIECE.match(file.path):
                unfinished = found.setdefault(piece[1], {})
                unfinished[part.place] = unfinished.get(part.place, False) or bool(piece[2])
    return [
        f"{shown(folder)} is in pieces on {' and '.join(hosts)}, which executors wrote each on its own host (file://): "
        "no host has all of it. Write it to hdfs://, or below $REGATTA_SHARED"
        for folder, hosts in found.items()
        if len(hosts) > 1 or any(hosts.values())
    ]


def reasons(parts: Iterable[NodeOutput], most: int = 10) -> list[str]:
    """A line for each file that cannot be fetched, and why."""
    lines = [f"{part.place}: {shown(path)} {why}: left out" for part in parts for path, why in part.left_out]
    return [*lines[:most], *([f"{len(lines) - most} more are left out"] if len(lines) > most else [])]
