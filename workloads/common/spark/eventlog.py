"""The event log of a driver of Spark, read once the driver has left it: it says what is Spark's own share of a run.

Spark rolls its log and compresses it (zstd) by default; it is read here from HDFS or a folder.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from regatta_protocol.events import OverheadEvent
from workloads.common import events, storage
from workloads.common.spark.overhead import Driver, Seen
from workloads.common.storage.calls import within

MOST_BYTES = 64 << 20
"""So much of a log is read at most, a second or two of work; the event says where there was more."""
SECONDS = 10.0
"""A store that does not answer holds the end of a run up no longer."""
CODECS = ("", ".zstd", ".lz4", ".lzf", ".snappy")
_PART = re.compile(r"/events_(\d+)_[^/]*$")
_CHUNK_BYTES = 1 << 20


class Unreadable(Exception):
    """A log that is not there, or that this cannot read; the message says which and why."""


@dataclass(frozen=True)
class EventLog:
    """The place of a driver's log, and since when the driver has asked for Spark and has had it (Unix seconds)."""

    folder: str | None
    application: str
    asked: float
    ready: float

    @classmethod
    def of(cls, context: Any, asked: float) -> EventLog:
        """That of a context which runs; no `folder` where it keeps none."""
        conf = context.getConf()
        kept = conf.get("spark.eventLog.enabled", "false").lower() == "true"
        folder = str(conf.get("spark.eventLog.dir", "/tmp/spark-events")).rstrip("/") if kept else None
        return cls(folder, str(context.applicationId), asked, time.time())

    def tell(self, leaving: float) -> None:
        """Emit what the log comes to, once the context has stopped; `leaving`: when it was asked to. Never raises."""
        if self.folder is None:
            return
        driver = Driver(self.asked, self.ready, leaving, time.time())
        try:
            fields = within(SECONDS, lambda: self.account(driver))
        except Exception as error:
            events.warning(f"how much of the run was Spark's own is not known: {error}")
        else:
            events.emit(OverheadEvent(**events.own(), **fields))

    def account(self, driver: Driver) -> dict[str, Any]:
        """The fields of the event `overhead`. Raises :class:`Unreadable`, StorageError and ValueError."""
        parts, whole = self.parts()
        seen, left = Seen(), MOST_BYTES
        for part in parts:
            text = _Text(part, left)
            try:
                seen.take(text.lines())
            except (ValueError, KeyError, TypeError) as error:
                raise Unreadable(f"{part} is no event log ({type(error).__name__}: {error})") from None
            whole, left = whole and text.whole, left - text.read
            if not text.whole:
                break
        return seen.account(driver, whole=whole)

    def parts(self) -> tuple[list[str], bool]:
        """Addresses of the log's files in their order, and whether they are all that was written."""
        base, name = self.folder, _in_paths(self.application)
        if storage.exists(rolled := f"{base}/eventlog_v2_{name}"):
            found = [(int(number[1]), one) for one in storage.listing(rolled) if (number := _PART.search(one))]
            if found:
                numbers = [number for number, _ in sorted(found)]
                whole = numbers == [*range(1, len(found) + 1)] and not any(one.endswith(".compact") for _, one in found)
                return [one for _, one in sorted(found)], whole
        for ending in ("", ".inprogress"):
            for codec in CODECS:
                if storage.exists(plain := f"{base}/{name}{codec}{ending}"):
                    return [plain], not ending
        raise Unreadable(f"{base} has no event log of {self.application}")


class _Text:
    """The lines of a file, of `most` bytes at most; `whole` says afterwards whether they were all, `read` how many."""

    def __init__(self, url: str, most: int) -> None:
        self.whole, self.read = True, 0
        self._url, self._most = url, most

    def lines(self) -> Iterator[bytes]:
        """Whole lines only: what a driver had no time to end is left out."""
        rest = b""
        with storage.open(self._url) as file:
            source = _unpacked(file, self._url)
            while True:
                try:
                    chunk = source.read(_CHUNK_BYTES)
                except OSError:  # cut off: pyarrow reports a stream that does not end
                    chunk, self.whole = b"", False
                if not chunk:
                    break
                self.read += len(chunk)
                *lines, rest = (rest + chunk).split(b"\n")
                yield from lines
                if self.read >= self._most:
                    self.whole = False
                    return
        self.whole = self.whole and not rest


def _unpacked(file: BinaryIO, url: str) -> BinaryIO:
    codec = next((one for one in CODECS[1:] if url.removesuffix(".inprogress").endswith(one)), "")
    if not codec:
        return file
    if codec != ".zstd":
        raise Unreadable(f"{url} is compressed by {codec[1:]}: leave spark.eventLog.compression.codec at zstd")
    import pyarrow

    packed: Any = pyarrow.CompressedInputStream(pyarrow.PythonFile(file, mode="r"), "zstd")
    unpacked: BinaryIO = packed
    return unpacked


def _in_paths(application: str) -> str:
    """An application's id as Spark's files have it."""
    return re.sub(r"[.${}'\"]", "_", re.sub(r"[ :/]", "-", application)).lower()


@contextlib.contextmanager
def told(stop: Callable[[], object], context: Any, asked: float) -> Iterator[None]:
    """Stop Spark in the end; where nothing has failed, emit what its log comes to. `asked`: Unix seconds."""
    log = EventLog.of(context, asked)
    try:
        yield
    finally:
        leaving = time.time()
        stop()
    log.tell(leaving)
