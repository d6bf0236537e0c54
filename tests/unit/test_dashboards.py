"""Grafana's dashboards as files: what can be wrong with them without a Grafana."""

import json
import re
from itertools import combinations
from typing import Any

import modules
import pytest
import yaml

from regatta.services import parts

ROLE = parts.ROLES / "grafana"
COMPOSE = modules.load("grafana_filters", "roles/grafana/filter_plugins/grafana.py").grafana_dashboard


def dashboards(*without: str) -> dict[str, dict[str, Any]]:
    """Return each dashboard by its name, with the panels of all services but these roles."""
    boards = {path.stem: json.loads(path.read_text()) for path in (ROLE / "files").glob("*.json")}
    roles = [part.role for part in parts.every() if part.role not in without]
    services = [yaml.safe_load((parts.ROLES / role / "service.yml").read_text()) for role in roles]
    rows = [service["panels"] for service in services if "panels" in service]
    return boards | {"cluster": COMPOSE(boards["cluster"], rows)}


def uids(value: Any) -> set[str]:
    """Every data source that a dashboard names."""
    if isinstance(value, list):
        return {uid for item in value for uid in uids(item)}
    if not isinstance(value, dict):
        return set()
    own = {value["datasource"]["uid"]} if "datasource" in value else set()
    return own | {uid for item in value.values() for uid in uids(item)}


@pytest.mark.parametrize("name", ["cluster", "run"])
def test_panels_have_their_places_and_the_data_source_that_is_provisioned(name: str) -> None:
    board = dashboards()[name]
    source = re.sub(r"{{.*?}}", "1", (ROLE / "templates/datasource.yaml.j2").read_text())
    assert uids(board) == {yaml.safe_load(source)["datasources"][0]["uid"]}
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for one, other in combinations([panel["gridPos"] for panel in panels], 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        below = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or below


def test_a_service_brings_its_charts() -> None:
    with_spark, without = (dashboards(*roles)["cluster"]["panels"] for roles in ((), ("spark",)))
    assert {panel["title"] for panel in with_spark} - {panel["title"] for panel in without} == {
        "Spark",
        "Cores that executors hold",
        "Memory given to executors",
        "Applications",
    }
    (disk,) = (panel for panel in without if panel["title"] == "Disk")
    assert [target["legendFormat"] for target in disk["targets"]] == ["{{node}} read", "{{node}} written"]


def test_both_are_installed() -> None:
    constants = (ROLE / "vars/main.yml").read_text()
    assert {*dashboards()} == {"cluster", "run"}
    assert all(f"lookup('ansible.builtin.file', '{name}.json'" in constants for name in dashboards())
    assert len({board["uid"] for board in dashboards().values()}) == 2
