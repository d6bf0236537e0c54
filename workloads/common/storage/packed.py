"""Files as people pack them: plain, gzip or Zstandard, which their first bytes tell, whatever their names."""

from __future__ import annotations

import contextlib
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from workloads.common import storage
from workloads.common.events import BadInput

GZIP, ZSTD, PARQUET = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PAR1"
LONGEST = 6
FOREIGN = {
    b"BZh": "is packed by bzip2: unpack it, or pack it by gzip or zstd",
    b"\xfd7zXZ\0": "is packed by xz: unpack it, or pack it by gzip or zstd",
    b"PK\x03\x04": "is a zip archive or a spreadsheet: unpack it, or save the sheet as CSV",
    b"\xff\xfe": "is UTF-16: save it as UTF-8, as 'iconv -f UTF-16 -t UTF-8' does",
    b"\xfe\xff": "is UTF-16: save it as UTF-8, as 'iconv -f UTF-16 -t UTF-8' does",
}
"""First bytes of what is not read, and what to do."""


@contextlib.contextmanager
def opened(path: Path | str) -> Iterator[tuple[BinaryIO, bytes]]:
    """Give what is in a file, unpacked, and which of GZIP, ZSTD and PARQUET it begins with, else nothing.

    What was packed by the first two can only be read from its beginning. Parquet is given as it is.

    Raises BadInput where it cannot be read, is damaged, or is of a kind of which `FOREIGN` says what to do.
    """
    with damaged_said(path), storage.open(path) as file:
        first = file.read(LONGEST)
        for magic, words in FOREIGN.items():
            if first.startswith(magic):
                raise BadInput(f"{path}: {words}")
        yield _unpacked(path, file)


def content(path: Path | str) -> bytes:
    """All that a file of whatever kind holds; what gzip or Zstandard has packed, unpacked.

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
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise BadInput(f"{path}: damaged or truncated gzip file; copy it again ({error})") from error
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}") from error


def _unpacked(path: Path | str, file: BinaryIO) -> tuple[BinaryIO, bytes]:
    file.seek(0)
    first = file.read(LONGEST)
    file.seek(0)
    kind = next((magic for magic in (GZIP, ZSTD, PARQUET) if first.startswith(magic)), b"")
    if kind == GZIP:
        return cast(BinaryIO, gzip.GzipFile(fileobj=file)), kind
    return cast(BinaryIO, _Zstd(path, file)) if kind == ZSTD else file, kind


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
