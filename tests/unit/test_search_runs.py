"""A search of a user's own function, by `regatta run`: its table and its best trial come back."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import running

from regatta.cards import discovery, reading
from regatta.errors import CardError
from regatta.paths import PROJECT
from regatta.records.store import Store

NODE = PROJECT / ".venv-node/bin/python"
CARD = """
outputs = ["trials.jsonl", "best*"]

[workloads.mine]
about = "The best step"
function = "mine:train"
frameworks = ["single", "multiprocessing", "ray-tune"]

[workloads.mine.search]
metric = "loss"
mode = "min"

[workloads.mine.search.space]
rate = { log = [1e-4, 1.0] }
width = { range = [16, 256] }
kind = ["relu", "tanh", "none"]
"""
MODULE = """
def train(rate, width, kind, folder):
    if kind == "none":
        raise ValueError("no kind")
    for epoch in range(1000):
        (folder / "epoch").write_text(str(epoch))
        yield {"loss": (rate + width) / (epoch + 1)}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project of one search."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "regatta.toml").write_text(CARD)
    (folder / "mine.py").write_text(MODULE)
    return folder


def regatta(project: Path, inventory: Path, *words: str, name: str = "mine") -> "subprocess.CompletedProcess[str]":
    """`regatta run NAME` in the project."""
    return running.run(project, inventory, name, *words)


