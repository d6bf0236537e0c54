"""A controller changes nothing on a node of another layout than it knows."""

import json
import re
from pathlib import Path

import pytest

from regatta.node import layout, main
from regatta.node.problem import Problem

PLACE = {"user": "regatta"}


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(layout, "NODE", str(tmp_path / "node.json"))
    return tmp_path / "node.json"


def test_a_host_without_any_is_not_provisioned_and_this_machine_alone_needs_none(
    node: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for op in sorted(set(main.OPERATIONS) - main.BARE):
        main._serve({"op": op, "place": {**PLACE, "state": "/no", "root": "/no"}, "args": {}})
        assert "run 'regatta provision'" in json.loads(capsys.readouterr().out)["error"], op
    layout.check(PLACE, bare=True)
    node.write_text("{}")
    layout.check({"user": None})
    node.write_text(json.dumps({"layout": layout.NUMBER}))
    layout.check(PLACE)


@pytest.mark.parametrize(
    ("described", "todo"), [({}, "regatta provision"), ({"layout": layout.NUMBER + 1}, "update this checkout")]
)
def test_another_one_is_named_with_what_to_do(node: Path, described: dict, todo: str) -> None:
    node.write_text(json.dumps(described))
    with pytest.raises(Problem, match=todo):
        layout.check(PLACE)


def test_of_an_older_one_runs_are_told_and_ended(node: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Provisioning names the runs that it would end, and cancels them where it may."""
    node.write_text("{}")
    assert set(main.OPERATIONS) >= main.OLDER | main.BARE
    layout.check(PLACE, older=True)
    node.write_text(json.dumps({"layout": layout.NUMBER + 1}))
    with pytest.raises(Problem):
        layout.check(PLACE, older=True)
    main._serve({"op": "run.start", "place": {**PLACE, "state": "/no", "root": "/no"}, "args": {"spec": {}}})
    assert "update this checkout" in json.loads(capsys.readouterr().out)["error"]


def test_the_docs_say_as_whom_each_operation_works() -> None:
    """The table "What root does on a node" names every operation, `.name` standing for the group of the one before."""
    text = (Path(__file__).parents[2] / "docs/explanation/security.md").read_text()
    told: set[str] = set()
    for line in text.partition("## What root does on a node")[2].splitlines():
        group = ""
        for name in re.findall(r"`([a-z_.]+)`", line.split("|")[1]) if line.startswith("| `") else []:
            group = name.partition(".")[0] if not name.startswith(".") else group
            told.add(name if not name.startswith(".") else group + name)
    assert set(main.OPERATIONS) - told == set()
