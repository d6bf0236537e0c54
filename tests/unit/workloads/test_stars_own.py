"""Stars as Kaggle has them, tables of one's own, and values that cannot be."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from launching import python

from workloads.common.events import BadInput
from workloads.stars import check, own, prepare
from workloads.stars.columns import FEATURES, made_up

KAGGLE = "obj_ID,alpha,delta,u,g,r,i,z,run_ID,rerun_ID,cam_col,field_ID,spec_obj_ID,class,redshift,plate,MJD,fiber_ID"
SHIFTS = {"GALAXY": 0.4, "QSO": 1.7, "STAR": 0.0}


def kaggle(path: Path, rows: int = 600) -> Path:
    """Rows of SDSS17, whose redshift and one colour tell the classes apart."""
    numbers = np.random.default_rng(1)
    lines = [KAGGLE]
    for row in range(rows):
        name = list(SHIFTS)[row % 3]
        bands = numbers.normal(20, 1) + np.array([1.9, 0.7, 0.0, -0.3, -0.5]) * (1 + SHIFTS[name])
        values = [1e18 + row, numbers.uniform(0, 360), numbers.uniform(-10, 60), *bands, 3606, 301, 1 + row % 6, 79]
        more = [6.5e18 + row, name, SHIFTS[name] + numbers.normal(0, 0.05), 5812, 56354, 171]
        lines.append(",".join(map(str, values + more)))
    path.write_text("\n".join(lines) + "\n")
    return path


def changed(path: Path, line: int, column: str, value: str) -> None:
    lines = path.read_text().split("\n")
    cells = lines[line - 1].split(",")
    cells[lines[0].split(",").index(column)] = value
    lines[line - 1] = ",".join(cells)
    path.write_text("\n".join(lines))


def test_sdss17_is_trained_on_its_three_classes(tmp_path: Path) -> None:
    path = kaggle(tmp_path / "star_classification.csv")
    run = python("-m", "workloads.stars", f"--data={path}", "--epochs=30", "--learning-rate=0.05", "--batch=32")
    assert run.status == 0, run.err
    assert run.answer["accuracy"] > 0.9
    assert "without obj_ID, run_ID" in run.out
    assert check.check([str(path)]).startswith("600 rows, 200 GALAXY, 200 QSO, 200 STAR; without obj_ID, run_ID")


def test_impossible_values_are_refused_or_left_out(tmp_path: Path) -> None:
    path = kaggle(tmp_path / "stars.csv")
    changed(path, 81, "u", "-9999.0")
    changed(path, 90, "redshift", "")
    with pytest.raises(BadInput, match=r"line 81: u is -9999, which it cannot be: .*--bad-rows leave-out"):
        own.read(str(path), "class")
    assert check.check([str(path)], bad="leave-out").endswith("2 rows left out")
    (tmp_path / "made").mkdir()
    manifest = prepare.of_csv(str(path), tmp_path / "made", prepare.Choice(), bad="leave-out")
    assert manifest["left_out"] == {"u": 1, "redshift": 1}
    assert sum(manifest["rows"].values()) == 598
    assert json.loads((tmp_path / "made" / prepare.MANIFEST).read_text()) == manifest
    assert prepare.said(manifest)[1] == "  2 rows left out: 1 by u, 1 by redshift"


@pytest.mark.parametrize(
    ("column", "value", "possible"),
    [
        ("petroRad_r", "-9999", False),
        ("psfMag_u", "-9999", False),
        ("ra", "720", False),
        ("camcol", "7", False),
        ("rowv", "-99", True),
    ],
)
def test_each_of_the_34_columns_has_its_range(tmp_path: Path, column: str, value: str, possible: bool) -> None:
    features, labels = made_up(np.random.default_rng(1), 200)
    words = np.where(labels == 1, "GALAXY", "STAR")
    rows = [",".join([*map(repr, row), word]) for row, word in zip(features.tolist(), words, strict=True)]
    path = tmp_path / "my.csv"
    path.write_text("\n".join([",".join((*FEATURES, "type")), *rows]) + "\n")
    changed(path, 17, column, value)
    if possible:
        assert check.check([str(path)]).startswith("200 rows, ")
        return
    (tmp_path / "made").mkdir()
    for read in (check.check, lambda paths: prepare.of_csv(paths[0], tmp_path / "made", prepare.Choice())):
        with pytest.raises(BadInput, match=f"my.csv: line 17: {column} is {value}, which it cannot be"):
            read([str(path)])
    assert check.check([str(path)], bad="leave-out").endswith("1 rows left out")


def table(path: Path, rows: int = 120) -> Path:
    numbers = np.random.default_rng(2)
    lines = ["name;size;colour;kind;note"]
    for row in range(rows):
        ripe = row % 2
        colour = ("red", "green")[ripe] if numbers.random() < 0.9 else "blue"
        lines.append(f"plum {row};{numbers.normal(3 + ripe, 0.5)};{colour};{ripe + 1};x")
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_table_of_ones_own_with_numbers_and_categories(tmp_path: Path) -> None:
    path = table(tmp_path / "plums.csv")
    read = own.read(str(path), "kind")
    assert (read.names, read.classes) == (["size", "colour=blue", "colour=green", "colour=red", "note=x"], ["1", "2"])
    assert read.dropped == {"name": "has 120 different words"}
    run = python("-m", "workloads.stars", f"--data={path}", "--label=kind", "--epochs=30", "--learning-rate=0.05")
    assert run.status == 0, run.err
    assert run.answer["accuracy"] > 0.85
    assert "without name, " in run.out and "note=x" in run.out


def rows_of(header: str, separator: str = ",", decimal: str = ".", **changes: str) -> str:
    """Sixty rows of two numbers and a label; `changes`: the last value of a column."""
    numbers = np.random.default_rng(2)
    rows = [[f"{numbers.random():.6f}", f"{numbers.normal():.6f}", "ab"[row % 2]] for row in range(60)]
    for place, value in changes.items():
        rows[-1][int(place[1:])] = value
    lines = [[value.replace(".", decimal) for value in row] for row in rows]
    return "\n".join([header, *(separator.join(line) for line in lines)]) + "\n"


@pytest.mark.parametrize(
    ("header", "separator", "decimal"), [("x;y;kind", ";", ","), ("x|y|kind", "|", "."), ("x\ty\tkind", "\t", ",")]
)
def test_separators_and_decimal_commas(tmp_path: Path, header: str, separator: str, decimal: str) -> None:
    usual, other = tmp_path / "usual.csv", tmp_path / "other.csv"
    usual.write_text(rows_of("x,y,kind"))
    other.write_text(rows_of(header, separator, decimal))
    read, again = (own.read(str(path), "kind") for path in (usual, other))
    assert again.names == read.names == ["x", "y"]
    np.testing.assert_array_equal(read.features, again.features)


def test_a_mark_among_numbers_is_no_reason_to_drop_the_column(tmp_path: Path) -> None:
    path = tmp_path / "marked.csv"
    path.write_text(rows_of("x,y,kind", _1="?"))
    with pytest.raises(BadInput, match="line 61: y is '\\?', which it cannot be"):
        own.read(str(path), "kind")
    read = own.read(str(path), "kind", "leave-out")
    assert (read.names, read.features.shape, read.left_out["y"]) == (["x", "y"], (2, 59), 1)


def test_numbers_of_rows_are_no_feature(tmp_path: Path) -> None:
    path = tmp_path / "pandas.csv"
    lines = rows_of("x,y,kind").splitlines()
    path.write_text("\n".join(["," + lines[0], *(f"{row},{line}" for row, line in enumerate(lines[1:]))]) + "\n")
    read = own.read(str(path), "kind")
    assert (read.names, read.dropped) == (["x", "y"], {"": "numbers the rows"})


def test_older_files_of_kaggle_are_known(tmp_path: Path) -> None:
    path = tmp_path / "sdss14.csv"
    names = "objid,ra,dec,u,g,r,i,z,run,rerun,camcol,field,specobjid,class,redshift,plate,mjd,fiberid"
    row = "1.2e18,183.5,0.1,19.5,17.1,15.9,15.5,15.2,752,301,4,267,3.7e18,{},0.1,3306,54922,491"
    path.write_text("\n".join([names, *(row.format(kind) for kind in ("STAR", "GALAXY", "QSO") * 2)]) + "\n")
    assert own.label_of(str(path), None) == "class"
    assert own.read(str(path), "class").names == ["ra", "dec", *"ugriz", "camcol", "redshift"]


@pytest.mark.parametrize(
    ("label", "change", "said"),
    [
        ("sort", None, r"has no column sort \(line 1 names name, size, colour, kind, note\)"),
        ("note", None, "all rows have the same label"),
        ("kind", (3, 3, "7"), "kind '7' has one row, too few"),
        ("kind", (3, 3, ""), "line 3: the label is missing"),
        ("kind", (3, 1, "nan"), "line 3: size is nan, which it cannot be"),
        ("kind", (3, 4, "x;y"), "line 3: Expected 5 columns, got 6"),
    ],
)
def test_tables_that_cannot_be_learned(
    tmp_path: Path, label: str, change: tuple[int, int, str] | None, said: str
) -> None:
    path = table(tmp_path / "plums.csv")
    if change:
        lines = [line.split(";") for line in path.read_text().splitlines()]
        lines[change[0] - 1][change[1]] = change[2]
        path.write_text("\n".join(map(";".join, lines)) + "\n")
    with pytest.raises(BadInput, match=said) as caught:
        own.read(str(path), label)
    assert "\n" not in str(caught.value)
