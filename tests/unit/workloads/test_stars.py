"""Stars: the preparation against plain numpy, its refusals, and what is learned."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from launching import python

from workloads.common.events import BadInput
from workloads.stars import prepare
from workloads.stars import table as table_file
from workloads.stars.columns import FEATURES, made_up

pytestmark = pytest.mark.frameworks

STARS = ("-m", "workloads.stars")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CSV of 3,000 rows as the generator writes it."""
    made = python("-m", "workloads.stars.generate", "--size=3000", "--seed=1")
    assert made.status == 0, made.err
    path = tmp_path_factory.mktemp("stars") / "stars.csv"
    path.write_text(made.out)
    return path


def changed(table: Path, target: Path, line: int, column: str, value: str) -> Path:
    """A copy with one value changed; line 1 is the header."""
    lines = table.read_text().splitlines()
    cells = lines[line - 1].split(",")
    cells[lines[0].split(",").index(column)] = value
    lines[line - 1] = ",".join(cells)
    target.write_text("\n".join(lines) + "\n")
    return target


def test_prepared_as_plain_numpy_would(table: Path, tmp_path: Path) -> None:
    manifest = prepare.prepare(table_file.blocks_of_csv(str(table)), tmp_path, prepare.Choice(), "stars.csv")
    rows = list(csv.DictReader(table.open()))
    values = np.array([[float(row[name]) for name in FEATURES] for row in rows], np.float32).astype(float)
    labels = np.array([row["type"] == "GALAXY" for row in rows], float)
    held_out = np.random.default_rng([0, 1]).random(len(rows)) < 0.2
    both = np.column_stack([values, labels])[~held_out]
    correlation = np.corrcoef(both.T)
    expected: list[int] = []
    for place in range(len(FEATURES)):
        if abs(correlation[place, -1]) >= 0.1 and all(abs(correlation[place, kept]) <= 0.75 for kept in expected):
            expected.append(place)
    assert manifest["features"] == [FEATURES[place] for place in expected]
    assert set(manifest["features"]) | set(manifest["dropped"]) == set(FEATURES)
    assert manifest["rows"] == {"train": int((~held_out).sum()), "test": int(held_out.sum())}
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["manifest.json", "test.parquet", "train.parquet"]
    for part in ("train", "test"):
        prepare.unpack(tmp_path, part, tmp_path)
    train, classes = (np.load(tmp_path / f"train-{what}.npy") for what in ("features", "labels"))
    wanted = (both[:, expected] - both[:, expected].mean(0)) / both[:, expected].std(0)
    np.testing.assert_allclose(train, wanted, atol=2e-4)
    np.testing.assert_array_equal(classes, labels[~held_out])
    test = np.load(tmp_path / "test-features.npy")
    assert abs(train.mean(0)).max() < 1e-4 < abs(test.mean(0)).max()


def test_compressed_is_the_same(table: Path, tmp_path: Path) -> None:
    packed = tmp_path / "stars.csv.gz"
    packed.write_bytes(gzip.compress(table.read_bytes()))
    plain, unpacked = table_file.blocks_of_csv(str(table)), table_file.blocks_of_csv(str(packed))
    for (one, labels), (other, same) in zip(plain, unpacked, strict=True):
        np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(labels, same)
    packed.write_bytes(packed.read_bytes()[:-2000])
    with pytest.raises(BadInput, match="damaged or truncated gzip"):
        list(table_file.blocks_of_csv(str(packed)))


def test_a_file_is_the_same_in_blocks_of_any_size(table: Path) -> None:
    (whole,) = table_file.blocks_of_csv(str(table))
    for size in (700, 5000):
        blocks = list(table_file.blocks_of_csv(str(table), size))
        np.testing.assert_array_equal(np.hstack([features for features, _ in blocks]), whole[0])
        np.testing.assert_array_equal(np.hstack([labels for _, labels in blocks]), whole[1])


