"""``fab sparkrun workloads/stars/sparkprepare.py hdfs:///stars.csv FOLDER``: what ``prepare`` does, by Spark.

The same columns go for the same reasons, the same rows are held out, and the same three files come of it. Executors
read the file's lines as a data frame, and take them apart as ``prepare`` does where its machine code does not. A fault
in a row is looked up once more by the driver, which reads as ``prepare`` does, and so says the same of it.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from workloads.common import failures, storage
from workloads.common.events import BadInput
from workloads.common.spark.driven import gives_up
from workloads.common.storage import packed
from workloads.stars import csvfile, prepare
from workloads.stars.columns import FEATURES, LABEL

FAULTY = -1
"""The label of the row in the place of lines that are no rows."""
SPLIT, PLACE, HELD = "split", "place", "held_out"
_PLACES = f"{SPLIT} bigint, {PLACE} bigint, "
_FEATURES = ", ".join(f"{name} float" for name in FEATURES)
ROWS = f"{_PLACES}{LABEL} tinyint, {_FEATURES}"
MARKED = f"{ROWS}, {HELD} boolean"
SUMS = "first bigint, count bigint, sums binary, products binary"


@dataclass(frozen=True)
class Lines:
    """The lines of a file as its header has them; `line` is the header's number, `header` that line."""

    path: str
    line: int
    header: bytes

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batches of lines, with where their split of the file begins -> rows, numbered within their split."""
        table = csvfile.Table(self.path, self.header, self.line)
        seen: dict[int, tuple[int, int]] = {}
        for batch in batches:
            starts = batch.column(1).to_numpy()
            for first, last in runs(starts[1:] != starts[:-1], len(starts)):
                split = int(starts[first])
                lines, rows = seen.get(split, (0, 0))
                skipped = max(0, self.line - lines) if split == 0 else 0
                texts = batch.column(0).slice(first, last - first).to_pylist()
                try:
                    features, labels = table.parse((1, b"".join(one + b"\n" for one in texts[skipped:])))
                except BadInput:
                    features, labels = np.zeros((len(FEATURES), 1), np.float32), np.array([FAULTY], np.int8)
                seen[split] = lines + last - first, rows + len(labels)
                places = np.arange(rows, rows + len(labels))
                yield pa.record_batch(
                    [np.full(len(labels), split), places, labels.astype(np.int8), *features],
                    names=[SPLIT, PLACE, LABEL, *FEATURES],
                )


@dataclass(frozen=True)
class Marks:
    """Which rows are held out, as `prepare` draws them one after the other; `first`: the first row of each split."""

    first: dict[int, int]
    seed: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows -> the same with a column more."""
        for batch in batches:
            numbers = self.numbers(batch)
            held = np.empty(len(numbers), bool)
            for start, end in runs(np.diff(numbers) != 1, len(numbers)):
                bits = np.random.PCG64([self.seed, 1])
                bits.advance(int(numbers[start]))
                held[start:end] = np.random.Generator(bits).random(end - start) < prepare.TEST_SHARE
            yield pa.record_batch([*batch.columns, held], names=[*batch.schema.names, HELD])

    def numbers(self, batch: pa.RecordBatch) -> NDArray[np.int64]:
        """The number of each row in the whole file, from 0."""
        splits = batch.column(0).to_numpy()
        numbers: NDArray[np.int64] = np.array([self.first[int(split)] for split in splits], np.int64)
        numbers += batch.column(1).to_numpy()
        return numbers


