"""HDFS through hdfs-native (Rust, RPC), made safe against DataNodes and NameNodes that die.

hdfs-native goes to the next replica when a DataNode refuses or sends damaged data, but waits without end for one that
has lost its power, and for three minutes for a NameNode that is not there. So each call has a deadline, after which it
is left to itself, and is tried again with the block locations as the NameNode knows them by then: a DataNode that has
died is not named any more as soon as the NameNode has noticed. The NameNode names replicas on this host first.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from workloads.common.storage.calls import again, read_ahead, within
from workloads.common.storage.errors import StorageError, is_folder
from workloads.common.storage.places import Place, conf_dir

Made = TypeVar("Made")

READ_SECONDS = 12.0
SLOWEST_BYTES_PER_SECOND = 1 << 20
CALL_SECONDS = 30.0
RETRY_SECONDS = 75.0
CONNECT_SECONDS = 4.0
NAMENODE_RESTART_SECONDS = 15.0


@dataclass(frozen=True)
class Info:
    """`length` in bytes, `modified` in milliseconds since 1970, `replication` None for folders."""

    path: str
    length: int
    modified: int
    folder: bool
    owner: str
    permission: int
    replication: int | None


class Hdfs:
    """One HDFS. Every method raises StorageError."""

    def __init__(self, place: Place) -> None:
        self.filesystem = place.filesystem
        _reach(place)
        try:
            import hdfs_native
        except ImportError:
            raise StorageError(
                f"{place.url}: the Python package hdfs-native is missing on this host: provision again"
            ) from None
        self._native = hdfs_native
        self._client = self._call(
            lambda: hdfs_native.Client(self.filesystem, config_dir=str(conf_dir())), place.url, "connecting"
        )

    def url(self, path: str) -> str:
        """The address of an absolute path: ``hdfs://host:port/path``."""
        return f"{self.filesystem}{path}"

    def info(self, path: str) -> Info:
        """Return what a path is. Raises StorageError, also where nothing is there."""
        return _info(self._call(lambda: self._client.get_file_info(path), self.url(path), "looking it up"))

    def find(self, path: str) -> Info | None:
        """As :meth:`info`; None where nothing is there."""
        try:
            return self.info(path)
        except StorageError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return None
            raise

    def listing(self, path: str, *, recursive: bool = False) -> list[Info]:
        """Return what is in a folder (the file itself for a file), by path."""

        def ask() -> list[Any]:
            return list(self._client.list_status(path, recursive))

        found = self._call(ask, self.url(path), "listing it", CALL_SECONDS * 4)
        return sorted(map(_info, found), key=lambda info: info.path)

    def open(self, path: str) -> Reader:
        """A file for ranged reads. Raises StorageError: missing, a folder, not permitted."""
        return Reader(self, path)

    def create(self, path: str, *, replication: int | None = None) -> Any:
        """hdfs-native's writer of a new file, with `write(bytes)` and `close()`; neither has a deadline."""
        options = self._native.WriteOptions(replication=replication)
        return self._call(lambda: self._client.create(path, options), self.url(path), "creating it")

    def replace(self, path: str, content: bytes) -> None:
        """Make a file of these bytes, or replace an earlier one with them, in one step."""
        new = f"{path}.new"
        self.delete(new)
        writer = self.create(new)

        def write() -> None:
            writer.write(content)
            writer.close()

        self._call(write, self.url(path), "writing it", CALL_SECONDS * 4, tries=1)
        self.rename(new, path, overwrite=True)

    def mkdirs(self, path: str, permission: int = 0o755) -> None:
        """Make a folder, and those above it that are missing."""
        self._call(lambda: self._client.mkdirs(path, permission, True), self.url(path), "making the folder")

    def rename(self, source: str, target: str, *, overwrite: bool = False) -> None:
        """Move a file or folder, in one try; `overwrite`: replace what is there, if no folder with something in it."""
        self._call(lambda: self._client.rename(source, target, overwrite), self.url(target), "moving it there", tries=1)

    def delete(self, path: str, *, recursive: bool = False) -> bool:
        """Remove a file or folder, `recursive`: with all in it; gives whether HDFS says that it has gone."""
        return bool(self._call(lambda: self._client.delete(path, recursive), self.url(path), "removing it"))

    def touch(self, path: str) -> None:
        """Set a path's modification time to now."""
        now = int(time.time() * 1000)
        self._call(lambda: self._client.set_times(path, now, now), self.url(path), "setting its time")

    def read(self, path: str) -> Any:
        """hdfs-native's reader of a file, with the block locations of now."""
        return self._call(lambda: self._client.read(path), self.url(path), "opening it")

    def _call(
        self, call: Callable[[], Made], url: str, step: str, seconds: float = CALL_SECONDS, tries: int = 3
    ) -> Made:
        def once() -> Made:
            return within(seconds, call)

        return again(once, url, step, NAMENODE_RESTART_SECONDS, tries)


