"""Grafana's dashboards as files: what can be wrong with them without a Grafana."""

import json
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

ROLE = Path(__file__).resolve().parents[2] / "ansible/roles/grafana"
FILES = sorted((ROLE / "files").glob("*.json"))


def uids(value: Any) -> set[str]:
    """Every data source that a dashboard names."""
    if isinstance(value, list):
        return {uid for item in value for uid in uids(item)}
    if not isinstance(value, dict):
        return set()
    own = {value["datasource"]["uid"]} if "datasource" in value else set()
    return own | {uid for item in value.values() for uid in uids(item)}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_panels_have_their_places_and_the_data_source_that_is_provisioned(path: Path) -> None:
    board = json.loads(path.read_text())
    source = re.sub(r"{{.*?}}", "1", (ROLE / "templates/datasource.yaml.j2").read_text())
    assert uids(board) == {yaml.safe_load(source)["datasources"][0]["uid"]}
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for one, other in combinations([panel["gridPos"] for panel in panels], 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        below = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or below


def test_both_are_installed() -> None:
    constants = (ROLE / "vars/main.yml").read_text()
    assert [path.stem for path in FILES] == ["cluster", "run"]
    assert all(f"lookup('ansible.builtin.file', '{path.name}'" in constants for path in FILES)
    assert len({json.loads(path.read_text())["uid"] for path in FILES}) == 2