def test_the_table_and_the_best_trial_come_back(project: Path, here: Path) -> None:
    words = ("--search=grid", "--epochs=3", "--grid-steps=2", "--name=mine")
    done = regatta(project, here, "--framework=single,multiprocessing", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "answers of 2 runs are equal" in done.stdout
    assert "trial 3 of 12 failed: ValueError: no kind" in done.stdout + done.stderr
    answer = Store(project.parent / "results").find("mine-multiprocessing-1").answer
    assert answer is not None and answer["failed"] == [2, 5, 8, 11]
    (table,) = [path for path in project.parent.glob("results/**/trials.jsonl") if "multiprocessing" in str(path)]
    rows = [json.loads(line) for line in table.read_text().splitlines()]
    best = json.loads((table.parent / "best.json").read_text())
    assert len(rows) == 12 and rows[best["trial"]] == best
    assert best["point"] == {"rate": 1e-4, "width": 16, "kind": "relu"}
    assert best["reports"][-1]["loss"] == answer["value"] == 16.0001 / 3
    assert (table.parent / "best" / "epoch").read_text() == "2"


SCRIPT = """
import argparse, json, os, pathlib
parser = argparse.ArgumentParser()
parser.add_argument("--rate", type=float)
parser.add_argument("--width", type=int)
parser.add_argument("--kind")
parser.add_argument("--points", type=int)
given = parser.parse_args()
if given.kind == "none":
    raise SystemExit("no kind")
print("said", given.points, os.environ["REGATTA_SEED"])
for epoch in range(int(os.environ["REGATTA_EPOCHS"])):
    pathlib.Path(os.environ["REGATTA_TRIAL"], "epoch").write_text(str(epoch))
    print(json.dumps({"loss": (given.rate + given.width) / (epoch + 1)}))
pathlib.Path(os.environ["REGATTA_TRIAL"], "epoch").write_text("end")
"""


def test_a_trial_may_be_a_script(project: Path, here: Path) -> None:
    """It answers as the function that does the same, and ends where its reader is gone."""
    option = '[workloads.mine.options.points]\nkind = "whole number"\ndefault = 7\nhelp = "points"\n'
    (project / "regatta.toml").write_text(CARD.replace('function = "mine:train"', 'command = "train.py"') + option)
    (project / "train.py").write_text(SCRIPT)
    words = ("--search=grid", "--epochs=3", "--grid-steps=2", "--seed=5", "--name=mine")
    done = regatta(project, here, "--framework=single,multiprocessing", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "said 7 5" in done.stdout and "exited with code 1: no kind" in done.stdout + done.stderr
    records = Store(project.parent / "results").list().records
    assert len(records) == 2
    for record in records:
        answer = record.answer
        assert answer and answer["failed"] == [2, 5, 8, 11] and answer["value"] == 16.0001 / 3
    (best, *_) = project.parent.glob("results/**/best/epoch")
    assert best.read_text() == "end", "it was let end"


def test_a_script_that_is_not_there(project: Path, here: Path) -> None:
    (project / "regatta.toml").write_text(CARD.replace('function = "mine:train"', 'command = "gone.py --x"'))
    done = regatta(project, here, "--framework=single", "--trials=2")
    assert done.returncode and "gone.py" in done.stdout and "Traceback" not in done.stdout


def of_nodes(inventory: Path) -> None:
    """Have this machine work with the nodes' environment, where Ray is."""
    hosts = inventory / "hosts.yml"
    hosts.write_text(hosts.read_text().replace(f"regatta_python: {sys.executable}", f"regatta_python: {NODE}"))


@pytest.mark.whole
@pytest.mark.skipif(not NODE.exists(), reason="needs .venv-node: make setup-node")
@pytest.mark.parametrize("kind", ["optuna", "hyperopt"])
def test_searches_whose_packages_come_as_a_layer(project: Path, here: Path, kind: str) -> None:
    of_nodes(here)
    words = ("--framework=ray-tune", f"--search={kind}", "--trials=6", "--epochs=2", "--name=mine")
    done = regatta(project, here, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    (table,) = project.parent.glob("results/**/trials.jsonl")
    rows = [json.loads(line) for line in table.read_text().splitlines()]
    ended = [row for row in rows if row["error"] is None]
    assert len(rows) == 6 and all(len(row["reports"]) == 2 for row in ended)
    assert all(1e-4 <= row["point"]["rate"] <= 1 and row["point"]["width"] in range(16, 257) for row in rows)
    best = json.loads((table.parent / "best.json").read_text())
    assert best["reports"][-1]["loss"] == min(row["reports"][-1]["loss"] for row in ended)


@pytest.mark.whole
@pytest.mark.skipif(not NODE.exists(), reason="needs .venv-node: make setup-node")
def test_the_example_has_equal_answers_with_and_without_tune(tmp_path: Path, here: Path) -> None:
    folder = shutil.copytree(PROJECT / "examples" / "search", tmp_path / "search")
    of_nodes(here)
    words = ("--framework=single,multiprocessing,ray-tune", "--trials=3", "--epochs=2", "--name=circle")
    done = regatta(folder, here, *words, name="circle")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "answers of 3 runs are equal" in done.stdout
    assert len([*tmp_path.glob("results/circle-*/best/weights.json")]) == 3


@pytest.mark.whole
def test_a_space_that_does_not_fit_the_function_ends_the_run_before_its_first_trial(project: Path, here: Path) -> None:
    (project / "regatta.toml").write_text(CARD.replace("width =", "wdith ="))
    done = regatta(project, here, "--framework=single", "--name=typo")
    assert done.returncode != 0
    assert "search.space.wdith: mine:train takes no wdith; it takes rate, width, kind" in done.stdout + done.stderr
    assert "failed" not in done.stdout, done.stdout


@pytest.mark.parametrize(
    ("search", "said"),
    [
        ({"space": {}}, "search.space: it has no axis"),
        ({"space": {"x": []}}, "search.space.x: it has no value"),
        ({"space": {"x": {"lgo": [1, 2]}}}, "lgo"),
        ({"space": {"x": {}}}, r"search.space.x: say range = \[a, b\] or log = \[a, b\]"),
        ({"space": {"x": {"range": [2, 1]}}}, "search.space.x: 2 is not less than 1"),
        ({"space": {"x": {"log": [0, 1]}}}, "search.space.x.log: 0 has no logarithm"),
        ({"space": {"trials": [1, 2]}}, "search.space.trials: it is an option, too"),
        ({"space": {"x": [1]}, "mode": "most"}, "mode"),
        ({"spcae": {"x": [1]}}, "spcae"),
    ],
)
def test_searches_that_cannot_be(search: dict[str, Any], said: str) -> None:
    card = {"about": "x", "frameworks": ["single"], "function": "a:b", "search": {"metric": "m", **search}}
    with pytest.raises(CardError, match=said):
        reading.card(card, "regatta.toml")


def test_a_search_brings_the_packages_of_what_was_chosen() -> None:
    card = discovery.ours()["tune"].card
    assert card.brings({}) == card.brings({"search": "pbt"}) == ()
    assert card.brings({"search": "optuna"}) == ("optuna>=4",)
