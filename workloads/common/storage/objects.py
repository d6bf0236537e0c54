"""Object stores (``s3://``, ``gs://``) by fsspec, with the methods that HDFS has here.

The package of a store (s3fs, gcsfs) comes as a layer of the run; variables of the run that the package knows name the
account and the store (``AWS_ACCESS_KEY_ID``, ``AWS_ENDPOINT_URL``, ``GOOGLE_APPLICATION_CREDENTIALS``).
Every call has a deadline. A key names a folder where others begin with it and a slash.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from workloads.common.storage.calls import again, read_ahead, within
from workloads.common.storage.errors import StorageError, first_line, is_folder
from workloads.common.storage.places import OBJECT_STORES, Place

Made = TypeVar("Made")

PIECE_BYTES = 8 << 20
READ_THREADS = 4
CALL_SECONDS = 45.0
RETRY_SECONDS = 60.0
TRIES = 3
READ_SECONDS = 30.0
SLOWEST_BYTES_PER_SECOND = 1 << 18
SETTINGS: dict[str, dict[str, Any]] = {
    "s3": {"config_kwargs": {"connect_timeout": 5, "read_timeout": 20, "retries": {"total_max_attempts": 2}}},
    "gs": {},
}
"""For fsspec's clients, whose defaults wait for minutes where no server answers."""
WHO = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
}
WHERE = {"s3": "AWS_ENDPOINT_URL", "gs": "STORAGE_EMULATOR_HOST"}
_REFUSED = ("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError", "DefaultCredentialsError")
_UNREACHED = (
    "EndpointConnectionError",
    "ConnectTimeoutError",
    "ReadTimeoutError",
    "ConnectionClosedError",
    "ProxyConnectionError",
    "ClientConnectorError",
    "ServerTimeoutError",
    "HTTPClientError",
)


@dataclass(frozen=True)
class Info:
    """`length` in bytes; `version` tells contents apart: the object's tag or number, and its time."""

    path: str
    length: int
    folder: bool
    version: str


