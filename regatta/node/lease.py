"""The lease on a cluster: its head keeps it for as long as the connection of the controller that works on it lives.

It is in /run, so that a bare host has it too, and a reboot ends it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, TextIO

from regatta_protocol.operations.hosts import Holder, LeaseWord

if TYPE_CHECKING:
    from regatta_protocol.place import Place

PATH = "/run/regatta.lease"
BEAT_SECONDS = 10.0
_BREAK_SECONDS = 2.0


class _Broken(Exception):
    """Another controller takes the lease."""


def hold(place: Place, emit: Callable[[LeaseWord], None], who: str, command: str, broken: bool = False) -> None:
    """Hold the lease until the connection ends; emits that it is held, or who has it.

    `broken`: whoever holds it loses it, and learns of that. Lines that are emitted from time to time let the kernel
    notice that the controller's side is gone.
    """
    signal.signal(signal.SIGTERM, _lose)
    try:
        with open(_path(place), "a+") as file:
            if not _locked(file, broken):
                emit(LeaseWord(taken=_holder(file)))
                return
            file.truncate(0)
            json.dump({"who": who, "command": command, "pid": os.getpid(), "since": _now()}, file)
            file.flush()
            emit(LeaseWord(held=True))
            while True:  # main() ends this process when the connection closes, and the lease with it
                time.sleep(BEAT_SECONDS)
                emit(LeaseWord(alive=True))
    except _Broken:
        emit(LeaseWord(broken=True))
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _path(place: Place) -> str:
    """On inventory/local nothing is root's."""
    if place.get("user"):
        return PATH
    os.makedirs(place["state"], exist_ok=True)
    return os.path.join(place["state"], "lease")


def _locked(file: TextIO, broken: bool) -> bool:
    for number in (None, signal.SIGTERM, signal.SIGKILL) if broken else (None,):
        if number:
            _end(file, number)
        late = time.monotonic() + (_BREAK_SECONDS if number else 0.0)
        while True:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            if time.monotonic() >= late:
                break
            time.sleep(0.1)
    return False


def _end(file: TextIO, number: int) -> None:
    """Signal the holder: the process that the file names, if it has the file open."""
    pid = _read(file).get("pid")
    ours = os.fstat(file.fileno())
    if not isinstance(pid, int) or pid <= 1 or pid == os.getpid():
        return
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(FileNotFoundError):
                found = os.stat(f"/proc/{pid}/fd/{name}")
                if (found.st_dev, found.st_ino) == (ours.st_dev, ours.st_ino):
                    os.kill(pid, number)
                    return


def _holder(file: TextIO) -> Holder:
    said = _read(file)
    since = said.get("since")
    age = _now() - since if isinstance(since, float) else 0.0
    unknown = "an unnamed user"
    return Holder(str(said.get("who") or unknown), str(said.get("command") or "?"), age)


def _read(file: TextIO) -> Dict[str, Any]:
    file.seek(0)
    try:
        said = json.load(file)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _now() -> float:
    """Seconds since this host was started: that clock is never set."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _lose(*_: object) -> None:
    raise _Broken
