"""The node's own notes of each run that it starts, next to the run's folder and out of the run's reach.

`runs/.<run>.json`: what was started, only root's (on inventory/local the user's); locked while the run starts, so that
no request takes it for lost. `runs/.<run>.ended`: its time is when the run's unit ended, its text whether the run was
stopped, and systemd's word for how the unit ended.
A run of an earlier Regatta has none.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from typing import TYPE_CHECKING, Any, Dict, Iterator

from regatta.node import rights
from regatta_protocol.decoding import encode
from regatta_protocol.run import Spec

if TYPE_CHECKING:
    from regatta_protocol.place import Place

Note = Dict[str, Any]

STOPPED = "stopped"
BEFORE = "ray"
"""Runs that an earlier Regatta started have what they joined under this name; it was the one service."""
KEPT = ("mode", "framework", "release", "layer", "plan", "service", "gpus")


def path(place: Place, run: str) -> str:
    """The file of a run's note."""
    return os.path.join(place["state"], "runs", f".{run}.json")


def end_path(place: Place, run: str) -> str:
    """The file of how and when a run's unit ended."""
    return os.path.join(place["state"], "runs", f".{run}.ended")


def at_end(place: Place, run: str, unsaid: str) -> str:
    """The command by which systemd, as root, notes how a run's unit ended.

    `unsaid`: what the account of the run does then where the supervisor has not said how it ended. Root looks at
    nothing that is a run's. One command, without the unit's confinement, which takes systemd a tenth of a second to set
    up.
    """
    end = os.path.join(place["state"], "runs", run, "exit.json")
    user = rights.account(place, rights.path(place, run))
    setpriv = f"setpriv --reuid={user} --regid={user} --init-groups --no-new-privs"
    said = f'{setpriv} /bin/sh -c "test -e {end} || exec {unsaid}"'
    return f"/bin/sh -c 'echo $SERVICE_RESULT >>{end_path(place, run)}; exec {said}'"


@contextlib.contextmanager
def starting(place: Place, run: str, spec: Spec, joined: Dict[str, Any] | None) -> Iterator[None]:
    """Note a run that is being started; it counts as starting until the end of the block, or of this process."""
    remove(place, run)
    told = {
        "joined": joined,
        "started": time.time(),
        "by": (spec.record or {}).get("by"),
        "owner": place.get("by"),
        "job": place.get("job"),
    }
    note = {**{name: encode(getattr(spec, name)) for name in KEPT}, **told}
    with open(os.open(path(place, run), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        json.dump(note, file)
        file.flush()
        yield


def read(place: Place, run: str) -> Note | None:
    """The note of a run; None where there is none, or where this account may not read it."""
    with contextlib.suppress(OSError, ValueError), open(path(place, run)) as file:
        return dict(json.load(file))
    return None


def account(note: Note | None) -> str:
    """The login account that has started a run; '' where that is not noted."""
    return str((note or {}).get("owner") or "").partition(" ")[0]


def joined(note: Note | None) -> Dict[str, Any] | None:
    """The service that a run's driver has joined, and by what; None where it joined none."""
    note = note or {}
    if note.get(BEFORE):
        return {"service": BEFORE, **note[BEFORE]}
    return note.get("joined")


def is_starting(place: Place, run: str) -> bool:
    """Whether the process that starts a run is still at it."""
    with contextlib.suppress(OSError), open(path(place, run)) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def mark_ended(place: Place, run: str, stopped: bool = False) -> None:
    """Note that a run has ended now, or is being stopped, unless that is noted, or its start is not."""
    if not os.path.exists(path(place, run)):
        return
    with contextlib.suppress(FileExistsError), open(end_path(place, run), "x") as file:
        file.write(f"{STOPPED}\n" if stopped else "")


def ended(place: Place, run: str) -> float | None:
    """When the run's unit ended, Unix time; None where that is not noted."""
    with contextlib.suppress(OSError):
        return os.lstat(end_path(place, run)).st_mtime
    return None


def failure(place: Place, run: str) -> str:
    """Return how a run's unit ended where it did not end well: `stopped`, else systemd's word (`exit-code`,
    `timeout`).
    """
    with contextlib.suppress(OSError, ValueError), open(end_path(place, run)) as file:
        words = file.read(100).split()
        return next((word for word in words if word != "success"), "")
    return ""


def remove(place: Place, run: str) -> None:
    """Forget a run whose folder goes."""
    for file in (path(place, run), end_path(place, run)):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(file)
