"""The files that a run has left in its working directory: files that it made or changed, not those that came with its
code.

Looked at as the account of the run. Links are followed only to files inside the folder; of all else that is no file,
only names are given.
"""

from __future__ import annotations

import contextlib
import filecmp
import functools
import hashlib
import os
import re
import stat
import time
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Sequence, Tuple

from regatta.node import releases, rights, rundirs, shared
from regatta.node.problem import Problem
from regatta_protocol.decoding import fitting
from regatta_protocol.operations.outputs import Left, Sizes, Sums
from regatta_protocol.run import Kept

if TYPE_CHECKING:
    from regatta_protocol.place import Place


LOOK_SECONDS = 120.0
BYTES_A_SECOND = 20e6
SIZES_SECONDS = 8.0
MOST_FILES = 200_000
MOST_LEFT_OUT = 100
MOST_SEEN = 2_000_000
"""Names that are looked at; what is behind them is left out, and said."""
COMPILED = "__pycache__"
_KINDS = {stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}
_BLOCK = 1 << 20


def folder(place: Place, run: str) -> str:
    """Return where a run reads and writes by relative paths."""
    return rundirs.path(place, run, "work")


def account(place: Place, run: str, part: str | None) -> str | None:
    """The account of runs that has what a run has left, or a part of the shared folder; for root."""
    return rights.account(place, rundirs.path(place, run)) if part is None else shared.account(place, run, part)


def source(place: Place, run: str, part: str | None, user: str | None) -> str:
    """The folder of what a run has left, or a part of the shared folder; `user`: the `account` that has it."""
    return folder(place, run) if part is None else shared.part(place, part, user)


def given(place: Place, run: str) -> str:
    """The file that says what came with the code: {path: [bytes, time in nanoseconds]}."""
    return rundirs.path(place, run, "given.json")


def listing(
    place: Place, run: str, patterns: Sequence[str] = (), most: int = MOST_FILES, part: str | None = None
) -> Left:
    """The first `most` of what fits one of the patterns (none: all); paths are relative and sorted.

    `part`: look at that part of the shared folder instead (`shared.part`).
    """
    user = account(place, run, part)
    look = functools.partial(_look, place, run, patterns, most, part, user)
    found: Left = rights.call(user, look, LOOK_SECONDS, Left)
    return found


def _look(place: Place, run: str, patterns: Sequence[str], most: int, part: str | None, user: str | None) -> Left:
    if part is None and not rundirs.there(place, run):
        raise Problem(f"no run '{run}' on this node: it was deleted, or never was here")
    top = source(place, run, part, user)
    for way in [top] if part is None else [os.path.dirname(top), top]:
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISDIR(os.lstat(way).st_mode):
                raise Problem(
                    f"{run}, or another run, has put something else in the place of the folder {way}: look there by ssh"
                )
    fits = re.compile("|".join(map(expression, patterns or ("**",))), re.DOTALL)
    compiled = any(COMPILED in pattern for pattern in patterns)
    came = _Given(place, run) if part is None else None
    found: List[Tuple[str, int, int, bool]] = []
    left_out: List[Tuple[str, str]] = []
    for path, info, why in _walk(top, compiled):
        if not fits.match(path) or (came and came.unchanged(path, info)):
            continue
        if info is None or why:
            left_out.append((path, why))
        else:
            found.append((path, info.st_size, info.st_mtime_ns, came is not None and path in came.files))
    found.sort()
    return Left(
        count=len(found),
        bytes=sum(size for _, size, _, _ in found),
        files=found[: min(most, MOST_FILES)],
        left_out=sorted(left_out)[:MOST_LEFT_OUT],
        top=top,
    )


def sizes(place: Place, runs: Sequence[str]) -> Sizes:
    """The `listing` of those of the runs that are here with the first three names, as far as the time allows."""
    end, found = time.monotonic() + SIZES_SECONDS, {}
    for run in runs:
        if time.monotonic() < end and rundirs.there(place, run):
            with contextlib.suppress(Problem, OSError):
                found[run] = listing(place, run, most=3)
    return Sizes(found)


def expression(pattern: str) -> str:
    """A pattern as a regular expression that fits whole paths: `*`, `?` and `[...]` within a name, `**` any folders.

    All files below a folder that fits do, too.
    """
    made, at = "", 0
    while at < len(pattern):
        if pattern.startswith("**/", at):
            made, at = made + "(?:.*/)?", at + 3
        elif pattern.startswith("**", at):
            made, at = made + ".*", at + 2
        elif pattern[at] == "[" and (end := pattern.find("]", at + 2)) > 0:
            inside = pattern[at + 1 : end].replace("\\", r"\\").replace("[", r"\[")
            made += f"(?!/)[{'^' + inside[1:] if inside[0] in '!^' else inside}]"
            at = end + 1
        else:
            made += {"*": "[^/]*", "?": "[^/]"}.get(pattern[at]) or re.escape(pattern[at])
            at += 1
    return rf"(?:{made})(?:/.*)?\Z"