@dataclass(frozen=True)
class Sums:
    """The share of the rows to train on in the moments, around `shift` (34,)."""

    marks: Marks
    shift: NDArray[np.float64]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows -> a row for each batch."""
        moments = prepare.Moments(self.shift)
        for batch in batches:
            if batch.num_rows:
                features = np.stack([batch.column(name).to_numpy() for name in FEATURES])
                count, sums, products = moments.of(prepare.values_of(features, batch.column(LABEL).to_numpy()))
                first = int(self.marks.numbers(batch)[0])
                made = [[first], [count], [sums.tobytes()], [products.tobytes()]]
                yield pa.record_batch([pa.array(one) for one in made], names=["first", "count", "sums", "products"])


def runs(new: NDArray[np.bool_], count: int) -> Iterator[tuple[int, int]]:
    """First and last + 1 of stretches of `count` places, where `new` (count - 1,) says that another one begins."""
    edges = [0, *(np.flatnonzero(new) + 1).tolist(), count]
    return ((first, last) for first, last in itertools.pairwise(edges) if last > first)


def prepared(session: Any, csv: str, folder: Path, choice: prepare.Choice) -> dict[str, Any]:
    """Write what :func:`prepare.prepare` does, and return the manifest. `session`: Spark's. Raises as it does."""
    from pyspark.sql import functions as sql

    rows = _rows(session, csv)
    splits = rows.groupBy(SPLIT).agg(sql.count("*").alias("rows"), sql.min(LABEL).alias("least")).collect()
    if not splits or any(split["least"] == FAULTY for split in splits):
        for _ in csvfile.blocks(csv, csvfile.Table):
            pass
        raise BadInput(f"{csv}: Spark reads it in another way than Python does: use workloads.stars.prepare")
    first, total = {}, 0
    for split in sorted(splits, key=lambda one: int(one[SPLIT])):
        first[int(split[SPLIT])], total = total, total + int(split["rows"])
    marks = Marks(first, choice.seed)
    marked = rows.mapInArrow(marks, MARKED).persist()
    counted = {row[HELD]: int(row["count"]) for row in marked.groupBy(HELD).count().collect()}
    counts = {"train": counted.get(False, 0), "test": counted.get(True, 0)}
    if not all(counts.values()):
        raise prepare.too_few(csv)
    training = marked.where(~sql.col(HELD))
    means = training.agg(*[sql.avg(name) for name in (*FEATURES, LABEL)]).first()
    mean, deviation, correlation = _moments(training, Sums(marks, np.array(means, float))).result()
    kept, dropped = prepare.select(deviation, correlation, choice, csv)
    for part, chosen in (("train", training), ("test", marked.where(sql.col(HELD)))):
        columns = [
            ((sql.col(FEATURES[at]).cast("double") - float(mean[at])) / float(deviation[at]))
            .cast("float")
            .alias(FEATURES[at])
            for at in kept
        ]
        with _parts(folder) as parts:
            chosen.select(SPLIT, PLACE, *columns, LABEL).write.parquet(parts.as_uri(), compression="none")
            _join(parts, folder / f"{part}.parquet", [FEATURES[at] for at in kept])
    manifest = prepare.manifest_of(csv, counts, (kept, dropped), (mean, deviation), choice)
    (folder / prepare.MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
    return manifest


def _rows(session: Any, csv: str) -> Any:
    """The rows of a file as a data frame that is kept."""
    with packed.opened(csv) as (stream, kind):
        if kind and not (kind == packed.GZIP and csv.endswith(".gz")):
            raise BadInput(f"{csv}: Spark reads a plain file, or gzip whose name ends with .gz: unpack it")
        line, header = csvfile.header_of(stream)
    csvfile.Table(csv, header, line)
    place = csv if storage.is_remote(csv) else Path(csv).absolute().as_uri()
    lines = session.read.text(place, lineSep="\n").selectExpr("cast(value as binary)", "_metadata.file_block_start")
    return lines.mapInArrow(Lines(csv, line, header).rows, ROWS).persist()


def _moments(training: Any, sums: Sums) -> prepare.Moments:
    """The moments of the rows to train on, added up in the order of the file."""
    moments = prepare.Moments(sums.shift)
    for one in sorted(training.mapInArrow(sums, SUMS).collect(), key=lambda row: int(row["first"])):
        count, size = int(one["count"]), len(sums.shift)
        products = np.frombuffer(one["products"]).reshape(size, size)
        moments.add((count, np.frombuffer(one["sums"]), products))
    return moments


@contextlib.contextmanager
def _parts(folder: Path) -> Iterator[Path]:
    """A place that is not there yet, which executors and the driver both see: this machine, or the run's shared folder.

    Raises :class:`BadInput` where executors are on other hosts and there is none.
    """
    shared = Path(os.environ.get("REGATTA_SHARED") or folder.parent)
    if not shared.is_dir():
        raise BadInput(f"{shared} is not there: executors write to the shared folder (shared_folder_enabled: true)")
    made = Path(tempfile.mkdtemp(dir=shared, prefix=".parts-"))
    try:
        yield made / "parquet"
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _join(parts: Path, target: Path, features: list[str]) -> None:
    """One file of what executors have written, in the order of the rows."""

    def begins(path: Path) -> tuple[int, int]:
        with pa.parquet.ParquetFile(path) as file:
            first = next(file.iter_batches(1, columns=[SPLIT, PLACE]))
            return first.column(0)[0].as_py(), first.column(1)[0].as_py()

    full = [path for path in parts.glob("part-*.parquet") if pa.parquet.read_metadata(path).num_rows]
    schema, last = prepare.schema(features), (-1, -1)
    with prepare.writer_of(target, schema) as writer:
        for path in sorted(full, key=begins):
            with pa.parquet.ParquetFile(path) as file:
                for batch in file.iter_batches(100_000):
                    splits, places = (batch.column(at).to_numpy() for at in range(2))
                    rising = (np.diff(splits) > 0) | (np.diff(splits) == 0) & (np.diff(places) > 0)
                    if not rising.all() or (splits[0], places[0]) <= last:
                        raise BadInput(f"{path}: Spark has changed the order of the rows; use workloads.stars.prepare")
                    last = splits[-1], places[-1]
                    columns = [batch.column(name) for name in features]
                    label = batch.column(LABEL).cast(pa.uint8())
                    writer.write_batch(pa.record_batch([*columns, label], schema=schema))


def over_spark(csv: str, folder: Path, choice: prepare.Choice) -> dict[str, Any]:
    """:func:`prepared` by the Spark of this run."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise BadInput("this cluster has no Spark: set spark_enabled: true and provision") from None
    session = SparkSession.builder.getOrCreate()
    try:
        with failures.said(), gives_up():
            return prepared(session, csv, folder, choice)
    finally:
        session.stop()


if __name__ == "__main__":
    prepare.command("sparkprepare.py", "CSV to Parquet, by Spark.", over_spark)
