"""A CSV of one's own, or Kaggle's SDSS17: any columns, one of which is the label.

Columns of numbers are features. Columns of words with few different ones become a feature for each of these; others are
left out, and said. The file is held in memory.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from workloads.common.events import BadInput
from workloads.common.storage import packed
from workloads.stars import csvfile
from workloads.stars.columns import ABSENT, IDENTITIES, OF_KAGGLE, RANGES

MOST_WORDS = 20
MOST_CLASSES = 256
ROW_NUMBERS = {"", "unnamed: 0", "index", "id"}
_NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
_DECIMAL_COMMA = re.compile(rb"(?m)(?:^|[;\t|])[+-]?\d+,\d+(?=[;\t|\r\n]|$)")


@dataclass(frozen=True)
class Rows:
    """`features` float32 (k, n) by their `names`; `labels` (n,): places among `classes`. `dropped`: columns that are no
    features, and why; `left_out`: how many rows were, by column."""

    names: list[str]
    classes: list[str]
    features: NDArray[np.float32]
    labels: NDArray[np.uint8]
    dropped: dict[str, str]
    left_out: Counter[str]


def label_of(path: str, label: str | None) -> str | None:
    """The column of the label: the one that is named, that of Kaggle's SDSS17 where the file is one; else None."""
    if label is not None:
        return label
    with packed.opened(path) as (stream, kind):
        if kind == packed.PARQUET:
            return None
        _, header = csvfile.header_of(stream)
    return "class" if _of_kaggle(_names(header)[1]) else None


def _of_kaggle(names: Iterable[str]) -> bool:
    places, others = OF_KAGGLE
    lower = {name.lower() for name in names}
    return others <= lower and any(place <= lower for place in places)


def read(path: str, label: str, bad: str = csvfile.REFUSE) -> Rows:
    """The rows of a file with such a label. `bad`: what to do with values that cannot be. Raises :class:`BadInput`."""
    with packed.opened(path) as (stream, kind):
        if kind == packed.PARQUET:
            raise BadInput(f"{path}: is Parquet, and a CSV is meant: convert it")
        line, header = csvfile.header_of(stream)
        text = b"".join(iter(lambda: stream.read(csvfile.BLOCK_BYTES), b""))
    separator, names = _names(header)
    found = next((name for name in names if name.lower() == label.lower()), None) if label not in names else label
    if found is None:
        raise BadInput(f"{path}: has no column {label} (line {line} names {', '.join(names)}): name one of these")
    if twice := next((name for name, count in Counter(names).items() if count > 1), None):
        raise BadInput(f"{path}: line {line} names column {twice} twice: rename one")
    table = _table(path, text, line + 1, separator, names, found)
    labels, classes = _labels(path, table.column(found), text, line + 1)
    features: dict[str, NDArray[np.float32]] = {}
    dropped: dict[str, str] = {}
    identities = IDENTITIES if _of_kaggle(names) else set()
    for name in (name for name in names if name != found):
        made = _features(name, table.column(name), identities)
        features |= made if isinstance(made, dict) else {}
        dropped |= {name: made} if isinstance(made, str) else {}
    if not features:
        raise BadInput(f"{path}: has no column of numbers besides {found}: give some")
    values = np.stack(list(features.values()))
    values, labels, left_out = _possible(path, (list(features), values, labels), table, (text, line + 1), bad)
    counts = np.bincount(labels, minlength=len(classes))
    if (counts < 2).any():
        few = int(np.argmax(counts < 2))
        rows = "one row" if counts[few] else "no row that is left"
        raise BadInput(
            f"{path}: {found} {classes[few]!r} has {rows}, too few to train and test: leave it out, or add some"
        )
    return Rows(list(features), classes, values, labels, dropped, left_out)


def _names(header: bytes) -> tuple[str, list[str]]:
    """The separator and the names of a header: what makes the most columns of it."""
    text = header.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace").strip()
    return max(((mark, csvfile.cells(text, mark)) for mark in ",;\t|"), key=lambda found: len(found[1]))


def _table(path: str, text: bytes, line: int, separator: str, names: list[str], label: str) -> pa.Table:
    ways = pa.csv.ReadOptions(use_threads=False, column_names=names, block_size=max(len(text), 1 << 20))
    decimal = "," if separator != "," and _DECIMAL_COMMA.search(text, 0, 1 << 16) else "."
    converted = pa.csv.ConvertOptions(
        column_types={label: pa.string()}, strings_can_be_null=True, decimal_point=decimal
    )
    try:
        table = pa.csv.read_csv(pa.BufferReader(text), ways, pa.csv.ParseOptions(delimiter=separator), converted)
    except pa.ArrowInvalid as error:
        if "Empty CSV" in str(error):
            raise BadInput(f"{path}: has no row; give a file with some") from error
        raise BadInput(f"{path}: {csvfile.fault(error, text, line)}") from error
    if not table.num_rows:
        raise BadInput(f"{path}: has no row; give a file with some")
    return table


