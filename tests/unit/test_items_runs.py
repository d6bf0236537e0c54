"""A function of a user's project over items, by `regatta run`: results come back, and an interrupted run continues."""

import json
import re
import subprocess
from pathlib import Path

import pytest
import running

from regatta.cards import discovery, reading
from regatta.errors import CardError
from regatta.records.store import Store

CARD = """
outputs = ["results.jsonl"]

[workloads.squares]
about = "Squares"
function = "squares:of"
items = { range = [0, 40] }
frameworks = ["single", "multiprocessing", "processes", "mpi"]

[workloads.squares.options.flag]
default = ""
"""
MODULE = """
import os

def of(number, flag):
    if number == 25 and flag and not os.path.exists(flag):
        raise ValueError("no flag")
    if flag:
        with open(flag + ".seen", "a") as file:
            file.write(f"{number}\\n")
    return number ** 2
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project of one workload."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "regatta.toml").write_text(CARD)
    (folder / "squares.py").write_text(MODULE)
    return folder


def regatta(project: Path, inventory: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """`regatta run squares` in the project."""
    return running.run(project, inventory, "squares", *words)


def test_results_come_back_and_answers_are_equal(project: Path, here: Path) -> None:
    done = regatta(project, here, "--framework=single,multiprocessing,processes,mpi", "--name=squares")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "answers of 4 runs are equal" in done.stdout
    (record,) = [Store(project.parent / "results").find("squares-multiprocessing-1")]
    assert record.answer is not None and record.answer["items"] == 40
    assert record.ranks[0].progress or record.ranks[-1].progress
    (lines,) = [path for path in project.parent.glob("results/**/results.jsonl") if "multiprocessing" in str(path)]
    assert [json.loads(line) for line in lines.read_text().splitlines()] == [
        {"item": number, "result": number**2} for number in range(40)
    ]


def test_an_interrupted_run_is_gone_on_with(project: Path, here: Path, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    words = ("--framework=multiprocessing", f"--flag={flag}")
    failed = regatta(project, here, *words, "--name=failed")
    assert failed.returncode != 0
    assert "item 26 of 40, 25, failed: ValueError: no flag" in failed.stdout + failed.stderr
    flag.touch()
    seen = tmp_path / "flag.seen"
    first = seen.read_text().split()
    done = regatta(project, here, *words, "--resume", "--name=resumed")
    assert done.returncode == 0, done.stdout + done.stderr
    said = re.search(r"(\d+) of 40 results are those of an earlier run", done.stdout + done.stderr)
    again = seen.read_text().split()[len(first) :]
    assert said and len(again) == 40 - int(said[1]) < 40
    assert "25" in again and {*first, *again} == {str(number) for number in range(40)}
    whole = Store(project.parent / "results").find("resumed").answer
    assert regatta(project, here, "--framework=single", "--name=anew").returncode == 0
    assert Store(project.parent / "results").find("anew").answer == whole


@pytest.mark.parametrize("framework", ["multiprocessing", "processes", "mpi"])
def test_items_that_hang_end_with_the_time_of_the_run(project: Path, here: Path, framework: str) -> None:
    (project / "squares.py").write_text("import time\n\ndef of(number, flag):\n    time.sleep(900)\n")
    done = regatta(project, here, f"--framework={framework}", "--time-limit=3", f"--name=hangs-{framework}")
    assert done.returncode != 0
    assert "time limit" in done.stdout + done.stderr, done.stdout + done.stderr
    mark = f"REGATTA_RUN_ID=hangs-{framework}".encode()
    assert not [path for path in Path("/proc").glob("[0-9]*/environ") if mark in _environment(path)]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("raise ValueError('no')", "failed: ValueError: no"),
        ("os.kill(os.getpid(), 9)", "rank 1 on here: killed by SIGKILL"),
    ],
)
def test_the_first_failure_under_mpi_ends_all_ranks(project: Path, here: Path, body: str, said: str) -> None:
    """Each rank of MPI is a process of the run's own unit: what it prints, and how it ends, is its own."""
    text = f"import os, time\n\ndef of(number, flag):\n    if number == 1:\n        {body}\n    time.sleep(900)\n"
    (project / "squares.py").write_text(text)
    done = regatta(project, here, "--framework=mpi", "--name=fails")
    assert done.returncode != 0
    assert said in done.stdout + done.stderr, done.stdout + done.stderr
    assert not [path for path in Path("/proc").glob("[0-9]*/environ") if b"REGATTA_RUN_ID=fails" in _environment(path)]


def _environment(path: Path) -> list[bytes]:
    try:
        return path.read_bytes().split(b"\0")
    except OSError:
        return []


@pytest.mark.parametrize(
    ("items", "said"),
    [
        ({"grid": {"x": [1, 2], "y": []}}, "items.grid: the axis y has no value"),
        ({"grid": {}}, "items.grid: it has no axis"),
        ({"range": [5, 5]}, "items.range: 5, 5 has no number in it"),
        ({"range": [0, 5, 0]}, "items.range: 0, 5, 0 has no number in it"),
        ({"range": [0, 5], "lines": "words.txt"}, "items: say one of range, list, lines, grid, not range and lines"),
        ({}, "items: say one of range, list, lines, grid, not none"),
        (None, r"function and items \(or search\) belong together"),
    ],
)
def test_items_that_cannot_be(items: object, said: str) -> None:
    card = {"about": "x", "frameworks": ["single"], "function": "a:b", "items": items}
    with pytest.raises(CardError, match=said):
        reading.card({name: value for name, value in card.items() if value is not None}, "regatta.toml")


def test_a_package_that_hides_ours_is_refused(project: Path) -> None:
    (project / "workloads").mkdir()
    (project / "workloads/__init__.py").touch()
    with pytest.raises(CardError, match="its package 'workloads' hides that of Regatta's"):
        discovery.own(project)