class _Given:
    """The files that came with the code of a run."""

    def __init__(self, place: Place, run: str) -> None:
        spec = rundirs.spec(place, run) or Kept()
        self._top = folder(place, run)
        self._release = releases.folder(place, spec.release or "-")
        self.files: Dict[str, Any] = rundirs.load(given(place, run)) or {}
        self._kept = set(spec.keep)

    def unchanged(self, path: str, info: os.stat_result | None) -> bool:
        """Whether it is as it came, or leads to what is kept; where only its time differs, whether its bytes do not."""
        if path in self._kept:
            return True
        with contextlib.suppress(OSError):
            if os.path.islink(os.path.join(self._top, path)):
                target = os.readlink(os.path.join(self._top, path))
                same = os.path.join(self._release, path)
                return target == same or (os.path.islink(same) and os.readlink(same) == target)
        known = self.files.get(path)
        with contextlib.suppress(OSError):
            if not self.files:  # a run of before, or too many files to keep a list of
                came = os.lstat(os.path.join(self._release, path))
                known = [came.st_size, came.st_mtime_ns]
        if info is None or not isinstance(known, list) or len(known) != 2 or known[0] != info.st_size:
            return False
        if known[1] == info.st_mtime_ns:
            return True
        with contextlib.suppress(OSError):
            return filecmp.cmp(os.path.join(self._top, path), os.path.join(self._release, path), shallow=False)
        return False


def _walk(top: str, compiled: bool) -> Iterator[Tuple[str, os.stat_result | None, str]]:
    """Each file below a folder: path, what it is, and why it cannot be fetched ('': it can)."""
    folders, seen, real = [""], 0, os.path.realpath(top)
    while folders:
        inside = folders.pop()
        try:
            with os.scandir(os.path.join(top, inside)) as entries:
                found = list(entries)
        except FileNotFoundError:
            continue
        except OSError as error:
            yield inside, None, f"cannot be looked into: {error.strerror}"
            continue
        seen += len(found)
        if seen > MOST_SEEN:
            yield inside, None, f"there are more than {MOST_SEEN} names: what is here and behind it is left out"
            return
        for entry in found:
            path = os.path.join(inside, entry.name)
            with contextlib.suppress(FileNotFoundError):  # it went meanwhile
                if not entry.is_dir(follow_symlinks=False):
                    yield (path, *_looked_at(entry.path, real))
                elif compiled or entry.name != COMPILED:
                    folders.append(path)


def _looked_at(path: str, top: str) -> Tuple[os.stat_result | None, str]:
    try:
        info = os.lstat(path)
        if stat.S_ISLNK(info.st_mode):
            return _followed(path, top)
        if not stat.S_ISREG(info.st_mode):
            return None, f"is {_KINDS.get(stat.S_IFMT(info.st_mode), 'no file')}"
    except FileNotFoundError:
        raise
    except OSError as error:
        return None, f"cannot be read: {error.strerror}"
    return info, ""


def _followed(path: str, top: str) -> Tuple[os.stat_result | None, str]:
    target = os.readlink(path)
    shown = fitting(str, target, "")[:200]
    real = os.path.realpath(path)
    if not real.startswith(top + os.sep):
        return None, f"is a link that leads out of the folder, to {shown}"
    if not os.path.lexists(real):
        return None, f"is a link to {shown}, which is not there"
    info = os.stat(real)
    if stat.S_ISREG(info.st_mode):
        return info, ""
    return None, f"is a link to {shown}, which is no file: fetch that"


def sums(place: Place, run: str, paths: Sequence[str], size: int, part: str | None = None) -> Sums:
    """For each path [bytes, time in ns, SHA-256], or None where it cannot be read any more.

    The hash is None where the file was written while it was read. `size`: the bytes of all files, about. `part`: as in
    :func:`listing`.
    """
    user = account(place, run, part)

    def work() -> List[Any]:
        top = source(place, run, part, user)
        return [_sum(os.path.join(top, path)) for path in paths]

    return Sums(rights.call(user, work, LOOK_SECONDS + size / BYTES_A_SECOND))


def _sum(path: str) -> List[Any] | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None
    with open(descriptor, "rb", buffering=0) as file:
        before = os.fstat(descriptor)
        if not stat.S_ISREG(before.st_mode):
            return None
        digest = hashlib.sha256()
        with contextlib.suppress(OSError):
            while block := file.read(_BLOCK):
                digest.update(block)
                if file.tell() > before.st_size + _BLOCK:  # it grows as fast as it is read
                    break
        after = os.fstat(descriptor)
    same = (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
    return [after.st_size, after.st_mtime_ns, digest.hexdigest() if same else None]
