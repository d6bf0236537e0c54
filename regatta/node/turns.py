"""Turns of runs where no Slurm is: a lock on the head, of which each run that holds or wants it has a ticket.

A ticket is a file that its process has locked. One whose process is gone counts as long as its run works on this host.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from typing import TYPE_CHECKING, Callable, Iterator, List, TextIO, Tuple

from regatta.node import rundirs
from regatta.node.problem import Problem
from regatta_protocol.operations.queue import Entry, QueueWord

if TYPE_CHECKING:
    from regatta_protocol.place import Place

_POLL_SECONDS, _TELL_SECONDS, _BEAT_SECONDS = 0.05, 1.0, 10.0
_OF_ROOT = "/run/regatta-queue"


def hold(place: Place, emit: Callable[[QueueWord], None], run: str, nodes: Tuple[str, ...]) -> None:
    """Wait until all that came before are gone, then hold these nodes until the connection ends.

    Emits who is ahead whenever that changes. Raises Problem where the run is taken out meanwhile.
    """
    folder = _folder(place)
    with _taken(folder, run, place.get("by") or "") as ticket:
        told: Tuple[int, ...] = ()
        next_word = time.monotonic()
        while ahead := [one for one in _entries(place) if one.job < _number(ticket)]:
            if not os.path.exists(f"{folder}/{ticket}"):
                raise Problem(f"{run} was taken out of the queue")
            if told != (told := tuple(one.job for one in ahead)):
                emit(QueueWord(waits=tuple(ahead)))
            elif time.monotonic() >= next_word:
                next_word = time.monotonic() + _TELL_SECONDS
                emit(QueueWord(alive=True))
            time.sleep(_POLL_SECONDS)
        os.utime(f"{folder}/{ticket}")
        emit(QueueWord(granted=nodes))
        while True:  # main() ends this process when the connection closes, and its lock with it
            time.sleep(_BEAT_SECONDS)
            emit(QueueWord(alive=True))


def listing(place: Place) -> Tuple[Entry, ...]:
    """Who holds the nodes, then who waits, first in line first."""
    own = place.get("by") or ""
    return tuple(one.changed(others=one.owner != own) for one in _entries(place))


def withdraw(place: Place, run: str) -> bool:
    """Take a run that waits out of the line; returns whether it was there."""
    folder = _folder(place)
    waits = [name for name in _tickets(folder)[1:] if _run(name) == run]
    for name in waits:
        os.unlink(f"{folder}/{name}")
    return bool(waits)


@contextlib.contextmanager
def _taken(folder: str, run: str, owner: str) -> Iterator[str]:
    """A new ticket, behind all others, which goes with this process."""
    new = f"{folder}/.{os.getpid()}"
    with open(f"{folder}/.lock", "w") as door, open(new, "w") as file:
        fcntl.flock(door, fcntl.LOCK_EX)
        fcntl.flock(file, fcntl.LOCK_EX)
        json.dump({"owner": owner, "submitted": time.time()}, file)
        file.flush()
        ticket = f"{max([0, *map(_number, _tickets(folder))]) + 1}-{run}"
        os.rename(new, f"{folder}/{ticket}")
        fcntl.flock(door, fcntl.LOCK_UN)
        yield ticket


def _entries(place: Place) -> List[Entry]:
    """Who is in line; tickets of processes that are gone, and whose runs have ended, are removed."""
    folder = _folder(place)
    found: List[Entry] = []
    for name in _tickets(folder):
        with contextlib.suppress(FileNotFoundError), open(f"{folder}/{name}") as file:
            if not _locked(file) and not rundirs.active(place, _run(name)):
                os.unlink(f"{folder}/{name}")
                continue
            said = json.load(file)
            first, at = not found, os.fstat(file.fileno()).st_mtime
            found.append(
                Entry(
                    job=_number(name),
                    run=_run(name),
                    owner=said["owner"],
                    holds=first,
                    ours=True,
                    wanted=1,
                    submitted=said["submitted"],
                    since=at if first else None,
                    reason="" if first else "Priority",
                )
            )
    return found


def _locked(file: TextIO) -> bool:
    """Whether the process of a ticket lives."""
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def _folder(place: Place) -> str:
    """On inventory/local nothing is root's."""
    folder = _OF_ROOT if place.get("user") else os.path.join(place["state"], "queue")
    os.makedirs(folder, 0o700, exist_ok=True)
    return folder


def _tickets(folder: str) -> List[str]:
    return sorted((name for name in os.listdir(folder) if name.partition("-")[0].isdigit()), key=_number)


def _number(ticket: str) -> int:
    return int(ticket.partition("-")[0])


def _run(ticket: str) -> str:
    return ticket.partition("-")[2]
