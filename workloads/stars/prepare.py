"""``python -m workloads.stars.prepare stars.csv FOLDER``: rows of SDSS -> Parquet that is ready to train on.

Columns whose correlation with the label is below a threshold are dropped, then of each pair whose correlation is above
another the later one; what is left is standardised. Every fifth row at random (by a seed) is held out, and all
statistics come from the others alone. One pass over the CSV in blocks, so its size does not matter; the manifest says
what was dropped and why.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from workloads.common import arguments, events, storage
from workloads.common.events import BadInput
from workloads.stars.columns import FEATURES, LABEL, LABELS, made_up

BLOCK_BYTES = 8 << 20
TEST_SHARE = 0.2
MANIFEST = "manifest.json"
_GZIP_MAGIC = b"\x1f\x8b"
_MADE_UP_ROWS = 100_000

Block = tuple[NDArray[np.float32], NDArray[np.uint8]]


@dataclass(frozen=True)
class Choice:
    """Correlations: features with less to the label than `least` go, and of two with more than `most` the later."""

    least: float = 0.1
    most: float = 0.75
    seed: int = 0


class Moments:
    """Sums of what all correlations follow from, around the first block's means, so that nothing cancels."""

    def __init__(self) -> None:
        self.rows = 0
        self._shift: NDArray[np.float64] | None = None
        self._sum: Any = 0.0
        self._products: Any = 0.0

    def add(self, values: NDArray[np.float64]) -> None:
        """Rows (n, k)."""
        if self._shift is None:
            self._shift = values.mean(axis=0)
        values = values - self._shift
        self.rows += len(values)
        self._sum = self._sum + values.sum(axis=0)
        self._products = self._products + values.T @ values

    def result(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Means (k,), deviations (k,), correlations (k, k)."""
        assert self._shift is not None
        mean = self._sum / self.rows
        covariance = self._products / self.rows - np.outer(mean, mean)
        deviation = np.sqrt(np.maximum(np.diag(covariance), 0.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            return self._shift + mean, deviation, covariance / np.outer(deviation, deviation)


def blocks_of_csv(path: str) -> Iterator[Block]:
    """Features (n, 33) and labels of a CSV file, .gz or not, of this host or HDFS. Raises :class:`BadInput`."""
    try:
        yield from _read(path, threads=True)
    except pa.ArrowInvalid as error:
        if "Row #" not in str(error):
            for _ in _read_again(path):
                pass
        raise BadInput(f"{path}: {_fault(error)}") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise BadInput(f"{path}: damaged or truncated gzip file ({error})") from error
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}") from error


def _read_again(path: str) -> Iterator[Block]:
    """Slowly, as only then the row that is wrong is known."""
    try:
        yield from _read(path, threads=False)
    except pa.ArrowInvalid as error:
        raise BadInput(f"{path}: {_fault(error)}") from error


def _read(path: str, threads: bool) -> Iterator[Block]:
    with storage.open(path) as stream:
        packed = stream.read(2) == _GZIP_MAGIC
        stream.seek(0)
        source: Any = gzip.GzipFile(fileobj=stream) if packed else stream
        names = source.readline().decode("utf-8", "replace").strip().split(",")
        names = [name.strip().strip('"') for name in names]
        if names == [""]:
            raise BadInput(f"{path}: is empty; its first line should name the columns")
        missing = [name for name in (*FEATURES, LABEL) if name not in names]
        if missing:
            raise BadInput(f"{path}: has no column {', '.join(missing)}")
        wanted = {name: pa.float32() for name in FEATURES} | {LABEL: pa.string()}
        reader = pa.csv.open_csv(
            source,
            read_options=pa.csv.ReadOptions(block_size=BLOCK_BYTES, use_threads=threads, column_names=names),
            convert_options=pa.csv.ConvertOptions(
                column_types=wanted, include_columns=[*FEATURES, LABEL], strings_can_be_null=False, null_values=[]
            ),
        )
        row = 2
        for batch in reader:
            features = np.column_stack([batch.column(name).to_numpy() for name in FEATURES])
            labels = _labels(path, batch.column(LABEL), row)
            _check_finite(path, features, row)
            row += len(labels)
            yield features, labels
        if row == 2:
            raise BadInput(f"{path}: has no row")


def _labels(path: str, column: pa.Array, row: int) -> NDArray[np.uint8]:
    encoded = column.dictionary_encode()
    numbers = [LABELS.get(str(word).strip().lower(), 255) for word in encoded.dictionary.to_pylist()]
    found = np.array(numbers, np.uint8)[encoded.indices.to_numpy()]
    if (wrong := np.flatnonzero(found == 255)).size:
        word = column[int(wrong[0])].as_py()
        raise BadInput(f"{path}: line {row + wrong[0]}: type is {word!r}, not GALAXY (3) or STAR (6)")
    return found


def _check_finite(path: str, features: NDArray[np.float32], row: int) -> None:
    if not np.isfinite(features).all():
        line, column = np.argwhere(~np.isfinite(features))[0]
        raise BadInput(f"{path}: line {row + line}: {FEATURES[column]} is {features[line, column]}")


def blocks_made_up(count: int, seed: int) -> Iterator[Block]:
    """`count` made-up rows."""
    for block, start in enumerate(range(0, count, _MADE_UP_ROWS)):
        numbers = np.random.default_rng([seed, block])
        features, labels = made_up(numbers, min(_MADE_UP_ROWS, count - start))
        yield features.astype(np.float32), labels


def prepare(blocks: Iterator[Block], folder: Path, choice: Choice, source: str) -> dict[str, Any]:
    """Write ``train.parquet``, ``test.parquet`` and the manifest, which it returns. Raises :class:`BadInput`."""
    moments = Moments()
    with tempfile.TemporaryDirectory(dir=folder, prefix=".raw-") as raw:
        counts = _split(blocks, Path(raw), moments, choice.seed)
        if not moments.rows or not counts["test"]:
            raise BadInput(f"{source}: too few rows to train on some and test on others")
        mean, deviation, correlation = moments.result()
        kept, dropped = select(deviation, correlation, choice, source)
        manifest = {
            "source": source,
            "rows": counts,
            "features": [FEATURES[place] for place in kept],
            "mean": [float(mean[place]) for place in kept],
            "deviation": [float(deviation[place]) for place in kept],
            "dropped": dropped,
            "thresholds": {"label": choice.least, "pair": choice.most},
            "seed": choice.seed,
        }
        for part in ("train", "test"):
            _standardise(Path(raw) / f"{part}.arrow", folder / f"{part}.parquet", kept, mean, deviation)
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
    return manifest


def select(
    deviation: NDArray[np.float64], correlation: NDArray[np.float64], choice: Choice, source: str
) -> tuple[list[int], dict[str, str]]:
    """Places of the features that stay, and why each of the others does not. The label is the last column."""
    if deviation[-1] == 0:
        raise BadInput(f"{source}: all rows have the same type, so there is nothing to tell apart")
    kept: list[int] = []
    dropped: dict[str, str] = {}
    for place, name in enumerate(FEATURES):
        to_label = correlation[place, -1]
        twin = next((other for other in kept if abs(correlation[place, other]) > choice.most), None)
        if deviation[place] == 0:
            dropped[name] = "constant"
        elif abs(to_label) < choice.least:
            dropped[name] = f"correlation with the type is {to_label:.3f}"
        elif twin is not None:
            dropped[name] = f"correlation with {FEATURES[twin]} is {correlation[place, twin]:.3f}"
        else:
            kept.append(place)
    if not kept:
        raise BadInput(f"{source}: no column is correlated with the type by {choice.least} or more")
    return kept, dropped


def _split(blocks: Iterator[Block], folder: Path, moments: Moments, seed: int) -> dict[str, int]:
    """Every row goes to one of two raw files; the moments are those of the rows to train on."""
    numbers = np.random.default_rng([seed, 1])
    schema = pa.schema([(name, pa.float32()) for name in FEATURES] + [(LABEL, pa.uint8())])
    counts = {"train": 0, "test": 0}
    with (
        pa.ipc.new_file(str(folder / "train.arrow"), schema) as train,
        pa.ipc.new_file(str(folder / "test.arrow"), schema) as test,
    ):
        for features, labels in blocks:
            held_out = numbers.random(len(labels)) < TEST_SHARE
            for part, file, rows in (("train", train, ~held_out), ("test", test, held_out)):
                columns = [pa.array(column) for column in features[rows].T]
                file.write_batch(pa.record_batch([*columns, pa.array(labels[rows])], schema=schema))
                counts[part] += int(rows.sum())
            if not held_out.all():
                both = np.column_stack([features, labels]).astype(np.float64)
                moments.add(both[~held_out])
    return counts


def _standardise(
    raw: Path, target: Path, kept: list[int], mean: NDArray[np.float64], deviation: NDArray[np.float64]
) -> None:
    names = [FEATURES[place] for place in kept]
    schema = pa.schema([(name, pa.float32()) for name in names] + [(LABEL, pa.uint8())])
    with pa.memory_map(str(raw)) as mapped, pa.parquet.ParquetWriter(target, schema, compression="none") as writer:
        reader = pa.ipc.open_file(mapped)
        for number in range(reader.num_record_batches):
            batch = reader.get_batch(number)
            columns = [
                pa.array(((batch.column(place).to_numpy() - mean[place]) / deviation[place]).astype(np.float32))
                for place in kept
            ]
            writer.write_batch(pa.record_batch([*columns, batch.column(len(FEATURES))], schema=schema))


def unpack(folder: Path, part: str, target: Path) -> None:
    """Write ``train`` or ``test`` as arrays to map: ``PART-features.npy`` (n, k) and ``PART-labels.npy`` (n,).

    In blocks, so that rows beyond the memory are no matter, neither here nor for those who map them.
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
                features[start:end, place] = batch.column(place).to_numpy()
            labels[start:end] = batch.column(columns).to_numpy()
            start = end
        features.flush()
        labels.flush()


def _fault(error: BaseException) -> str:
    """What Arrow says, with the file's line: it counts rows from the one after the header."""
    text = str(error).splitlines()[0]
    found = re.search(r"(?:In CSV column #(\d+): )?.*Row #(\d+): (.*)", text)
    if not found:
        return "has no row" if "Empty CSV" in text else text
    column = f"column {int(found[1]) + 1}: " if found[1] else ""
    return f"line {int(found[2]) + 1}: {column}{found[3]}"


def main() -> None:
    """Run with the arguments of the process."""
    parser = arguments.Parser(prog="python -m workloads.stars.prepare", description="CSV to Parquet.")
    parser.add_argument("csv", help="CSV file of SDSS, .gz or not, also hdfs://")
    parser.add_argument("folder", type=Path, help="new folder for the result")
    add_choice(parser)
    given = parser.parse_args()
    if given.folder.exists():
        events.bad_input(f"{given.folder} is there already: name a new folder")
    try:
        with tempfile.TemporaryDirectory(dir=given.folder.absolute().parent, prefix=".preparing-") as work:
            choice = Choice(given.least_correlation, given.most_correlation, given.seed)
            manifest = prepare(blocks_of_csv(given.csv), Path(work), choice, given.csv)
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


def add_choice(parser: argparse.ArgumentParser) -> None:
    """Thresholds and seed."""
    add = parser.add_argument
    add("--least-correlation", type=float, default=0.1, help="with the type, for a column to stay (default 0.1)")
    add("--most-correlation", type=float, default=0.75, help="of two columns; the later goes (default 0.75)")
    add("--seed", metavar="N", type=arguments.not_negative, default=0, help="of the rows held out (default 0)")


if __name__ == "__main__":
    main()
