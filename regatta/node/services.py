"""Units of a node's services: started, stopped, looked at."""

from __future__ import annotations

import json
import subprocess
from typing import Any, Dict, List, Sequence

from regatta.node import cgroup, facts, frameworks, listing

Place = Dict[str, Any]

_PAGES = "/etc/regatta/pages.json"
_SHOWN = "Id,LoadState,ActiveState,ActiveEnterTimestamp"


def act(place: Place, action: str, units: List[str]) -> dict[str, Any]:
    """`systemctl ACTION` for units that exist here, then their states; `status` changes nothing."""
    states, message = _states(units), ""
    if action != "status" and states:
        done = subprocess.run(
            ["systemctl", action, *states], capture_output=True, text=True, errors="replace", check=False
        )
        message = done.stderr.strip()
        if action == "stop":
            subprocess.run(["systemctl", "reset-failed", *states], capture_output=True, check=False)
        states = _states(list(states))
    return {"units": states, "message": message}


def status(
    place: Place, units: List[str], asks: Dict[str, str] | None = None, versions: Sequence[str] = ()
) -> dict[str, Any]:
    """Facts of the node, states of its units, its runs; what frameworks ask besides."""
    return {
        "facts": {**facts.facts(place, versions), "without_limits": cgroup.missing() if place.get("user") else []},
        **listing.answer(place),
        **frameworks.answers(place, asks),
        **act(place, "status", units),
    }


def pages(place: Place) -> dict[str, Any]:
    """The web pages of services, as provisioning has written them on the head: title, port, host (None: loopback)."""
    try:
        with open(_PAGES) as file:
            return {"pages": json.load(file)}
    except FileNotFoundError:
        return {"pages": []}


def _states(units: List[str]) -> dict[str, dict[str, str]]:
    """State and since when of each unit that is installed, in the order asked for."""
    if not units:
        return {}
    done = subprocess.run(
        ["systemctl", "show", "--property", _SHOWN, *units],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    found: dict[str, dict[str, str]] = {}
    for block in done.stdout.split("\n\n"):
        shown = dict(line.partition("=")[::2] for line in block.splitlines())
        if shown.get("LoadState", "not-found") != "not-found":
            found[shown["Id"]] = {"state": shown["ActiveState"], "since": shown["ActiveEnterTimestamp"]}
    return found