class Reader:
    """A file of HDFS; `length` in bytes. For several threads."""

    def __init__(self, hdfs: Hdfs, path: str) -> None:
        self._hdfs, self.path = hdfs, path
        info = hdfs.info(path)
        if info.folder:
            raise is_folder(hdfs.url(path))
        self.length, self.modified = info.length, info.modified
        self._native = hdfs.read(path)

    def read(self, offset: int, length: int) -> bytes:
        """Bytes [offset, offset + length), fewer at the end of the file. Raises StorageError."""
        length = min(length, self.length - offset)
        if length <= 0:
            return b""

        seconds = READ_SECONDS + length / SLOWEST_BYTES_PER_SECOND

        def once() -> bytes:
            try:
                return bytes(within(seconds, lambda: self._native.read_range(offset, length)))
            except BaseException:
                self._reopen()
                raise

        return again(once, self._hdfs.url(self.path), f"reading {length} bytes at {offset}", RETRY_SECONDS)

    def chunks(self, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The bytes [start, end) in order, in pieces that threads read in advance. Raises StorageError as :meth:`read`.

        Whole pieces: a stream of packets takes the interpreter's lock 16 times for each megabyte, and waits for it
        whenever those who use the data have it.
        """
        return read_ahead(self.read, start, self.length if end is None else min(end, self.length))

    def _reopen(self) -> None:
        self._native = self._hdfs.read(self.path)
        if self._native.inner.file_length() != self.length:
            raise StorageError(f"{self._hdfs.url(self.path)}: has changed while it was read; try again")


def connect(place: Place) -> Hdfs:
    """The HDFS that a place is in; one connection a process and HDFS. Raises StorageError."""
    key = (os.getpid(), place.filesystem, os.environ.get("HADOOP_USER_NAME"), str(conf_dir()))
    if key not in _CONNECTED:
        _CONNECTED[key] = Hdfs(place)
    return _CONNECTED[key]


_CONNECTED: dict[tuple[object, ...], Hdfs] = {}


def _reach(place: Place) -> None:
    """Prove within seconds that a NameNode listens. A refusal may be one that starts again: it gets some time."""
    host, port = place.address
    end = time.monotonic() + NAMENODE_RESTART_SECONDS
    while True:
        try:
            socket.create_connection((host, port), CONNECT_SECONDS).close()
            return
        except socket.gaierror:
            raise StorageError(
                f"{place.url}: there is no host '{host}' (the NameNode's name); hdfs:///path is this cluster's own HDFS"
            ) from None
        except OSError as error:
            if not isinstance(error, ConnectionRefusedError) or time.monotonic() > end:
                raise StorageError(
                    f"{place.url}: no NameNode answers at {host}:{port} ({error.strerror or error}); "
                    "see 'regatta hdfs-status'"
                ) from None
        time.sleep(0.5)


def _info(status: Any) -> Info:
    return Info(
        status.path,
        status.length,
        status.modification_time,
        status.isdir,
        status.owner,
        status.permission,
        status.replication or None,
    )
