"""The files that runs have left on a node, in their working directories and in the shared folder."""

from typing import Any, Dict, Optional, Tuple

from regatta_protocol.decoding import Path
from regatta_protocol.operations.operation import Operation
from regatta_protocol.value import Value


class Left(Value):
    """The number of files, and their bytes.

    `files`: the first of them as lists of path, bytes, time in ns, and whether it came with the code and was changed,
    which may be many; `left_out`: lists of path and why. The names are the run's choice, and checked by who reads them.
    `top`: the folder on the node that they are in.
    """

    count: int
    bytes: int
    files: Any
    left_out: Any
    top: str = ""


class AskLeft(Operation[Left]):
    """Files of a run that fit a pattern (none: all), the first `most`; `part`: of the shared folder instead."""

    op = "run.left"
    run: str
    most: int
    patterns: Tuple[Path, ...] = ()
    part: Optional[str] = None


class Sizes(Value):
    """The outputs of runs, with their first files; of those that could be looked at in time."""

    runs: Dict[str, Left]


class AskSizes(Operation[Sizes]):
    """The outputs of each of these runs."""

    op = "run.sizes"
    runs: Tuple[str, ...]


class Sums(Value):
    """For each file a list of bytes, time in ns and SHA-256, or None, as `regatta.node.outputs.sums` says."""

    sums: Any


class AskSums(Operation[Sums]):
    """The hashes of a run's files, of `size` bytes together; `part`: as in `AskLeft`."""

    op = "run.sums"
    run: str
    paths: Tuple[Path, ...]
    size: int
    part: Optional[str] = None


class Sending(Value):
    """Files of a run that a member's rsync, with these short options, gets from the gate; `part`: as in `AskLeft`."""

    run: str
    paths: Tuple[Path, ...]
    flags: str
    part: Optional[str] = None


class SharedPart(Value):
    """The part of a run or a project in the shared folder: bytes, and when it last changed (Unix time)."""

    bytes: int
    last_change: float


class SharedParts(Value):
    """All that is in the shared folder, by name."""

    runs: Dict[str, SharedPart]
    projects: Dict[str, SharedPart]


class AskShared(Operation[SharedParts]):
    """The content of the shared folder; for the head."""

    op = "shared.parts"


class SharedRemoved(Value):
    """The names of parts that were there and are gone, and the bytes of all."""

    runs: Tuple[str, ...]
    projects: Tuple[str, ...]
    bytes: int


class RemoveShared(Operation[SharedRemoved]):
    """Delete parts of the shared folder, and Ray's results that nothing was added to in `unused` seconds."""

    op = "shared.remove"
    runs: Tuple[str, ...]
    projects: Tuple[str, ...]
    unused: float