VALUES = st.one_of(
    st.decimals(-10000, 10000, places=5).map(str),
    st.floats(-1e9, 1e9, width=32).map(repr),
    st.from_regex(r"[+-]?[0-9]{0,17}(\.[0-9]{0,5})?", fullmatch=True),
    st.sampled_from(["-0", "+1", "1.", ".5", "1e3", "nan", "inf", '"2"', " 3", "4 ", "", "-", ".", "1.2.3", "\x00"]),
)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.sampled_from(FEATURES), VALUES, max_size=2),
            st.sampled_from(["STAR", "galaxy", "Galaxy", "3", "6", "QUASAR", "", "starr"]),
            st.sampled_from(["\n", "\r\n", "\n\n", ",\n"]),
        ),
        min_size=1,
        max_size=4,
    ),
    st.integers(0, 3),
)
def test_machine_code_says_what_arrow_does_or_nothing(
    rows: list[tuple[dict[str, str], str, str]], shorter: int
) -> None:
    table = table_file._Table("x", ",".join((*FEATURES, "type")).encode())
    lines = [",".join([*(cells.get(name, "1.25") for name in FEATURES), kind]) + end for cells, kind, end in rows]
    text = "".join(lines).encode()
    text = text[: len(text) - shorter]
    plain = table._parse_plain(text, text.count(b"\n") + 1)
    try:
        features, labels = table._parse_any(text, 2)
    except BadInput:
        assert plain is None or not plain[1].size
        return
    if plain is not None:
        np.testing.assert_array_equal(plain[0], features)
        np.testing.assert_array_equal(plain[1], labels)


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("type", "QUASAR", "line 17: type is 'QUASAR', not GALAXY"),
        ("psfMag_r", "nan", "line 17: psfMag_r is nan"),
        ("ra", "east", "line 17: column 30: .*east"),
        ("ra", "", "line 17: column 30: "),
        ("ra", "1,2", "line 17: Expected 34 columns, got 35"),
    ],
)
def test_a_row_that_is_wrong_is_named(table: Path, tmp_path: Path, column: str, value: str, said: str) -> None:
    path = changed(table, tmp_path / "bad.csv", 17, column, value)
    with pytest.raises(BadInput, match=said):
        list(table_file.blocks_of_csv(str(path)))


def test_columns_that_are_missing_or_say_nothing(table: Path, tmp_path: Path) -> None:
    path = changed(table, tmp_path / "no.csv", 1, "petroRad_g", "radius")
    with pytest.raises(BadInput, match="has no column petroRad_g"):
        list(table_file.blocks_of_csv(str(path)))
    path.write_text("")
    with pytest.raises(BadInput, match="is empty"):
        list(table_file.blocks_of_csv(str(path)))
    path.write_text(table.read_text().splitlines()[0] + "\n")
    with pytest.raises(BadInput, match="has no row"):
        list(table_file.blocks_of_csv(str(path)))
    features, labels = made_up(np.random.default_rng(0), 500)
    features[:, 4] = 7.0
    one = [(np.ascontiguousarray(features.T, np.float32), labels)]
    assert prepare.prepare(iter(one), tmp_path, prepare.Choice(), "x")["dropped"]["u"] == "constant"
    with pytest.raises(BadInput, match="all rows have the same type"):
        prepare.prepare(iter([(one[0][0], np.ones_like(labels))]), tmp_path, prepare.Choice(), "x")


def test_the_step_by_hand(table: Path, tmp_path: Path) -> None:
    made = python("-m", "workloads.stars.prepare", str(table), str(tmp_path / "ready"))
    assert made.status == 0, made.err
    assert "rows to train" in made.out
    again = python("-m", "workloads.stars.prepare", str(table), str(tmp_path / "ready"))
    assert again.status == 2
    assert "is there already" in json.dumps(again.of("error"))
    assert [path.name for path in tmp_path.iterdir()] == ["ready"]
    run, direct = (python(*STARS, f"--data={data}", "--epochs=1") for data in (tmp_path / "ready", table))
    assert run.status == direct.status == 0, run.err + direct.err
    assert run.answer == direct.answer


def test_a_linear_model_tells_most_apart() -> None:
    run = python(*STARS, "--size=30000")
    assert 0.93 <= run.answer["accuracy"] <= 0.95
    assert run.answer["features"] == 15


def test_bad_rows_end_the_run_under_ray_too(table: Path, tmp_path: Path, ray_cluster: dict[str, str]) -> None:
    path = changed(table, tmp_path / "bad.csv", 17, "type", "QUASAR")
    run = python(
        *(*STARS, f"--data={path}", "--framework=ray"),
        **ray_cluster,
        REGATTA_WORKERS="2",
        REGATTA_SCRATCH=str(tmp_path),
    )
    assert run.status == 2
    assert "line 17: type is 'QUASAR'" in run.of("error")[0]["message"]
