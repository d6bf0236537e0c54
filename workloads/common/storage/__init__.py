"""Reading data wherever it is: plain paths, ``file:///path``, ``hdfs:///path`` (this cluster's HDFS),
``hdfs://host:port/path``, and object stores: ``s3://bucket/key``, ``gs://bucket/key``. Every function raises
StorageError, a BadInput of one sentence.

Object stores are read by fsspec. Of HDFS, bulk goes through hdfs-native (RPC, 4 to 7 times as fast as WebHDFS),
administration through WebHDFS (docs/explanation/storage.md).
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol, cast

from workloads.common.storage.errors import StorageError, is_folder, translate
from workloads.common.storage.places import Place, is_remote, locate

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

__all__ = [
    "StorageError",
    "exists",
    "identity",
    "is_remote",
    "listing",
    "open",
    "placed_share",
    "read_range",
    "read_ranges",
    "replace",
    "share",
    "size",
    "whole_lines",
]

BUFFER_BYTES = 1 << 20
BLOCK_BYTES = 4 << 20
LINE_BYTES = 64 << 10


class Info(Protocol):
    """A store's facts of a path: `length` in bytes."""

    @property
    def path(self) -> str:
        """In the store."""

    @property
    def length(self) -> int:
        """In bytes."""

    @property
    def folder(self) -> bool:
        """Whether it is none that can be read."""


