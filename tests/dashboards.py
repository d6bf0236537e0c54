"""Grafana's dashboards as they come to the head of a cluster with these services."""

import importlib.util
import json
from typing import Any

import yaml

from regatta import paths
from regatta.services import parts

GRAFANA = paths.PROJECT / "ansible/roles/grafana"


def dashboards(*without: str) -> dict[str, dict[str, Any]]:
    """Return each dashboard by its name, with the panels of all services but these roles."""
    spec = importlib.util.spec_from_file_location("grafana_filters", GRAFANA / "filter_plugins/grafana.py")
    assert spec and spec.loader
    filters = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(filters)
    boards = {path.stem: json.loads(path.read_text()) for path in (GRAFANA / "files").glob("*.json")}
    roles = [part.role for part in parts.every() if part.role not in without]
    services = [yaml.safe_load((parts.ROLES / role / "service.yml").read_text()) for role in roles]
    rows = [service["panels"] for service in services if "panels" in service]
    return boards | {"cluster": filters.grafana_dashboard(boards["cluster"], rows)}
