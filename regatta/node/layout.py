"""Which layout of paths, owners and modes a node has: a controller that knows another one changes nothing there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from regatta.node.problem import Problem

if TYPE_CHECKING:
    from regatta_protocol.place import Place

NUMBER = 3
"""Raised with every change of docs/reference/node-files.md that `make provision` has to carry over.

1 had no number: `regatta_state` and Ray's token belonged to the account of runs. 2: both are root's. 3: the key between
nodes is root's, and that of runs opens only the shared folder.
"""
NODE = "/etc/regatta/node.json"


def of_node() -> int | None:
    """The layout that provisioning has left here; None on a host without any."""
    try:
        with open(NODE) as file:
            return int(json.load(file).get("layout", 1))
    except FileNotFoundError:
        return None


def check(place: Place, older: bool = False, bare: bool = False) -> None:
    """Problem where a cluster's node has another layout than this program knows, or none: it is not provisioned.

    An `older` one may do, and a host that is `bare`.
    """
    if not place.get("user"):
        return
    found = of_node()
    if found is None and not bare:
        raise Problem("is not provisioned: run 'regatta provision'")
    if found is not None and (found > NUMBER or (found < NUMBER and not older)):
        raise Problem(differs(found))


def differs(found: int) -> str:
    """Return what to do about another layout."""
    if found > NUMBER:
        return (
            f"was provisioned by a newer Regatta (layout {found} of its folders, this checkout knows {NUMBER}): "
            "update this checkout; nothing was changed"
        )
    return (
        f"was provisioned by an older Regatta (layout {found} of its folders, this checkout needs {NUMBER}): "
        "run 'regatta provision' first, which keeps data, runs and releases; nothing was changed"
    )
