"""CSV files of SDSS as people have them: what their header says, and their rows as Arrow takes them apart.

Arrow knows quotes and exponents and how to say what is wrong. Without machine code: the controller reads this too.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from workloads.common import storage, threads
from workloads.common.events import BadInput
from workloads.common.storage import packed
from workloads.stars.columns import ABSENT, FEATURES, LABEL, LABELS, RANGES

BLOCK_BYTES = 4 << 20
Block = tuple[NDArray[np.float32], NDArray[np.uint8]]
"""Features (33, n), a row a feature, and labels (n,)."""

REFUSE, LEAVE_OUT = "refuse", "leave-out"
"""The ways to treat rows with values that cannot be."""

_LEAST, _MOST = (
    np.array([max(RANGES.get(name, (ABSENT, np.inf))[end], ABSENT) for name in FEATURES], np.float32) for end in (0, 1)
)
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_WANTED = (*FEATURES, LABEL)
_FOUND = re.compile(r"(?:In CSV column #(\d+): )?.*Row #(\d+): (.*)")
_SHOWN = 80


class Table:
    """The header of a file; `line`: its number. `bad`: what to do with rows that have an impossible value.

    `left_out`: how many rows were, by the column that was the first to be wrong.
    """

    def __init__(self, path: str, header: bytes, line: int = 1, bad: str = REFUSE) -> None:
        self._path, self._bad = path, bad
        self.left_out: Counter[str] = Counter()
        text = header.removeprefix(_BYTE_ORDER_MARK).decode("utf-8", "replace").strip()
        if not text:
            raise BadInput(f"{path}: is empty; its first line should name the columns")
        self.separator, names = max(
            ((separator, _named(cells(text, separator))) for separator in ",;\t"),
            key=lambda found: sum(name in _WANTED for name in found[1]),
        )
        missing = [name for name in _WANTED if name not in names]
        if missing:
            shown = text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
            raise BadInput(f"{path}: has no column {', '.join(missing)} (line {line} should name them: {shown!r})")
        if twice := [name for name in _WANTED if names.count(name) > 1]:
            raise BadInput(f"{path}: line {line} names column {', '.join(twice)} twice: rename one")
        self.names = [name if name in _WANTED else f"#{place}" for place, name in enumerate(names)]
        self._read = pa.csv.ReadOptions(use_threads=False, column_names=self.names, block_size=1 << 30)
        self._parse = pa.csv.ParseOptions(delimiter=self.separator)
        self._convert = pa.csv.ConvertOptions(
            column_types={name: pa.float32() for name in FEATURES} | {LABEL: pa.string()},
            include_columns=list(_WANTED),
            strings_can_be_null=False,
            null_values=[],
        )

    def parse(self, numbered: tuple[int, bytes]) -> Block:
        """Whole lines, of which the first has a number, as rows. Raises BadInput with the line that is wrong."""
        return self._possible(self._parse_any(numbered[1], numbered[0]), numbered)

    def _possible(self, block: Block, numbered: tuple[int, bytes]) -> Block:
        """Rows whose values can be. Raises BadInput for others, or leaves them out and counts them."""
        features, labels = block
        wrong = impossible(features, _LEAST, _MOST)
        if wrong is None:
            return block
        if self._bad == REFUSE:
            row = int(np.argmax(wrong.any(axis=0)))
            place = int(np.argmax(wrong[:, row]))
            number = line_of(numbered[1], row, numbered[0])
            raise BadInput(f"{self._path}: line {number}: {cannot_be(FEATURES[place], f'{features[place, row]:g}')}")
        rows = wrong.any(axis=0)
        self.left_out.update(FEATURES[place] for place in np.argmax(wrong[:, rows], axis=0).tolist())
        return features[:, ~rows], labels[~rows]

    def _parse_any(self, text: bytes, line: int) -> Block:
        try:
            read = pa.csv.read_csv(pa.BufferReader(text), self._read, self._parse, self._convert).combine_chunks()
        except pa.ArrowInvalid as error:
            if "Empty CSV" in str(error):
                return np.empty((len(FEATURES), 0), np.float32), np.empty(0, np.uint8)
            raise BadInput(f"{self._path}: {fault(error, text, line)}") from error
        features = np.empty((len(FEATURES), read.num_rows), np.float32)
        for place, name in enumerate(FEATURES):
            features[place] = read.column(name).to_numpy()
        if not np.isfinite(features).all():
            row, place = np.argwhere(~np.isfinite(features.T))[0]
            number = line_of(text, int(row), line)
            raise BadInput(f"{self._path}: line {number}: {FEATURES[place]} is {features[place, row]}")
        return features, self._labels(read.column(LABEL), text, line)

    def _labels(self, words: pa.ChunkedArray, text: bytes, line: int) -> NDArray[np.uint8]:
        encoded = words.combine_chunks().dictionary_encode()
        numbers = [LABELS.get(str(word).strip().lower(), 255) for word in encoded.dictionary.to_pylist()]
        found: NDArray[np.uint8] = np.array(numbers, np.uint8)[encoded.indices.to_numpy()]
        if (wrong := np.flatnonzero(found == 255)).size:
            row = int(wrong[0])
            number = line_of(text, row, line)
            raise BadInput(f"{self._path}: line {number}: type is {words[row].as_py()!r}, not GALAXY (3) or STAR (6)")
        return found


def impossible(
    features: NDArray[np.float32], least: NDArray[np.float32], most: NDArray[np.float32]
) -> NDArray[np.bool_] | None:
    """Which values (k, n) are outside of `least` and `most` (k,); None where none is."""
    if not features.shape[1] or ((features.min(axis=1) >= least).all() and (features.max(axis=1) <= most).all()):
        return None
    wrong: NDArray[np.bool_] = ~((features >= least[:, None]) & (features <= most[:, None]))
    return wrong


def cannot_be(name: str, value: str) -> str:
    """Return what is wrong with a value, and what to do."""
    return f"{name} is {value}, which it cannot be: correct it, or leave such rows out by --bad-rows leave-out"


def blocks(
    path: str,
    table_of: Callable[[str, bytes, int, str], Table],
    block_bytes: int = BLOCK_BYTES,
    bad: str = REFUSE,
    left_out: Counter[str] | None = None,
) -> Iterator[Block]:
    """The rows of a file in their order, in blocks of about `block_bytes` of text, as the table of its header has them.

    `bad`: what to do with rows that have an impossible value; `left_out` counts those that were, by column, at the end.
    Lines that begin with ``#`` before the header are comments, as in what SkyServer writes. Raises :class:`BadInput`
    with the line of the first that is wrong, and where the file is missing, damaged, without a row, or lacks a column.
    """
    with packed.opened(path) as (stream, kind):
        if kind == packed.PARQUET:
            raise BadInput(f"{path}: is Parquet, and a CSV is meant, or a folder that workloads.stars.prepare has made")
        line, header = header_of(stream)
        table = table_of(path, header, line, bad)
        text = storage.whole_lines(iter(lambda: stream.read(block_bytes), b""))
        rows = 0
        with threads.pool() as pool:
            for block in threads.in_order(pool, table.parse, _numbered(text, line + 1), ahead=2 * threads.count()):
                rows += len(block[1])
                yield block
        if left_out is not None:
            left_out.update(table.left_out)
        if not rows:
            raise BadInput(f"{path}: has no row{' that is possible' * bool(table.left_out)}; give a file with some")


def header_of(stream: BinaryIO) -> tuple[int, bytes]:
    """The number of the line that names the columns, and that line."""
    line, header = 1, stream.readline()
    while header.strip().removeprefix(_BYTE_ORDER_MARK).startswith(b"#") or header.isspace():
        line, header = line + 1, stream.readline()
    return line, header


def _numbered(text: Iterator[bytes], line: int) -> Iterator[tuple[int, bytes]]:
    """Blocks with the number of their first line."""
    for block in text:
        yield line, block
        line += block.count(b"\n")


def cells(text: str, separator: str) -> list[str]:
    """The names in a header."""
    try:
        return [name.strip() for name in next(csv.reader([text], delimiter=separator, skipinitialspace=True))]
    except csv.Error:
        return []


def _named(names: list[str]) -> list[str]:
    """The same names; one that differs from a column's only in its case is the column's, where that is not there."""
    others = {name.lower(): name for name in _WANTED if name not in names}
    return [others.get(name.lower(), name) for name in names]


def fault(error: BaseException, text: bytes, line: int) -> str:
    """Return what Arrow says, with the file's line: it counts rows from 1 in a block that begins at `line`."""
    said = str(error).splitlines()[0]
    found = _FOUND.search(said)
    if not found:
        return said
    column = f"column {int(found[1]) + 1}: " if found[1] else ""
    return f"line {line_of(text, int(found[2]) - 1, line)}: {column}{found[3]}"


def line_of(text: bytes, row: int, line: int) -> int:
    """The line of a row, from 0, of a block that begins at `line`: lines without anything are no rows."""
    for number, content in enumerate(text.split(b"\n")):
        row -= bool(content.removesuffix(b"\r"))
        if row < 0:
            return line + number
    return line
