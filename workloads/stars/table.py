"""Reads CSV files of SDSS, .gz or not, of this host or HDFS: blocks of whole lines, taken apart by threads.

A block of plain numbers is taken apart by machine code (kernels.py), any other by Arrow, which knows quotes, exponents
and how to say what is wrong.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from workloads.common import compiled, storage, threads
from workloads.common.events import BadInput
from workloads.stars.columns import FEATURES, LABEL, LABELS

BLOCK_BYTES = 4 << 20
Block = tuple[NDArray[np.float32], NDArray[np.uint8]]
"""Features (33, n), a row a feature, and labels (n,)."""

kernels = compiled.load("workloads.stars.kernels")

_GZIP_MAGIC = b"\x1f\x8b"
_FOUND = re.compile(r"(?:In CSV column #(\d+): )?.*Row #(\d+): (.*)")


def blocks_of_csv(path: str, block_bytes: int = BLOCK_BYTES) -> Iterator[Block]:
    """The rows of a file in their order, in blocks of about `block_bytes` of text.

    Raises :class:`BadInput` with the line of the first that is wrong, and where the file is missing, damaged, without a
    row, or lacks a column.
    """
    try:
        with storage.open(path) as stream:
            packed = stream.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
            stream.seek(0)
            source: Any = gzip.GzipFile(fileobj=stream) if packed else stream
            table = _Table(path, source.readline())
            text = storage.whole_lines(iter(lambda: source.read(block_bytes), b""))
            rows = 0
            with threads.pool() as pool:
                for block in threads.in_order(pool, table.parse, _numbered(text), ahead=2 * threads.count()):
                    rows += len(block[1])
                    yield block
            if not rows:
                raise BadInput(f"{path}: has no row")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise BadInput(f"{path}: damaged or truncated gzip file ({error})") from error
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}") from error


def _numbered(text: Iterator[bytes]) -> Iterator[tuple[int, bytes]]:
    """Blocks with the number of their first line; the header is line 1."""
    line = 2
    for block in text:
        yield line, block
        line += block.count(b"\n")


class _Table:
    """What the first line says of a file."""

    def __init__(self, path: str, header: bytes) -> None:
        self._path = path
        names = [name.strip().strip('"') for name in header.decode("utf-8", "replace").strip().split(",")]
        if names == [""]:
            raise BadInput(f"{path}: is empty; its first line should name the columns")
        missing = [name for name in (*FEATURES, LABEL) if name not in names]
        if missing:
            raise BadInput(f"{path}: has no column {', '.join(missing)}")
        places = {name: place for place, name in enumerate(FEATURES)} | {LABEL: kernels.TYPE}
        self._places = np.array([places.get(name, kernels.SKIPPED) for name in names], np.int64)
        self._plain = len(set(names)) == len(names)
        self._read = pa.csv.ReadOptions(use_threads=False, column_names=names, block_size=1 << 30)
        self._convert = pa.csv.ConvertOptions(
            column_types={name: pa.float32() for name in FEATURES} | {LABEL: pa.string()},
            include_columns=[*FEATURES, LABEL],
            strings_can_be_null=False,
            null_values=[],
        )

    def parse(self, numbered: tuple[int, bytes]) -> Block:
        """Lines -> rows."""
        line, text = numbered
        return self._parse_plain(text, text.count(b"\n") + 1) or self._parse_any(text, line)

    def _parse_plain(self, text: bytes, most: int) -> Block | None:
        features, labels = np.empty((len(FEATURES), most), np.float32), np.empty(most, np.uint8)
        count = kernels.parse(np.frombuffer(text, np.uint8), self._places, features, labels) if self._plain else -1
        return (features[:, :count], labels[:count]) if count >= 0 else None

    def _parse_any(self, text: bytes, line: int) -> Block:
        try:
            table = pa.csv.read_csv(pa.BufferReader(text), self._read, convert_options=self._convert).combine_chunks()
        except pa.ArrowInvalid as error:
            if "Empty CSV" in str(error):
                return np.empty((len(FEATURES), 0), np.float32), np.empty(0, np.uint8)
            raise BadInput(f"{self._path}: {_fault(error, line)}") from error
        features = np.empty((len(FEATURES), table.num_rows), np.float32)
        for place, name in enumerate(FEATURES):
            features[place] = table.column(name).to_numpy()
        if not np.isfinite(features).all():
            row, place = np.argwhere(~np.isfinite(features.T))[0]
            raise BadInput(f"{self._path}: line {line + row}: {FEATURES[place]} is {features[place, row]}")
        return features, self._labels(table.column(LABEL), line)

    def _labels(self, words: pa.ChunkedArray, line: int) -> NDArray[np.uint8]:
        encoded = words.combine_chunks().dictionary_encode()
        numbers = [LABELS.get(str(word).strip().lower(), 255) for word in encoded.dictionary.to_pylist()]
        found: NDArray[np.uint8] = np.array(numbers, np.uint8)[encoded.indices.to_numpy()]
        if (wrong := np.flatnonzero(found == 255)).size:
            word = words[int(wrong[0])].as_py()
            raise BadInput(f"{self._path}: line {line + wrong[0]}: type is {word!r}, not GALAXY (3) or STAR (6)")
        return found


def _fault(error: BaseException, line: int) -> str:
    """What Arrow says, with the file's line: it counts rows from 1 in a block that begins at `line`."""
    text = str(error).splitlines()[0]
    found = _FOUND.search(text)
    if not found:
        return text
    column = f"column {int(found[1]) + 1}: " if found[1] else ""
    return f"line {line + int(found[2]) - 1}: {column}{found[3]}"
