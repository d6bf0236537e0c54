"""Stars prepared by a real Spark of this machine: what one process prepares, and the same refusals."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from launching import Ended, python
from pyarrow import parquet
from sparkhere import unpacked

pytestmark = [pytest.mark.whole, pytest.mark.timeout(1800)]
SCRIPT = "workloads/stars/sparkprepare.py"
SETTINGS = {
    "spark.sql.files.maxPartitionBytes": "200000",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "700",
    "spark.sql.shuffle.partitions": "2",
}


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Environment of a driver that reads a file in several parts."""
    made = unpacked(tmp_path_factory.mktemp("spark"), master="local[2]")
    more = " ".join(f"--conf {name}={value}" for name, value in SETTINGS.items())
    return made | {"PYSPARK_SUBMIT_ARGS": f"{more} {made['PYSPARK_SUBMIT_ARGS']}"}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CSV of 4,000 rows as SkyServer writes them: a comment, blank lines, CRLF."""
    made = python("-m", "workloads.stars.generate", "--size=4000", "--seed=1")
    path = tmp_path_factory.mktemp("stars") / "stars.csv"
    lines = made.out.splitlines()
    lines[2000:2000] = ["", ""]
    path.write_text("#Table1\r\n" + "".join(f"{line}\r\n" for line in lines))
    return path


def under_spark(spark: dict[str, str], table: Path, folder: Path, *more: str) -> Ended:
    own = {"SPARK_LOCAL_DIRS": str(folder.parent), "SPARK_WORKER_DIR": str(folder.parent / "work")}
    return python(SCRIPT, str(table), str(folder), *more, timeout=900, **{**spark, **own})


@pytest.mark.parametrize("packed", [False, True])
def test_the_files_are_those_of_one_process(spark: dict[str, str], table: Path, tmp_path: Path, packed: bool) -> None:
    if packed:
        (tmp_path / "stars.csv.gz").write_bytes(gzip.compress(table.read_bytes()))
        table = tmp_path / "stars.csv.gz"
    ours = python("-m", "workloads.stars.prepare", str(table), str(tmp_path / "ours"), "--seed=3")
    run = under_spark(spark, table, tmp_path / "theirs", "--seed=3")
    assert run.status == 0, run.err
    assert run.out.replace("/theirs:", "/ours:") == ours.out
    assert [line for line in run.err.splitlines() if line.startswith("  without ")] == ours.err.splitlines()
    assert sorted(path.name for path in (tmp_path / "theirs").iterdir()) == [
        "manifest.json", "test.parquet", "train.parquet"
    ]  # fmt: skip
    made = [json.loads((tmp_path / one / "manifest.json").read_text()) for one in ("ours", "theirs")]
    for numbers in ("mean", "deviation"):
        np.testing.assert_allclose(*[one.pop(numbers) for one in made], rtol=1e-12)
    assert made[0] == made[1]
    for part in ("train", "test"):
        one, other = (parquet.read_table(tmp_path / name / f"{part}.parquet") for name in ("ours", "theirs"))
        assert one.schema == other.schema
        assert one.column("type").equals(other.column("type"))
        for name in one.schema.names[:-1]:
            np.testing.assert_array_max_ulp(one.column(name).to_numpy(), other.column(name).to_numpy(), 1)
    trained = [python("-m", "workloads.stars", "--data", str(tmp_path / one)) for one in ("ours", "theirs")]
    assert trained[0].answer["accuracy"] == trained[1].answer["accuracy"]


@pytest.mark.parametrize(("line", "column", "value"), [(3500, 5, "none"), (3900, -1, "QUASAR")])
def test_a_bad_row_is_refused_in_the_same_words(
    spark: dict[str, str], table: Path, tmp_path: Path, line: int, column: int, value: str
) -> None:
    lines = table.read_text().splitlines()
    cells = lines[line].split(",")
    cells[column] = value
    lines[line] = ",".join(cells)
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("\n".join(lines) + "\n")
    ours = python("-m", "workloads.stars.prepare", str(wrong), str(tmp_path / "ours"))
    run = under_spark(spark, wrong, tmp_path / "theirs")
    assert (run.status, run.of("error")[0]["message"]) == (2, ours.of("error")[0]["message"])
    assert f"line {line + 1}" in run.of("error")[0]["message"]
    assert not (tmp_path / "theirs").exists() and not list(tmp_path.glob(".p*"))
