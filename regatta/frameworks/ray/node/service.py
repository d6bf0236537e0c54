"""The cluster's Ray on this node: its daemons, the id of its raylet in the cluster, and how a driver joins it."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, Dict, Tuple

from regatta.frameworks.ray.node import actors
from regatta.node import environments, frameworks, rights
from regatta.node.problem import Problem

if TYPE_CHECKING:
    from regatta_protocol.place import Place

DAEMONS = ("raylet", "gcs_server")
ACTORS_SECONDS = 60.0
_ID, _GCS = b"--node_id=", b"--gcs-address="


@frameworks.for_members
def join(place: Place) -> Tuple[Dict[str, str], Dict[str, Any]]:
    """The variables by which a driver that is started here finds the cluster's Ray, and what `end` needs.

    Raises Problem where there is none.
    """
    gcs = gcs_address(place)
    if gcs is None:
        raise Problem("Ray does not run here: run 'regatta up'")
    return {"RAY_ADDRESS": gcs}, {"gcs": gcs, "python": environments.resolved(place, place["python"])}


def end(place: Place, run: str, joined: Dict[str, Any]) -> None:
    """End what a run whose driver has ended left in Ray. Raises Problem where something stays."""
    left = rights.call(place.get("user"), lambda: actors.end(run, joined), ACTORS_SECONDS)
    if left:
        raise Problem(f"{left} actor(s) of {run} are still in Ray: 'regatta cancel {run}' tries again")


def daemons(place: Place) -> Dict[str, int]:
    """Process ids of Ray's daemons, by name; first that whose unit has the processes of runs."""
    found = _found(place)
    return {name: found[name][0] for name in DAEMONS if name in found}


@frameworks.for_members
def node_id(place: Place) -> str | None:
    """Ray's id of this node, as its raylet was given it; None while there is none. Another after each start."""
    return _word(place, _ID)


def gcs_address(place: Place) -> str | None:
    """`host:port` of the cluster's control service, as the raylet was given it; None while there is none."""
    return _word(place, _GCS)


def _word(place: Place, name: bytes) -> str | None:
    _, words = _found(place).get("raylet", (0, []))
    return next((word[len(name) :].decode() for word in words if word.startswith(name)), None)


def _found(place: Place) -> Dict[str, tuple[int, list[bytes]]]:
    """Daemons that keep their files where the cluster's Ray does; other users' daemons are left out."""
    files = os.path.join(place["state"], "ray", "session_").encode()
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            with open(f"/proc/{pid}/comm") as file:
                name = file.read().strip()
            if name in DAEMONS:
                with open(f"/proc/{pid}/cmdline", "rb") as line:
                    words = line.read().split(b"\0")
                if any(files in word for word in words):
                    found[name] = (int(pid), words)
    return found
