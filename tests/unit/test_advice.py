"""Advice about the last words of a failed run: every row of the table, and what is near it."""

import pytest

from regatta.frameworks import advice
from regatta.frameworks.advice import Row


@pytest.mark.parametrize("row", advice.rows(), ids=lambda row: f"{row.of}: {row.example[:40]}")
def test_each_row_is_the_first_that_fits_its_example(row: Row) -> None:
    lines = ["Traceback (most recent call last):", row.example, "[rank0]:     frame #0: c10::Error::Error"]
    found = row.pattern.search(row.example)
    assert found, row.pattern.pattern
    said = advice.about(lines)
    assert said == row.words(found)
    assert "{" not in said.replace("{...}", "") and "\\" not in said, said


def test_no_row_speaks_twice() -> None:
    patterns = [row.pattern.pattern for row in advice.rows()]
    assert len(patterns) == len({*patterns})


@pytest.mark.parametrize("of", ["torch", "ray", "spark"])
def test_there_are_ten_rows_of_each_framework(of: str) -> None:
    assert sum(row.of == of for row in advice.rows()) >= 10


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("FileNotFoundError: [Errno 2] No such file or directory: './ckpt/a/last.pt'", "--keep ckpt"),
        ("OSError: [Errno 5] Input/output error", "the head was away"),
        ("OSError: Unable to load libhdfs: libhdfs.so: cannot open shared object file", "fsspec+hdfs:///"),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'out'", ""),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/data/x.csv'", "HDFS"),
        ("PermissionError: [Errno 13] Permission denied: '/mnt/x/exp'", "$REGATTA_SHARED"),
        ("[rank5]: torch.AcceleratorError: CUDA error: invalid device ordinal", "--workers"),
        ("RuntimeError: Cannot access accelerator device when none is available.", "torch.cuda.is_available()"),
        ("ModuleNotFoundError: No module named 'torch.nn'; 'torch' is not a package", "another name"),
        ("AttributeError: partially initialized module 'ray' has no attribute 'init'", "a file ray.py"),
        ("ImportError: cannot import name 'load' from 'utils' (/opt/regatta/releases/1a/utils.py)", ""),
        ("everything is fine", ""),
    ],
)
def test_what_is_like_an_example(line: str, words: str) -> None:
    said = advice.about([line])
    assert words in said and bool(said) is bool(words), said


def test_only_the_last_error_and_what_led_to_it_count() -> None:
    """A program that has got over one error, and fails by another, gets no advice about the first."""
    over = ["Traceback (most recent call last):", "FileNotFoundError: [Errno 2] No such file or directory: 'a/b.pt'"]
    own = ["Traceback (most recent call last):", "ValueError: my own mistake"]
    assert not advice.about([*over, "continues", *own])
    led = "The above exception was the direct cause of the following exception:"
    assert "--keep a" in advice.about([*over, "", led, "", *own])