def _labels(path: str, column: pa.ChunkedArray, text: bytes, line: int) -> tuple[NDArray[np.uint8], list[str]]:
    """Labels as places among the classes, which are sorted, numbers by their value. Raises :class:`BadInput`."""
    words = pc.utf8_trim_whitespace(column).combine_chunks()
    empty = pc.or_kleene(pc.is_null(words), pc.equal(words, "")).to_numpy(zero_copy_only=False).astype(bool)
    if empty.any():
        raise BadInput(
            f"{path}: line {csvfile.line_of(text, int(np.argmax(empty)), line)}: the label is missing: add it"
        )
    encoded = words.dictionary_encode()
    known = encoded.dictionary.to_pylist()
    if not 2 <= len(known) <= MOST_CLASSES:
        few = "all rows have the same label" if len(known) < 2 else f"the label has {len(known):,} values"
        raise BadInput(f"{path}: {few}, and 2 to {MOST_CLASSES} classes are meant: name another column by --label")
    classes = sorted(known, key=_in_order)
    places = np.array([classes.index(name) for name in known], np.uint8)
    return places[encoded.indices.to_numpy()], classes


def _in_order(word: str) -> tuple[int, float, str]:
    try:
        return 0, float(word), word
    except ValueError:
        return 1, 0.0, word


def _features(name: str, column: pa.ChunkedArray, identities: Container[str]) -> dict[str, NDArray[np.float32]] | str:
    """The features that a column makes, or why it makes none."""
    if name.lower() in identities:
        return "numbers a row or its observation"
    if pa.types.is_integer(column.type) and name.lower() in ROW_NUMBERS and _counts(column):
        return "numbers the rows"
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or pa.types.is_boolean(column.type):
        return {name: _numbers(column)}
    if not pa.types.is_string(column.type):
        return f"is of the type {column.type}"
    words = sorted(word for word in pc.unique(column).to_pylist() if word is not None)
    if len(words) <= MOST_WORDS:
        return {f"{name}={word}": _numbers(pc.equal(column, word).fill_null(False)) for word in words}
    numbers = pc.match_substring_regex(column, _NUMBER)
    if 2 * pc.sum(numbers).as_py() > len(column) - column.null_count:
        return {name: _numbers(pc.if_else(numbers, pc.utf8_trim_whitespace(column), None))}
    return f"has {len(words):,} different words"


def _counts(column: pa.ChunkedArray) -> bool:
    """Whether each value is one more than that before it."""
    return not column.null_count and bool(np.all(np.diff(column.to_numpy()) == 1))


def _numbers(column: Any) -> NDArray[np.float32]:
    numbers = column.cast(pa.float32(), safe=False).fill_null(float("nan")).combine_chunks()
    made: NDArray[np.float32] = numbers.to_numpy(zero_copy_only=False)
    return made


def _possible(
    path: str,
    read: tuple[list[str], NDArray[np.float32], NDArray[np.uint8]],
    table: pa.Table,
    at: tuple[bytes, int],
    bad: str,
) -> tuple[NDArray[np.float32], NDArray[np.uint8], Counter[str]]:
    """The rows whose values can be; a missing one, and -9999, cannot. Raises BadInput, or leaves them out."""
    names, values, labels = read
    ranges = [RANGES.get(name, (ABSENT, np.inf)) for name in names]
    least, most = (np.array([one[end] for one in ranges], np.float32) for end in (0, 1))
    wrong = csvfile.impossible(values, np.maximum(least, ABSENT), np.minimum(most, np.finfo(np.float32).max))
    left_out: Counter[str] = Counter()
    if wrong is None:
        return values, labels, left_out
    rows = wrong.any(axis=0)
    if bad == csvfile.REFUSE:
        row = int(np.argmax(rows))
        place = int(np.argmax(wrong[:, row]))
        text, line = at
        word = table.column(names[place])[row].as_py() if names[place] in table.column_names else None
        said = csvfile.cannot_be(names[place], repr(word) if isinstance(word, str) else f"{values[place, row]:g}")
        raise BadInput(f"{path}: line {csvfile.line_of(text, row, line)}: {said}")
    left_out.update(names[place] for place in np.argmax(wrong[:, rows], axis=0).tolist())
    return values[:, ~rows], labels[~rows], left_out
