"""``python -m workloads.stars.prepare stars.csv FOLDER``: rows of SDSS -> Parquet that is ready to train on.

Columns whose correlation with the label is below a threshold are dropped, then of each pair whose correlation is above
another the later one; what is left is standardised. Every fifth row at random (by a seed) is held out, and all
statistics come only from the others. One pass over the CSV in blocks, so its size does not matter; the manifest says
what was dropped and why.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from workloads.common import arguments, events, threads
from workloads.common.events import BadInput
from workloads.stars import csvfile
from workloads.stars.columns import FEATURES, LABEL, made_up
from workloads.stars.csvfile import Block
from workloads.stars.table import blocks_of_csv

TEST_SHARE = 0.2
CLASSES = ("STAR", "GALAXY")
MANIFEST = "manifest.json"
_MADE_UP_ROWS = 100_000


@dataclass(frozen=True)
class Choice:
    """Correlations: features with less to the label than `least` go, and of two with more than `most` the later."""

    least: float = 0.1
    most: float = 0.75
    seed: int = 0


class Moments:
    """Sums of what all correlations of k quantities follow from, around `shift` (k,), so that nothing cancels."""

    def __init__(self, shift: NDArray[np.float64]) -> None:
        self._shift = shift[:, None]
        self.rows = 0
        self._sum: Any = 0.0
        self._products: Any = 0.0

    def of(self, values: NDArray[np.float64]) -> tuple[int, Any, Any]:
        """Return what values (k, n), which it uses up, add to the sums: n, their sums (k,), those of their products (k,
        k).
        """
        values -= self._shift
        return values.shape[1], values.sum(axis=1), values @ values.T

    def add(self, part: tuple[int, Any, Any]) -> None:
        """Count in what :meth:`of` has made."""
        self.rows += part[0]
        self._sum = self._sum + part[1]
        self._products = self._products + part[2]

    def result(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Means (k,), standard deviations (k,) and correlations (k, k), not finite where a deviation is 0."""
        mean = self._sum / self.rows
        covariance = self._products / self.rows - np.outer(mean, mean)
        deviation = np.sqrt(np.maximum(np.diag(covariance), 0.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            return self._shift[:, 0] + mean, deviation, covariance / np.outer(deviation, deviation)


def blocks_made_up(count: int, seed: int) -> Iterator[Block]:
    """`count` synthetic rows in blocks of 100,000; the same `seed` makes the same rows."""
    for block, start in enumerate(range(0, count, _MADE_UP_ROWS)):
        numbers = np.random.default_rng([seed, block])
        features, labels = made_up(numbers, min(_MADE_UP_ROWS, count - start))
        yield np.ascontiguousarray(features.T, np.float32), labels


def prepare(
    blocks: Iterator[Block],
    folder: Path,
    choice: Choice,
    source: str,
    names: Sequence[str] = FEATURES,
    classes: Sequence[str] = CLASSES,
    dropped_before: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Write ``train.parquet``, ``test.parquet`` and the manifest, which it returns. Raises :class:`BadInput`.

    `names` of the features; `classes`: what the labels, from 0 on, mean; `dropped_before`: what the reader has left
    out, and why.
    """
    with (
        tempfile.TemporaryDirectory(dir=folder, prefix=".raw-") as raw,
        threads.pool() as pool,
        threadpool_limits(1, "blas"),
    ):
        counts, moments = _split(blocks, Path(raw), choice.seed, pool, (names, len(classes)))
        if moments is None or not counts["test"]:
            raise too_few(source)
        mean, deviation, correlation = moments.result()
        kept, dropped = select(deviation, correlation, choice, source, names)
        dropped = {**(dropped_before or {}), **dropped}
        manifest = manifest_of(source, counts, (kept, dropped), (mean, deviation), choice, names, classes)

        def standardise(part: str) -> None:
            _standardise(Path(raw) / f"{part}.arrow", folder / f"{part}.parquet", kept, mean, deviation, pool, names)

        with ThreadPoolExecutor(2) as writers:
            list(writers.map(standardise, ("train", "test")))
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
    return manifest


def of_csv(
    path: str, folder: Path, choice: Choice, label: str | None = None, bad: str = csvfile.REFUSE
) -> dict[str, Any]:
    """:func:`prepare` of a CSV: of SDSS' columns, of Kaggle's SDSS17, or of one's own with a `label`.

    `bad`: what to do with rows that have a value that cannot be. The manifest counts those that were left out.
    """
    from workloads.stars import own

    left_out: Counter[str] = Counter()
    found = own.label_of(path, label)
    if found is None:
        manifest = prepare(blocks_of_csv(path, bad=bad, left_out=left_out), folder, choice, path)
    else:
        rows = own.read(path, found, bad)
        left_out = rows.left_out
        block = iter([(rows.features, rows.labels)])
        manifest = prepare(block, folder, choice, path, rows.names, rows.classes, rows.dropped)
    manifest["left_out"] = dict(left_out)
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
    return manifest


def said(manifest: Mapping[str, Any]) -> list[str]:
    """Lines for a person: which features were dropped, and how many rows were left out."""
    dropped, left_out = manifest.get("dropped", {}), manifest.get("left_out", {})
    lines = [f"  without {', '.join(dropped)} ({MANIFEST} has the reasons)"]
    rows = ", ".join(f"{count:,} by {name}" for name, count in left_out.items())
    return lines[: bool(dropped)] + ([f"  {sum(left_out.values()):,} rows left out: {rows}"] if left_out else [])


def too_few(source: str) -> BadInput:
    """Return what to raise where all rows fell to one side."""
    return BadInput(f"{source}: too few rows to train on some and test on others; give more")


def manifest_of(
    source: str,
    counts: dict[str, int],
    chosen: tuple[list[int], dict[str, str]],
    of_all: tuple[NDArray[np.float64], NDArray[np.float64]],
    choice: Choice,
    names: Sequence[str] = FEATURES,
    classes: Sequence[str] = CLASSES,
) -> dict[str, Any]:
    """The manifest of all rows: `chosen` as :func:`select` gives it, `of_all`: means and deviations of all features."""
    kept, dropped = chosen
    mean, deviation = of_all
    return {
        "source": source,
        "rows": counts,
        "features": [names[place] for place in kept],
        "mean": [float(mean[place]) for place in kept],
        "deviation": [float(deviation[place]) for place in kept],
        "dropped": dropped,
        "thresholds": {"label": choice.least, "pair": choice.most},
        "seed": choice.seed,
        "classes": list(classes),
        "left_out": {},
    }


def select(
    deviation: NDArray[np.float64],
    correlation: NDArray[np.float64],
    choice: Choice,
    source: str,
    names: Sequence[str] = FEATURES,
) -> tuple[list[int], dict[str, str]]:
    """Places of the features that stay, and why each of the others does not, by its name.

    `deviation` (k,) and `correlation` (k, k) are of the features and, last, the label, or of more than two classes a
    column each, which is 1 in its rows. Raises :class:`BadInput`, which names `source`, where all rows have one type or
    no feature stays.
    """
    if (deviation[len(names) :] == 0).any():
        raise BadInput(f"{source}: all rows have the same type; give a file with both types")
    kept: list[int] = []
    dropped: dict[str, str] = {}
    for place, name in enumerate(names):
        to_label = max(correlation[place, len(names) :], key=abs)
        twin = next((other for other in kept if abs(correlation[place, other]) > choice.most), None)
        if deviation[place] == 0:
            dropped[name] = "constant"
        elif abs(to_label) < choice.least:
            dropped[name] = f"correlation with the type is {to_label:.3f}"
        elif twin is not None:
            dropped[name] = f"correlation with {names[twin]} is {correlation[place, twin]:.3f}"
        else:
            kept.append(place)
    if not kept:
        raise BadInput(f"{source}: no column is correlated with the type by {choice.least} or more; ask for less")
    return kept, dropped


def _split(
    blocks: Iterator[Block], folder: Path, seed: int, pool: ThreadPoolExecutor, kinds: tuple[Sequence[str], int]
) -> tuple[dict[str, int], Moments | None]:
    """Every row goes to one of two raw files; the moments are those of the rows to train on, None without any."""
    numbers = np.random.default_rng([seed, 1])
    names, classes = kinds
    rows = schema(names)
    counts = {"train": 0, "test": 0}
    moments: Moments | None = None

    def drawn() -> Iterator[tuple[Block, NDArray[np.bool_]]]:
        nonlocal moments
        for features, labels in blocks:
            held_out = numbers.random(len(labels)) < TEST_SHARE
            if moments is None and not held_out.all():
                moments = Moments(values_of(features[:, ~held_out], labels[~held_out], classes).mean(axis=1))
            yield (features, labels), held_out

    def parts(block: tuple[Block, NDArray[np.bool_]]) -> tuple[pa.RecordBatch, pa.RecordBatch, Any]:
        (features, labels), held_out = block
        batches, added = [], None
        for chosen in (~held_out, held_out):
            places = np.flatnonzero(chosen)
            taken, types = features.take(places, axis=1), labels[places]
            batches.append(pa.record_batch([*map(_column, taken), _column(types)], schema=rows))
            if chosen is not held_out and len(places):
                assert moments is not None
                added = moments.of(values_of(taken, types, classes))
        return batches[0], batches[1], added

    with (
        pa.ipc.new_file(str(folder / "train.arrow"), rows) as train,
        pa.ipc.new_file(str(folder / "test.arrow"), rows) as test,
    ):
        for *batches, part in threads.in_order(pool, parts, drawn(), ahead=2 * threads.count()):
            for name, file, batch in zip(counts, (train, test), batches, strict=True):
                file.write_batch(batch)
                counts[name] += batch.num_rows
            if moments and part:
                moments.add(part)
    return counts, moments


def values_of(features: NDArray[np.float32], labels: NDArray[np.uint8], classes: int = 2) -> NDArray[np.float64]:
    """Features and, last, the label, (k, n); of more than two classes a row each, 1 where it is that."""
    more = 1 if classes == 2 else classes
    values = np.empty((len(features) + more, len(labels)))
    values[:-more] = features
    values[-more:] = labels if classes == 2 else labels == np.arange(classes)[:, None]
    return values


def _standardise(
    raw: Path,
    target: Path,
    kept: list[int],
    mean: NDArray[np.float64],
    deviation: NDArray[np.float64],
    pool: ThreadPoolExecutor,
    names: Sequence[str],
) -> None:
    rows = schema([names[place] for place in kept])

    def standardised(batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [
            _column(((_numbers(batch.column(place)) - mean[place]) / deviation[place]).astype(np.float32))
            for place in kept
        ]
        return pa.record_batch([*columns, batch.column(len(names))], schema=rows)

    with (
        pa.memory_map(str(raw)) as mapped,
        writer_of(target, rows) as writer,
    ):
        reader = pa.ipc.open_file(mapped)
        batches = map(reader.get_batch, range(reader.num_record_batches))
        for batch in threads.in_order(pool, standardised, batches, ahead=2 * threads.count()):
            writer.write_batch(batch)


def _column(values: NDArray[Any]) -> pa.Array:
    """The same memory as a column. `pa.array` and `to_numpy` would import pandas, which takes a quarter of a second."""
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(values)])


def _numbers(column: pa.Array, dtype: Any = np.float32) -> NDArray[Any]:
    """The same memory as numbers of this type, which the column has; it has a value in each row."""
    return np.frombuffer(column.buffers()[1], dtype, len(column), column.offset * np.dtype(dtype).itemsize)


def schema(features: Sequence[str]) -> pa.Schema:
    """Of prepared rows: float32 features and the label, uint8."""
    return pa.schema([(name, pa.float32()) for name in features] + [(LABEL, pa.uint8())])


def writer_of(target: Path, rows: pa.Schema) -> pa.parquet.ParquetWriter:
    """Writes a file of prepared rows, batch by batch."""
    return pa.parquet.ParquetWriter(target, rows, compression="none", use_dictionary=False)


def unpack(folder: Path, part: str, target: Path) -> None:
    """Write ``train`` or ``test`` as arrays to map: ``PART-features.npy`` (n, k) and ``PART-labels.npy`` (n,).

    float32 and uint8. In blocks, so that rows beyond the memory are no matter, neither here nor for those who map them.
    """
    with pa.parquet.ParquetFile(folder / f"{part}.parquet") as file:
        rows, columns = file.metadata.num_rows, file.metadata.num_columns - 1
        create = np.lib.format.open_memmap
        features = create(target / f"{part}-features.npy", mode="w+", dtype=np.float32, shape=(rows, columns))
        labels = create(target / f"{part}-labels.npy", mode="w+", dtype=np.uint8, shape=(rows,))
        start = 0
        for batch in file.iter_batches():
            end = start + batch.num_rows
            for place in range(columns):
                features[start:end, place] = _numbers(batch.column(place))
            labels[start:end] = _numbers(batch.column(columns), np.uint8)
            start = end
        features.flush()
        labels.flush()


Prepare = Callable[[str, Path, Choice], dict[str, Any]]
"""A function that makes of a CSV, in an empty folder, what :func:`prepare` does."""


def command(prog: str, about: str, prepared: Prepare) -> None:
    """Run a program that prepares a CSV, with the arguments of the process; bad input ends it with status 2."""
    parser = arguments.Parser(prog=prog, description=about)
    parser.add_argument("csv", help="CSV file of SDSS, .gz or not, also hdfs://")
    parser.add_argument("folder", type=Path, help="new folder for the result")
    add_choice(parser)
    given = parser.parse_args()
    if given.folder.exists():
        events.bad_input(f"{given.folder} is there already: name a new folder")
    try:
        with tempfile.TemporaryDirectory(dir=given.folder.absolute().parent, prefix=".preparing-") as work:
            choice = Choice(given.least_correlation, given.most_correlation, given.seed)
            manifest = prepared(given.csv, Path(work), choice)
            Path(work).rename(given.folder)
            Path(work).mkdir()
    except OSError as error:
        events.bad_input(f"{given.folder}: {error.strerror or error}")
    except BadInput as error:
        events.bad_input(error)
    rows = manifest["rows"]
    print(
        f"{given.folder}: {rows['train']:,} rows to train, {rows['test']:,} to test; {', '.join(manifest['features'])}"
    )
    for name, reason in manifest["dropped"].items():
        print(f"  without {name}: {reason}", file=sys.stderr)


def main() -> None:
    """Run with the arguments of the process."""
    command(
        "python -m workloads.stars.prepare",
        "CSV to Parquet.",
        of_csv,
    )


def add_choice(parser: argparse.ArgumentParser) -> None:
    """Add the options of a :class:`Choice`."""
    add = parser.add_argument
    add("--least-correlation", type=float, default=0.1, help="with the type, for a column to stay (default 0.1)")
    add("--most-correlation", type=float, default=0.75, help="of two columns; the later goes (default 0.75)")
    add("--seed", metavar="N", type=arguments.not_negative, default=0, help="of the rows held out (default 0)")


if __name__ == "__main__":
    main()
