"""Frameworks: found by name, chosen by the command line and the environment, added by one file."""

from __future__ import annotations

import inspect
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from launching import PREFIX, PROJECT, Ended, ppr, python

from workloads.common import framework
from workloads.common.events import BadInput

TOY = '''
"""Two parts, one after the other, in this process."""
import contextlib

from workloads.common import events
from workloads.common.part import steps
from workloads.common.ranks import Ranks


@contextlib.contextmanager
def answers(make, *, grouped, restarts):
    parts = [make(Ranks(rank, 2)) for rank in range(2)]
    events.ready()
    for part in parts:
        steps(part, None)
    with events.phase("collect"):
        gathered = [part.answer() for part in parts]
    yield gathered


def leave():
    print("the toy is back in its box")
'''


@pytest.fixture
def graph(tmp_path: Path) -> str:
    path = tmp_path / "g.txt"
    path.write_text("1 2\n2 3\n3 1\n3 4\n")
    return str(path)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Its own tree, whose `workloads/` has one framework more."""
    made = tmp_path / "tree"
    for tree in ("workloads", "regatta_protocol"):
        shutil.copytree(PROJECT / tree, made / tree, ignore=shutil.ignore_patterns("__pycache__"))
    (made / "workloads/common/frameworks/toy_boat.py").write_text(TOY)
    return made


def run_in(tree: Path, *words: str, **environment: str) -> Ended:
    done = subprocess.run(
        [sys.executable, "-m", "workloads.ppr", *words],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree), **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def test_one_file_adds_a_framework(copy: Path, graph: str) -> None:
    words = ("--graph", graph, "--count=3")
    run = run_in(copy, *words, "--framework=toy-boat")
    assert run.status == 0, run.err
    assert run.answer == ppr(*words).answer
    phases = [event["name"] for event in run.of("phase")]
    assert phases == ["load", "compute", "load", "compute", "collect"]
    assert run.out.splitlines()[-1] == "the toy is back in its box"
    by_variable = run_in(copy, *words, REGATTA_FRAMEWORK="toy-boat")
    assert by_variable.answer == run.answer and "the toy is back" in by_variable.out
    unknown = run_in(copy, *words, "--framework=toy_boat")
    assert unknown.status == 2
    assert "invalid choice: 'toy_boat'" in unknown.of("error")[0]["message"]
    assert "'toy-boat'" in unknown.of("error")[0]["message"]


def test_which_framework(monkeypatch: pytest.MonkeyPatch) -> None:
    assert framework.of_environment() == "single"
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert framework.of_environment() == "torch"
    monkeypatch.setenv("REGATTA_FRAMEWORK", "")
    assert framework.of_environment() == "torch"
    monkeypatch.setenv("REGATTA_FRAMEWORK", "ray")
    assert framework.of_environment() == "ray"
    monkeypatch.setenv("REGATTA_FRAMEWORK", "hive")
    with pytest.raises(
        BadInput, match=r"^REGATTA_FRAMEWORK=hive: no such framework, there are .*ray, .*torch, zeromq$"
    ):
        framework.of_environment()
    with pytest.raises(BadInput, match=r"^no framework 'hive': there are .*ray, .*single, .*torch, zeromq$"):
        framework.load("hive")


def test_a_framework_of_items_runs_no_parts_and_the_other_way_round(graph: str) -> None:
    parts = ppr("--graph", graph, "--framework=multiprocessing")
    assert parts.status == 2 and "multiprocessing spreads items" in parts.of("error")[0]["message"]
    items = python("-m", "workloads.perfect", "--framework=torch")
    assert items.status == 2 and "torch spreads no items" in items.of("error")[0]["message"]


def test_the_command_line_counts_more_than_the_variable(graph: str) -> None:
    assert ppr("--graph", graph, "--framework=single", REGATTA_FRAMEWORK="hive").status == 0
    refused = ppr("--graph", graph, REGATTA_FRAMEWORK="hive")
    assert refused.status == 2 and "Traceback" not in refused.err
    assert refused.of("error")[0]["message"].startswith("REGATTA_FRAMEWORK=hive: ")


@pytest.mark.parametrize("name", framework.names())
def test_a_framework_has_what_the_interface_says(name: str) -> None:
    module = framework.load(name)
    kinds = [("answers", framework.Framework), ("spread", framework.Spreader), ("search", framework.Searcher)]
    had = [(function, kind) for function, kind in kinds if hasattr(module, function)]
    assert had, "it runs neither parts nor items nor searches"
    for function, kind in [*had, ("leave", framework.Leaver)]:
        wanted = inspect.signature(getattr(kind, function)).parameters
        found = inspect.signature(getattr(module, function)).parameters
        assert [(one.name, one.kind) for one in found.values()] == [
            (one.name, one.kind) for one in wanted.values() if one.name != "self"
        ]


def test_frameworks_are_listed_and_loaded_without_what_they_are_made_of() -> None:
    script = (
        "import sys\nfrom workloads.common import command, framework\n"
        "for name in framework.names(): framework.load(name)\n"
        "print(sorted({'torch', 'ray', 'numpy', 'numba', 'pyarrow'} & set(sys.modules)))"
    )
    run = python("-c", script)
    assert run.out.strip() == "[]", run.err
    assert PREFIX not in run.out
