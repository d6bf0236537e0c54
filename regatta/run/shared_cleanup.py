"""The parts of the shared folder, as the head tells of them, and which of them are to go."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from regatta.hosts.remote import Remote
from regatta.run.catalogue import RunInfo
from regatta_protocol.operations.outputs import AskShared, RemoveShared, SharedPart, SharedRemoved

LOOK_TIMEOUT = 110.0
DELETE_TIMEOUT = 420.0


@dataclass(frozen=True)
class SharedFolder:
    """The part of a run or a project there: bytes on the head's disk, and when it last changed (Unix time)."""

    name: str
    bytes: int
    changed: float


@dataclass(frozen=True)
class Parts:
    """All parts, by kind."""

    runs: tuple[SharedFolder, ...]
    projects: tuple[SharedFolder, ...]


def look(remote: Remote) -> Parts:
    """Return what there is. RemoteError."""
    said = remote.call(remote.cluster.head, AskShared(), timeout=LOOK_TIMEOUT)
    return Parts(_folders(said.runs), _folders(said.projects))


def _folders(parts: Mapping[str, SharedPart]) -> tuple[SharedFolder, ...]:
    return tuple(SharedFolder(name, part.bytes, part.last_change) for name, part in sorted(parts.items()))


def to_go(parts: Parts, found: Sequence[RunInfo], chosen: Collection[RunInfo], before: float) -> list[SharedFolder]:
    """The parts of runs that no run needs but `chosen`, which are deleted, and old ones that no node knows a run of."""
    needed = {_name(info) for info in found if info not in chosen}
    theirs = {_name(info) for info in chosen}
    return [part for part in parts.runs if part.name not in needed and (part.name in theirs or part.changed < before)]


def _name(info: RunInfo) -> str:
    return info.plan.shared or info.run


def remove(
    remote: Remote, runs: Sequence[SharedFolder], projects: Sequence[SharedFolder], unused: float
) -> SharedRemoved:
    """Delete these, and Ray's results that nothing was added to in `unused` seconds."""
    asked = RemoveShared(tuple(part.name for part in runs), tuple(part.name for part in projects), unused)
    return remote.call(remote.cluster.head, asked, timeout=DELETE_TIMEOUT)
