"""CSV files of SDSS as people have them, and the messages for wrong ones, on the nodes and before."""

from __future__ import annotations

import csv
import gzip
import io
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from launching import python

from workloads.common.events import BadInput
from workloads.stars import check, table
from workloads.stars.columns import FEATURES


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A CSV of 300 rows as the generator writes it."""
    made = python("-m", "workloads.stars.generate", "--size=300", "--seed=1")
    assert made.status == 0, made.err
    return made.out


def rewritten(text: str, separator: str, *, quoted: bool) -> str:
    made = io.StringIO(newline="")
    quoting = csv.QUOTE_ALL if quoted else csv.QUOTE_MINIMAL
    csv.writer(made, delimiter=separator, quoting=quoting, lineterminator="\n").writerows(csv.reader(io.StringIO(text)))
    return made.getvalue()


def header_as(text: str, change: dict[str, str]) -> str:
    first, _, rest = text.partition("\n")
    return ",".join(change.get(name, name) for name in first.split(",")) + "\n" + rest


def test_other_forms_hold_the_same_rows(text: str, tmp_path: Path) -> None:
    forms = {
        "plain": text,
        "mark": "\ufeff" + text,
        "crlf": text.replace("\n", "\r\n"),
        "semicolons": rewritten(text, ";", quoted=False),
        "tabs": rewritten(text, "\t", quoted=False),
        "quoted": rewritten(text, ",", quoted=True),
        "quoted semicolons": "\ufeff" + rewritten(text, ";", quoted=True).replace("\n", "\r\n"),
        "names": header_as(text, {"ra": " RA ", "psfMag_u": '"PSFMAG_U"', "type": "Type"}),
        "skyserver": "#Table1\n\n" + text,
        "blank lines": text.replace("\n", "\n\n"),
        "gz": gzip.compress(text.encode()),
        "zst": pa.Codec("zstd").compress(text.encode()).to_pybytes(),
    }
    (features, labels), *_ = table.blocks_of_csv(str(written(tmp_path, text)))
    for name, data in forms.items():
        path = written(tmp_path, data)
        for size in (700, 1 << 20):
            blocks = list(table.blocks_of_csv(str(path), size))
            np.testing.assert_array_equal(np.hstack([block for block, _ in blocks]), features, name)
            np.testing.assert_array_equal(np.hstack([block for _, block in blocks]), labels, name)
        assert check.check([str(path)]) == f"300 rows, {labels.sum()} galaxies and {300 - labels.sum()} stars"


def written(folder: Path, data: str | bytes) -> Path:
    path = folder / "my.csv"
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def without(text: str, line: int, *, cells: int) -> str:
    lines = text.split("\n")
    lines[line - 1] = ",".join(lines[line - 1].split(",")[:-cells])
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (lambda text: without(text, 17, cells=5), "line 17: Expected 34 columns, got 29: "),
        (lambda text: "#Table1\n" + without(text, 17, cells=5), "line 18: Expected 34 columns, got 29: "),
        (lambda text: text[: text.rstrip().rindex(",")], "line 301: Expected 34 columns, got 33: "),
        (lambda text: without(text, 17, cells=1).replace("\n", "\n\n"), "line 33: Expected 34 columns, got 33: "),
        (lambda text: re.sub("(GALAXY|STAR)\n", "QUASAR\n\n", text, count=9), "line 2: type is 'QUASAR'"),
        (lambda text: text.replace("\n", "\n\n").replace("GALAXY", "nan", 1), "line [0-9]*[13579]: type is 'nan'"),
        (lambda text: "\n" + header_as(text, {"ra": "east"}), r"has no column ra \(line 2 should name them: '"),
        (lambda text: header_as(text, {"ra": "dec"}), "has no column ra"),
        (lambda text: text.replace("\n", ",1\n").replace(",1\n", ",dec\n", 1), "line 1 names column dec twice"),
        (lambda text: "", "is empty"),
        (lambda text: text.split("\n")[0] + "\n", "has no row"),
        (lambda text: text.encode("utf-16"), "is UTF-16: save it as UTF-8"),
        (lambda text: gzip.compress(text.encode())[:-9], "damaged or truncated gzip"),
        (lambda text: pa.Codec("zstd").compress(text.encode()).to_pybytes()[:-9], "damaged or truncated zst"),
        (lambda text: b"PAR1" + b"x" * 99, "is Parquet, and a CSV is meant"),
        (lambda text: text.encode().replace(b"GALAXY", b"GAL\xe9XY", 1), "line [0-9]+: .*"),
        (lambda text: text.encode().replace(b"GALAXY", b"GAL\0XY", 1), r"line [0-9]+: type is 'GAL\\x00XY'"),
    ],
)
def test_what_is_wrong_is_said_alike_on_the_nodes_and_before(text: str, tmp_path: Path, how, said: str) -> None:  # type: ignore[no-untyped-def]
    path = written(tmp_path, how(text))
    for read in (lambda: list(table.blocks_of_csv(str(path))), lambda: check.check([str(path)])):
        with pytest.raises(BadInput, match=f"^{re.escape(str(path))}: {said}") as caught:
            read()
        assert "\n" not in str(caught.value)


def test_a_column_by_its_exact_name_comes_first(text: str) -> None:
    names = text.split("\n", 1)[0].split(",")
    found = table._Table("x", ",".join(["G", *names, "TYPE"]).encode())
    assert found.names == ["#0", *names, f"#{len(names) + 1}"]
    assert set(FEATURES) < set(found.names)


def test_several_files_are_no_csv() -> None:
    with pytest.raises(BadInput, match="a, b: 2 files, and one CSV is meant"):
        check.check(["a", "b"])
