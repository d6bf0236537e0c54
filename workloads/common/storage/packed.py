"""Files as people pack them: plain, gzip, Zstandard, bzip2, xz or zip, which their first bytes tell, not names."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import lzma
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from workloads.common import storage
from workloads.common.events import BadInput

GZIP, ZSTD, PARQUET = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PAR1"
BZIP2, XZ, ZIP = b"BZh", b"\xfd7zXZ\0", b"PK\x03\x04"
LONGEST = 6
FOREIGN = {
    b"\xff\xfe": "is UTF-16: save it as UTF-8, as 'iconv -f UTF-16 -t UTF-8' does",
    b"\xfe\xff": "is UTF-16: save it as UTF-8, as 'iconv -f UTF-16 -t UTF-8' does",
    b"7z\xbc\xaf\x27\x1c": "is packed by 7-Zip: unpack it by '7z x'",
    b"Rar!": "is packed by RAR: unpack it by 'unrar x'",
}
"""First bytes of what is not read, and what to do."""
_SPREADSHEET = "[Content_Types].xml"
_DAMAGED = (EOFError, zlib.error, gzip.BadGzipFile, lzma.LZMAError, zipfile.BadZipFile)


@contextlib.contextmanager
def opened(path: Path | str) -> Iterator[tuple[BinaryIO, bytes]]:
    """Give what is in a file, unpacked, and which of GZIP, ZSTD, BZIP2, XZ, ZIP and PARQUET it begins with, or nothing.

    Packed data can be read only from its beginning. Parquet is given as it is.

    Raises BadInput where it cannot be read, is damaged, or is of a kind of which `FOREIGN` says what to do.
    """
    with damaged_said(path), storage.open(path) as file:
        first = file.read(LONGEST)
        for magic, words in FOREIGN.items():
            if first.startswith(magic):
                raise BadInput(f"{path}: {words}")
        yield _unpacked(path, file)


def content(path: Path | str) -> bytes:
    """All that a file of whatever kind holds, unpacked.

    Raises BadInput where it cannot be read, or is damaged.
    """
    with damaged_said(path), storage.open(path) as file:
        stream, _ = _unpacked(path, file)
        return b"".join(iter(lambda: stream.read(storage.BUFFER_BYTES), b""))


@contextlib.contextmanager
def damaged_said(path: Path | str) -> Iterator[None]:
    """Raise BadInput for what the readers of files raise."""
    try:
        yield
    except BadInput:
        raise
    except _DAMAGED as error:
        raise BadInput(f"{path}: damaged or truncated file; copy it again ({error})") from error
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}") from error


def _unpacked(path: Path | str, file: BinaryIO) -> tuple[BinaryIO, bytes]:
    file.seek(0)
    first = file.read(LONGEST)
    file.seek(0)
    kind = next((magic for magic in (*_OPENERS, ZSTD, PARQUET) if first.startswith(magic)), b"")
    if kind in _OPENERS:
        name, opener = _OPENERS[kind]
        return cast(BinaryIO, _Packed(path, name, opener(path, file))), kind
    return cast(BinaryIO, _Zstd(path, file)) if kind == ZSTD else file, kind


def _zipped(path: Path | str, file: BinaryIO) -> BinaryIO:
    """The only file of a zip archive. Raises BadInput where there are several, or it needs a password."""
    try:
        archive = zipfile.ZipFile(file)
    except zipfile.BadZipFile as error:
        raise BadInput(f"{path}: damaged or truncated zip file; copy it again ({error})") from error
    names = [name for name in archive.namelist() if name[-1] != "/" and not name.startswith("__MACOSX/")]
    if _SPREADSHEET in names:
        raise BadInput(f"{path}: is a spreadsheet: save the sheet as CSV")
    if len(names) != 1:
        shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
        raise BadInput(f"{path}: is a zip archive of {len(names)} files ({shown}): unpack it, and give one of them")
    try:
        return cast(BinaryIO, archive.open(names[0]))
    except (RuntimeError, NotImplementedError) as error:
        raise BadInput(f"{path}: {error}: unpack it, and give the file in it") from error


_OPENERS: dict[bytes, tuple[str, Callable[[Path | str, BinaryIO], Any]]] = {
    GZIP: ("gzip", lambda _, file: gzip.GzipFile(fileobj=file)),
    BZIP2: ("bzip2", lambda _, file: bz2.BZ2File(file)),
    XZ: ("xz", lambda _, file: lzma.LZMAFile(file)),  # noqa: SIM115
    ZIP: ("zip", _zipped),
}
"""The name of each packer, and what unpacks it as a stream."""


class _Packed:
    """The content of a packed file, read from its beginning. BadInput where it is damaged, or ends early."""

    def __init__(self, path: Path | str, name: str, stream: BinaryIO) -> None:
        self._path, self._name, self._stream = path, name, stream

    def read(self, size: int) -> bytes:
        """At most `size` bytes; none at the end."""
        with self._damage_said():
            return self._stream.read(size)

    def readline(self) -> bytes:
        """One line, as far as its end or that of the file."""
        with self._damage_said():
            return self._stream.readline()

    @contextlib.contextmanager
    def _damage_said(self) -> Iterator[None]:
        try:
            yield
        except BadInput:
            raise
        except (*_DAMAGED, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise BadInput(f"{self._path}: damaged or truncated {self._name} file; copy it again ({error})") from error


class _Zstd:
    """The content of a file of Zstandard frames, read from its beginning."""

    def __init__(self, path: Path | str, stream: BinaryIO) -> None:
        import pyarrow

        self._path = path
        self._stream: Any = pyarrow.CompressedInputStream(pyarrow.PythonFile(stream, "r"), "zstd")

    def read(self, size: int) -> bytes:
        """At most `size` bytes; none at the end. BadInput where the frames are damaged, or end early."""
        try:
            return bytes(self._stream.read(size))
        except OSError as error:
            raise BadInput(f"{self._path}: damaged or truncated zst file; copy it again ({error})") from error

    def readline(self) -> bytes:
        """One line, as far as its end or that of the file."""
        line = bytearray()
        while byte := self.read(1):
            line += byte
            if byte == b"\n":
                break
        return bytes(line)
