"""Releases on a node."""

from typing import Any, Dict, Optional, Tuple

from regatta_protocol.decoding import Path
from regatta_protocol.operations.operation import Operation
from regatta_protocol.states import Word
from regatta_protocol.value import Value


class Held(Word):
    """Whether a node has a release; `MADE`: it has just made it from another one."""

    WHOLE = "whole"
    MISSING = "missing"
    DIFFERS = "differs"
    MADE = "made"


class ReleaseState(Value):
    """The state of a release on a node; `differs`: the first path that is not as it should be, and what is wrong."""

    state: Held
    differs: Tuple[Path, ...] = ()


class ChangedFile(Value):
    """A file of a patch: its kind as in a manifest, a link's target or a file's bytes in base64."""

    kind: str
    content: Path
    mtime_ns: int


class Patch(Value):
    """The changes that make a release out of the older one `base`: paths that are removed, and files by path."""

    base: str
    removed: Tuple[Path, ...] = ()
    files: Dict[Path, ChangedFile] = {}


class BegunRelease(Value):
    """A folder that receives a release; `link_dest`: older ones to which rsync links unchanged files."""

    incoming: str
    link_dest: Tuple[str, ...] = ()


class CommittedRelease(Value):
    """Whether what arrived is the release, and else where it `differs`; `pruned`: older releases that went."""

    ok: bool
    differs: Tuple[Path, ...] = ()
    pruned: Tuple[str, ...] = ()


class Entries(Value):
    """The manifest of a release, None where the node does not have it: entries as lists, which may be many."""

    entries: Any = None


class BeginRelease(Operation[BegunRelease]):
    """Make room for a release; `hint`: one that it may be like."""

    op = "release.begin"
    release: str
    hint: Optional[str] = None


class CommitRelease(Operation[CommittedRelease]):
    """Prove what arrived and let it be the release; `expected`: the entries of its manifest, which may be many."""

    op = "release.commit"
    release: str
    incoming: str
    expected: Any


class FetchRelease(Operation[CommittedRelease]):
    """Have a release from the relay at the address `host`, whose root folder is `root`."""

    op = "release.fetch"
    release: str
    begun: BegunRelease
    host: str
    root: str


class ReleaseEntries(Operation[Entries]):
    """The parts of a release."""

    op = "release.entries"
    release: str


class Abandon(Operation[None]):
    """Remove a folder that was to receive something."""

    op = "release.abandon"
    incoming: str
