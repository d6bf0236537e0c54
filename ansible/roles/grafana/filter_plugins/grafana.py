"""The dashboard of the cluster: rows of panels that services declare (`panels` in their service.yml)."""

import re
import string
from collections.abc import Iterator
from typing import Any

SOURCE = {"type": "prometheus", "uid": "regatta"}
WIDTH, HEIGHT = 24, 8
"""Grafana's grid has 24 columns; a panel's height in its rows."""


def grafana_dashboard(board: dict[str, Any], services: list[dict[str, list[dict[str, Any]]]]) -> dict[str, Any]:
    """Return the dashboard `board` with more rows below its own: {title of a row: its panels} of each service."""
    panels = list(board["panels"])
    for title, declared in (row for rows in services for row in rows.items()):
        top = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels)
        for panel in _row(title, declared, top):
            panels.append({"id": len(panels) + 1, **panel})
    return {**board, "panels": panels}


def _row(title: str, declared: list[dict[str, Any]], top: int) -> Iterator[dict[str, Any]]:
    """Give the row's head and its panels: four side by side where their count allows, else three."""
    yield {"type": "row", "title": title, "collapsed": False, "panels": [], "gridPos": _place(0, top, WIDTH, 1)}
    width = WIDTH // (4 if len(declared) % 4 == 0 else 3)
    for number, panel in enumerate(declared):
        line, column = divmod(number * width, WIDTH)
        yield _panel(panel) | {"gridPos": _place(column, top + 1 + line * HEIGHT, width, HEIGHT)}


def _panel(declared: dict[str, Any]) -> dict[str, Any]:
    """Return a chart over time: `title`, `unit` (Grafana's name), maybe `min` and `max`, `series` by their legend."""
    series = zip(string.ascii_uppercase, declared["series"].items(), strict=False)
    return {
        "title": declared["title"],
        "type": "timeseries",
        "datasource": SOURCE,
        "targets": [
            {"refId": letter, "datasource": SOURCE, "expr": expression, "legendFormat": _legend(text)}
            for letter, (text, expression) in series
        ],
        "fieldConfig": {
            "defaults": {key: declared[key] for key in ("unit", "min", "max") if key in declared},
            "overrides": [],
        },
        "options": {},
    }


def _legend(text: str) -> str:
    """Return a legend as Grafana writes it: `<node> sent` has the series' label `node`."""
    return re.sub(r"<(\w+)>", r"{{\1}}", text)


def _place(x: int, y: int, width: int, height: int) -> dict[str, int]:
    return {"x": x, "y": y, "w": width, "h": height}


class FilterModule:
    """Makes the filter known to Ansible."""

    def filters(self) -> dict[str, Any]:
        """Return the filters by name."""
        return {"grafana_dashboard": grafana_dashboard}
