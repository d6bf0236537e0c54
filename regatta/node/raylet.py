"""The cluster's Ray on this node: its daemons, and the id under which its raylet is in the cluster."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Dict

Place = Dict[str, Any]
DAEMONS = ("raylet", "gcs_server")
_ID, _GCS = b"--node_id=", b"--gcs-address="


def daemons(place: Place) -> Dict[str, int]:
    """Process ids of Ray's daemons, by name."""
    return {name: pid for name, (pid, _) in _found(place).items()}


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
    """Daemons that keep their files where the cluster's Ray does; somebody else's are none of ours."""
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
