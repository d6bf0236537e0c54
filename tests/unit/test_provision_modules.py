"""Each module of Regatta says in one line what it saves over stock tasks, as benchmarks/modules.py has measured."""

import ast
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from benchmarks import modules

PROJECT = Path(__file__).resolve().parents[2]
RESULTS = (PROJECT / "docs/results/modules.md").read_text()
MODULES = sorted(path for folder in modules.libraries() for path in folder.glob("*.py"))
PAIRS: dict[str, Any] = yaml.safe_load(modules.PAIRS.read_text())


def documented(path: Path) -> dict[str, Any]:
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "DOCUMENTATION":
            return dict(yaml.safe_load(ast.literal_eval(node.value)))
    raise AssertionError(f"{path} has no DOCUMENTATION")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_line_says_what_it_saves_and_the_table_the_same(path: Path) -> None:
    said = documented(path)
    assert said["module"] == path.stem and list(said) == ["module", "short_description", "notes", "options"]
    (line,) = said["notes"]
    row = re.search(rf"^\| `{path.stem}` \| .* \| (\d+), (\d+) \| ([\d.]+) s, ([\d.]+) s \|$", RESULTS, re.M)
    assert row, "docs/results/modules.md: python -m benchmarks.modules"
    ours, stock = int(row[1]), int(row[2])
    trips = f"{stock - ours} of {stock} round trips" if stock > ours else "no round trip"
    assert line.startswith(f"Saves {trips} and {float(row[4]) - float(row[3]):.2f} of {row[4]} s beside stock tasks")


def test_every_module_is_measured_and_no_other() -> None:
    assert sorted(PAIRS) == sorted(path.stem for path in MODULES)
    assert set(re.findall(r"^\| `(\w+)` \| .* s, .* s \|$", RESULTS, re.M)) == set(PAIRS)


@pytest.mark.parametrize("module", sorted(PAIRS))
def test_stock_tasks_are_of_ansible_itself_and_ours_are_ours(module: str) -> None:
    pair = PAIRS[module]
    assert [next(iter(task)) for task in pair["ours"]] == [module]
    assert all(next(iter(task)).startswith("ansible.builtin.") for task in pair["stock"])
    names = {next(iter(task)).removeprefix("ansible.builtin.") for task in pair["stock"]} - {"shell"}
    assert names <= set(pair["beside"].split(", ")) | {"command", "set_fact", "copy"}


def test_they_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modules, "_wheels", list)
    node = SimpleNamespace(name="n1", cluster_address="10.0.0.1")
    cluster: Any = SimpleNamespace(nodes=[node], head=node)
    (book,) = modules.play(cluster, "node_gone", PAIRS["node_gone"], 2)
    names = dict.fromkeys(task["name"] for task in book["tasks"])
    order = [name for name in names if name.startswith(modules.ARMS)]
    assert order == ["ours 1", "stock 1", "stock 2", "ours 2"]
    taken = modules.Taken({1: 2.0, 2: 3.0, 3: 9.0}, {1: 4, 2: 4, 3: 4})
    line = modules.Pair("node_gone", "what", "find", modules.Taken({1: 0.5}, {1: 1}), taken).line()
    assert line == "| `node_gone` | what | find | 1, 4 | 0.50 s, 3.00 s |"
