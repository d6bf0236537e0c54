"""Units of a node's services: started, stopped, looked at."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Dict, Sequence

from regatta.node import cgroup, facts, frameworks, listing
from regatta_protocol.decoding import decode
from regatta_protocol.operations.services import Acted, NodeTold, Pages, UnitState

if TYPE_CHECKING:
    from regatta_protocol.place import Place


_PAGES = "/etc/regatta/pages.json"
_SHOWN = "Id,LoadState,ActiveState,ActiveEnterTimestamp"


def act(place: Place, action: str, units: Sequence[str]) -> Acted:
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
    return Acted(states, message)


def status(
    place: Place, units: Sequence[str], asks: Dict[str, str] | None = None, versions: Sequence[str] = ()
) -> NodeTold:
    """Facts of the node, states of its units, its runs; what frameworks ask besides."""
    return NodeTold(
        {**facts.facts(place, versions), "without_limits": cgroup.missing() if place.get("user") else []},
        listing.runs(place),
        _states(units),
        frameworks.answers(place, asks or {}),
    )


def pages(place: Place) -> Pages:
    """The web pages of services, as provisioning has written them on the head."""
    try:
        with open(_PAGES) as file:
            return decode(Pages, {"pages": json.load(file)})
    except FileNotFoundError:
        return Pages(())


def _states(units: Sequence[str]) -> Dict[str, UnitState]:
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
    found: Dict[str, UnitState] = {}
    for block in done.stdout.split("\n\n"):
        shown = dict(line.partition("=")[::2] for line in block.splitlines())
        if shown.get("LoadState", "not-found") != "not-found":
            found[shown["Id"]] = UnitState(shown["ActiveState"], shown["ActiveEnterTimestamp"])
    return found
