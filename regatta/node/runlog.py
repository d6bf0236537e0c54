"""The log of a run on a node: its beginning and its end, within a limit. The supervisor writes it, requests read it.

`log` is the beginning, half of the limit. Later text goes into files `log.<offset of their first byte>`, the oldest
of which are deleted. Offsets count all that was printed, so that a follower continues where it was; one that comes too
late for a part gets its size. Events hold results: those behind the beginning are in `log.events`, too,
all but progress, as `<offset>|<line>`, and are read instead of parts that are gone.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import time
from typing import BinaryIO, Iterable, Iterator, NamedTuple

from regatta_protocol.log import PREFIX

BLOCK = 1 << 18
LONGEST_LINE = 1 << 21
MOST_EVENTS = 64 << 20
_PROGRESS = re.compile(rb'"event":\s*"progress"')
MARK = PREFIX.encode() + b"{"
_PART = re.compile(r"log\.(\d{15})\Z")


class Writer:
    """Appends whole lines. On disk there are never more than `limit` bytes and one line; without a limit, all."""

    def __init__(self, folder: str, limit: int | None) -> None:
        self._folder = folder
        self._limit = limit
        self._path = os.path.join(folder, "log")
        self._file = _append(self._path)
        self._start = 0
        self.size = os.fstat(self._file).st_size
        self._ended: list[tuple[str, int]] = []
        self._events_left = limit // 8 if limit else 0

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)

    def write(self, lines: Iterable[bytes]) -> int:
        """Append lines, which end in a newline. Returns how many could not be written: the disk is full."""
        block: list[bytes] = []
        lost, length = 0, 0
        for line in lines:
            if self._limit and self.size - self._start + length + len(line) > self._room():
                lost += self._append(block)
                block, length = [], 0
                if self.size > self._start:
                    self._begin_part()
            block.append(line)
            length += len(line)
        return lost + self._append(block)

    def _room(self) -> int:
        """Bytes that a part may hold: half of the limit the first, a sixteenth each of the others."""
        assert self._limit
        return self._limit // 2 if not self._start else self._limit // 16

    def _begin_part(self) -> None:
        """Continue in another file; where that cannot be made, the disk is full, and this one does."""
        assert self._limit
        ended = [*self._ended, (self._path, self.size - self._start)] if self._start else []
        while sum(size for _, size in ended) > self._limit * 5 // 16:
            with contextlib.suppress(OSError):
                os.unlink(ended.pop(0)[0])
        path = os.path.join(self._folder, f"log.{self.size:015d}")
        with contextlib.suppress(OSError):
            new = _append(path)
            os.close(self._file)
            self._path, self._file, self._start, self._ended = path, new, self.size, ended

    def _append(self, lines: list[bytes]) -> int:
        block = b"".join(lines)
        if not block:
            return 0
        written = 0
        with contextlib.suppress(OSError):
            written = os.write(self._file, block)
        whole = written if written == len(block) else block.rfind(b"\n", 0, written) + 1
        if whole != written:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self.size - self._start + whole)
        if self._start and self._limit:
            self._keep_events(lines, whole)
        self.size += whole
        return block.count(b"\n", whole)

    def _keep_events(self, lines: list[bytes], whole: int) -> None:
        at, kept = 0, []
        for line in lines:
            if at < whole and MARK in line and not _PROGRESS.search(line) and len(line) <= self._events_left:
                kept.append(b"%d|%s" % (self.size + at, line))
                self._events_left -= len(kept[-1])
            at += len(line)
        if kept:
            with contextlib.suppress(OSError):
                file = _append(os.path.join(self._folder, "log.events"))
                try:
                    os.write(file, b"".join(kept))
                finally:
                    os.close(file)


class Piece(NamedTuple):
    """A part of the log: whole lines and the offset behind them.

    `missed`: bytes before them that are gone, of which `events` is left.
    """

    lines: list[bytes]
    offset: int
    missed: int = 0
    events: tuple[bytes, ...] = ()


def read(folder: str, offset: int, most: int = BLOCK) -> Piece:
    """Return what the log has from a byte on, about `most` bytes; no lines where nothing was added."""
    missed, asked = 0, offset
    while True:
        starts = _starts(folder)  # before the file is read: one that has a successor is complete
        start = max((one for one in starts if one <= offset), default=0)
        after = min((one for one in starts if one > offset), default=None)
        block = b""
        with contextlib.suppress(FileNotFoundError), opened(_path(folder, start)) as file:
            file.seek(offset - start)
            block = file.read(most)
            while block and b"\n" not in block and len(block) < LONGEST_LINE and (more := file.read(most)):
                block += more
        whole = block.rfind(b"\n") + 1 or (len(block) if len(block) >= LONGEST_LINE else 0)
        if whole or after is None:
            events = tuple(_events(folder, asked, offset)) if missed else ()
            lines = block[:whole].removesuffix(b"\n").split(b"\n") if whole else []
            return Piece(lines, offset + whole, missed, events)
        missed, offset = missed + after - offset, after


def opened(path: str) -> BinaryIO:
    """A plain file, to read. OSError for anything else: a link, a FIFO, which would make its reader wait, a folder."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "Not a plain file", path)
    return os.fdopen(descriptor, "rb")


def end(folder: str) -> int:
    """The offset behind the last byte. Raises OSError where there is no log."""
    while start := max(_starts(folder)):
        with contextlib.suppress(FileNotFoundError):  # a part that has just made space for others
            return start + os.path.getsize(_path(folder, start))
    return os.path.getsize(_path(folder, 0))


def quiet(folder: str) -> float:
    """Return seconds since something was printed. Raises OSError where there is no log."""
    newest = os.stat(_path(folder, max(_starts(folder)))).st_mtime
    with contextlib.suppress(OSError):  # what is in place now
        newest = max(newest, os.stat(os.path.join(folder, "live.json")).st_mtime)
    return max(0.0, time.time() - newest)


def _starts(folder: str) -> list[int]:
    """Return where the files that are there begin."""
    return [0, *(int(found[1]) for name in os.listdir(folder) if (found := _PART.match(name)))]


def _path(folder: str, start: int) -> str:
    return os.path.join(folder, f"log.{start:015d}" if start else "log")


def _events(folder: str, first: int, behind: int) -> Iterator[bytes]:
    with contextlib.suppress(OSError), opened(os.path.join(folder, "log.events")) as file:
        while file.tell() < MOST_EVENTS and (line := file.readline(LONGEST_LINE)):
            offset, _, text = line.rstrip(b"\n").partition(b"|")
            if offset.isdigit() and first <= int(offset) < behind:
                yield text


def _append(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