class Objects:
    """The object store that a place is in. Every method raises StorageError, and takes bucket and key as one path."""

    def __init__(self, place: Place) -> None:
        assert place.store is not None
        self.store = place.store
        package = OBJECT_STORES[self.store]
        try:
            import fsspec

            self._fs = fsspec.filesystem(
                self.store, skip_instance_cache=True, use_listings_cache=False, **SETTINGS[self.store]
            )
        except ImportError as error:
            raise StorageError(
                f"{place.url}: the Python package {package} is missing on this host ({first_line(str(error))}); "
                f"it comes with the run: --with {package}, and no --no-environment"
            ) from None
        except Exception as error:
            raise self._explain(error, place.url, "connecting") from error

    def url(self, path: str) -> str:
        """The address of a path: ``s3://bucket/key``."""
        return f"{self.store}://{path}"

    def info(self, path: str) -> Info:
        """Return what a path is. Raises StorageError, also where nothing is there."""
        return _info(self._call(lambda: self._fs.info(path), path, "looking it up"))

    def find(self, path: str) -> Info | None:
        """As :meth:`info`; None where the bucket has nothing there."""
        try:
            return self.info(path)
        except StorageError as error:
            if isinstance(error.__cause__, FileNotFoundError) and not self._lacks_bucket(path):
                return None
            raise

    def listing(self, path: str) -> list[Info]:
        """Return what is in a folder, by path."""
        found = self._call(lambda: self._fs.ls(path, detail=True), path, "listing it")
        return sorted((_info(one) for one in found if one["name"].rstrip("/") != path), key=lambda info: info.path)

    def open(self, path: str) -> Reader:
        """An object for ranged reads. Raises StorageError: missing, a folder, not permitted."""
        return Reader(self, path)

    def replace(self, path: str, content: bytes) -> None:
        """Make an object of these bytes, or replace an earlier one with them: a store does that in one step."""
        seconds = CALL_SECONDS + len(content) / SLOWEST_BYTES_PER_SECOND
        self._call(lambda: self._fs.pipe_file(path, content), path, "writing it", seconds)

    def put(self, here: str, path: str, size: int) -> None:
        """Make an object of a file of this machine with so many bytes, which is there whole or not at all."""
        seconds = CALL_SECONDS + size / SLOWEST_BYTES_PER_SECOND
        self._call(lambda: self._fs.put_file(here, path), path, "writing it", seconds)
        if (arrived := self.info(path).length) != size:
            raise StorageError(f"{self.url(path)}: has {arrived} bytes, and {size} were sent; try again")

    def read(self, path: str, offset: int, length: int) -> bytes:
        """Bytes [offset, offset + length) of an object."""
        seconds = READ_SECONDS + length / SLOWEST_BYTES_PER_SECOND
        step = f"reading {length} bytes at {offset}"
        return bytes(
            self._call(lambda: self._fs.cat_file(path, start=offset, end=offset + length), path, step, seconds)
        )

    def _call(self, call: Callable[[], Made], path: str, step: str, seconds: float | None = None) -> Made:
        def once() -> Made:
            return within(seconds or CALL_SECONDS, call)

        return again(once, self.url(path), step, RETRY_SECONDS, TRIES, self._explain)

    def _lacks_bucket(self, path: str) -> bool:
        bucket = path.partition("/")[0]
        try:
            return not within(CALL_SECONDS, lambda: self._fs.exists(bucket))
        except Exception:
            return False

    def _explain(self, error: BaseException, url: str, step: str) -> StorageError:
        """Return what an exception of a client means for the person who gave `url`."""
        if isinstance(error, StorageError):
            return error
        kinds = {kind.__name__ for kind in type(error).__mro__}
        said = first_line(str(error)) or type(error).__name__
        if isinstance(error, FileNotFoundError):
            path = url.partition("://")[2]
            if self._lacks_bucket(path):
                return StorageError(f"{url}: there is no bucket '{path.partition('/')[0]}' ({step})")
            return StorageError(f"{url}: the bucket has no such object ({step})")
        if isinstance(error, IsADirectoryError):
            return is_folder(url)
        if isinstance(error, PermissionError) or kinds & {*_REFUSED}:
            return StorageError(
                f"{url}: the store refuses ({step}): {said}. It believes {WHO[self.store]} of the run: "
                "give them by --env-file"
            )
        if isinstance(error, TimeoutError) or kinds & {*_UNREACHED}:
            return StorageError(
                f"{url}: no answer from the store ({step}): {said}. {WHERE[self.store]} of the run names its address",
                passing=True,
            )
        return StorageError(f"{url}: {step} failed: {said}", passing=isinstance(error, OSError))


class Reader:
    """An object; `info`: what it was when it was opened, `length` in bytes. For several threads."""

    def __init__(self, store: Objects, path: str) -> None:
        self._store, self.path = store, path
        self.info = store.info(path)
        if self.info.folder:
            raise is_folder(store.url(path))
        self.length = self.info.length

    def read(self, offset: int, length: int) -> bytes:
        """Bytes [offset, offset + length), fewer at the end of the object. Raises StorageError."""
        length = min(length, self.length - offset)
        if length <= 0:
            return b""
        found = self._store.read(self.path, offset, length)
        if len(found) != length:
            raise self._changed()
        return found

    def chunks(self, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The bytes [start, end) in order, in pieces that threads read in advance.

        Raises StorageError as :meth:`read`, and behind the last piece where the object is another one by then.
        """
        end = self.length if end is None else min(end, self.length)
        yield from read_ahead(self.read, start, end, PIECE_BYTES, READ_THREADS)
        if start < end and self._store.info(self.path) != self.info:
            raise self._changed()

    def _changed(self) -> StorageError:
        return StorageError(f"{self._store.url(self.path)}: has changed while it was read")


def connect(place: Place) -> Objects:
    """The store that a place is in; one connection a process and store. Raises StorageError."""
    key = (os.getpid(), place.store)
    if key not in _CONNECTED:
        _CONNECTED[key] = Objects(place)
    return _CONNECTED[key]


_CONNECTED: dict[tuple[object, ...], Objects] = {}


def _info(said: dict[str, Any]) -> Info:
    folder = said["type"] == "directory"
    known = ("ETag", "etag", "generation", "VersionId", "LastModified", "mtime", "updated")
    version = "" if folder else " ".join(f"{name}={said[name]}" for name in known if said.get(name))
    return Info(str(said["name"]), 0 if folder else int(said["size"]), folder, version)