class Reader(Protocol):
    """A file of a store; `length` in bytes."""

    length: int

    def read(self, offset: int, length: int) -> bytes:
        """Bytes [offset, offset + length), fewer where it ends before."""

    def chunks(self, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The bytes [start, end) in order."""


class Store(Protocol):
    """All that HDFS and object stores have in common."""

    def url(self, path: str) -> str:
        """The address of a path."""

    def info(self, path: str) -> Info:
        """Return what a path is."""

    def find(self, path: str) -> Info | None:
        """As `info`; None where nothing is there."""

    def listing(self, path: str) -> Sequence[Info]:
        """Return what is in a folder, by path."""

    def open(self, path: str) -> Reader:
        """A file for ranged reads."""

    def replace(self, path: str, content: bytes) -> None:
        """Write a file in one step."""


def open(url: str | Path) -> BinaryIO:
    """A file for reading, buffered and seekable. From a store it is read ahead by threads."""
    place = locate(str(url))
    if not place.remote:
        try:
            return Path(place.path).open("rb")
        except OSError as error:
            raise _plain(error, place, "opening it") from error
    return cast(BinaryIO, io.BufferedReader(_Stream(_connect(place).open(place.path)), BUFFER_BYTES))


def size(url: str | Path) -> int:
    """Length of a file in bytes."""
    place = locate(str(url))
    if place.remote:
        info = _connect(place).info(place.path)
        if info.folder:
            raise is_folder(place.url)
        return info.length
    try:
        info_here = Path(place.path).stat()
    except OSError as error:
        raise _plain(error, place, "looking it up") from error
    if Path(place.path).is_dir():
        raise is_folder(place.url)
    return info_here.st_size


def exists(url: str | Path) -> bool:
    """Whether there is a file or a folder."""
    place = locate(str(url))
    if place.remote:
        return _connect(place).find(place.path) is not None
    return Path(place.path).exists()


def listing(url: str | Path) -> list[str]:
    """Addresses of what is in a folder, sorted."""
    place = locate(str(url))
    if place.remote:
        store = _connect(place)
        if not store.info(place.path).folder:
            raise StorageError(f"{place.url}: is a file: give a folder")
        return [store.url(info.path) for info in store.listing(place.path)]
    try:
        return sorted(str(path) for path in Path(place.path).iterdir())
    except OSError as error:
        raise _plain(error, place, "listing it") from error


def read_range(url: str | Path, offset: int, length: int) -> bytes:
    """Bytes [offset, offset + length) of a file, fewer where it ends before."""
    return read_ranges(url, [(offset, length)])[0]


def read_ranges(url: str | Path, ranges: Sequence[tuple[int, int]], threads: int = 4) -> list[bytes]:
    """The bytes of several ranges (offset, length) of a file, in the order asked for; `threads` read them."""
    read = _ranged(locate(str(url)))
    with ThreadPoolExecutor(min(threads, max(1, len(ranges)))) as pool:
        return list(pool.map(lambda one: read(*one), ranges))


def replace(url: str | Path, content: bytes | memoryview) -> None:
    """Write a file in one step: who reads it, or is left with it by a crash, has all of the old or all of the new."""
    place = locate(str(url))
    if place.remote:
        _connect(place).replace(place.path, bytes(content))
        return
    target = Path(place.path)
    new = target.with_name(f"{target.name}.new")
    try:
        with new.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        new.replace(target)
    except OSError as error:
        raise _plain(error, place, "writing it") from error


def share(url: str | Path, part: int, parts: int, block_bytes: int = BLOCK_BYTES) -> Iterator[bytes]:
    """The whole lines of a text file that begin in part `part` of `parts` equal ranges of its bytes, in blocks of them.

    Every line is in the share of exactly one part. A host reads the blocks it holds itself from its own disk. Raises
    ValueError where `part` is none of 0 .. `parts` - 1.
    """
    yield from placed_share(url, part, parts, block_bytes)[1]


def placed_share(url: str | Path, part: int, parts: int, block_bytes: int = BLOCK_BYTES) -> tuple[int, Iterator[bytes]]:
    """As :func:`share`, with the place in the file of the first of the bytes."""
    if not 0 <= part < parts:
        raise ValueError(f"part {part} of {parts}")
    place = locate(str(url))
    reader = _connect(place).open(place.path) if place.remote else None
    total, read = (reader.length, reader.read) if reader else (size(url), _ranged(place))
    start, end = total * part // parts, total * (part + 1) // parts
    start, end = _line_start(read, start, total), _line_start(read, end, total)
    return start, whole_lines(reader.chunks(start, end) if reader else _blocks(read, start, end, block_bytes, place))


def whole_lines(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in blocks that end at the end of a line; the last one where the bytes end."""
    rest = b""
    for block in blocks:
        end = block.rfind(b"\n") + 1
        if end:
            yield rest + block[:end] if rest else block[:end]
            rest = block[end:]
        else:
            rest += block
    if rest:
        yield rest


def identity(url: str | Path) -> str:
    """A name for the content of a file: another content never has it.

    For HDFS path, length, time and checksum; for an object store path, length and what the store tells versions by.
    """
    place = locate(str(url))
    if place.store:
        from workloads.common.storage import objects

        found = objects.connect(place).open(place.path).info
        parts: tuple[object, ...] = (place.filesystem, place.path, found.length, found.version)
    elif place.remote:
        from workloads.common.storage import hdfs, webhdfs

        info = hdfs.connect(place).info(place.path)
        if info.folder:
            raise is_folder(place.url)
        checksum = webhdfs.checksum(place) if info.length else ""
        parts = (place.filesystem, place.path, info.length, info.modified, checksum)
    else:
        size(url)
        here = Path(place.path).stat()
        parts = (os.path.realpath(place.path), here.st_size, here.st_mtime_ns, here.st_ctime_ns, here.st_ino)
    return hashlib.sha256(repr(parts).encode()).hexdigest()


class _Stream(io.RawIOBase):
    """A file of a store as a raw stream; as long as it is read in order, it is read ahead."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._position = 0
        self._chunk = memoryview(b"")
        self._chunks: Iterator[bytes] | None = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._reader.length}[whence]
        if base + offset < 0:
            raise ValueError("seek before the beginning of a file")
        if base + offset != self._position:
            self._position, self._chunk, self._chunks = base + offset, memoryview(b""), None
        return self._position

    def readinto(self, buffer: WriteableBuffer) -> int:
        target = memoryview(buffer).cast("B")
        if not len(self._chunk):
            if self._chunks is None:
                self._chunks = self._reader.chunks(self._position)
            self._chunk = memoryview(next(self._chunks, b""))
        count = min(len(target), len(self._chunk))
        target[:count] = self._chunk[:count]
        self._chunk = self._chunk[count:]
        self._position += count
        return count

    def close(self) -> None:
        self._chunks = None
        super().close()


def _connect(place: Place) -> Store:
    if place.store:
        from workloads.common.storage import objects

        return objects.connect(place)
    from workloads.common.storage import hdfs

    return hdfs.connect(place)


def _ranged(place: Place) -> Callable[[int, int], bytes]:
    if place.remote:
        return _connect(place).open(place.path).read
    try:
        file = Path(place.path).open("rb")  # noqa: SIM115
    except OSError as error:
        raise _plain(error, place, "opening it") from error
    return lambda offset, length: os.pread(file.fileno(), length, offset)


def _blocks(read: Callable[[int, int], bytes], start: int, end: int, block_bytes: int, place: Place) -> Iterator[bytes]:
    while start < end:
        block = read(start, min(block_bytes, end - start))
        if not block:
            raise StorageError(f"{place.url}: has changed while it was read; try again")
        yield block
        start += len(block)


def _line_start(read: Callable[[int, int], bytes], offset: int, total: int) -> int:
    """The first place at or after `offset` where a line begins."""
    if offset in (0, total):
        return offset
    offset -= 1
    while offset < total:
        block = read(offset, LINE_BYTES)
        found = block.find(b"\n")
        if found >= 0:
            return offset + found + 1
        offset += max(1, len(block))
    return total


def _plain(error: OSError, place: Place, step: str) -> StorageError:
    if isinstance(error, FileNotFoundError | IsADirectoryError | PermissionError):
        return StorageError(f"{place.url}: {error.strerror}")
    return translate(error, place.url, step)
