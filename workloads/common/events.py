"""Events: lines ``@regatta {json}`` on standard output, one object a line (docs/reference/events.md).

Each line is one write to the file descriptor, so that the lines of ranks that share a pipe do not mix. An actor, whose
output may be lost, keeps its events with :func:`keep`; its driver prints them with :func:`replay`.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from regatta_protocol import events as told
from regatta_protocol.events import Event
from regatta_protocol.log import DRIVER

__all__ = ["DRIVER", "Event"]
BAD_INPUT_STATUS = 2
_STAGED = re.compile(r"(?:/[^\s:'\",]*)?/data/[0-9a-f]{64}/")
"""The path of an input file on a node, by its content (docs/reference/node-files.md)."""
MOST_WORDS = 4000


class BadInput(Exception):
    """The input is at fault, and one sentence says how; the process ends with status 2 and no traceback."""


def write(event: Event) -> None:
    """Write one event as one line, after all that was printed before it."""
    sys.stdout.flush()
    line = told.line(event).encode()
    while line:
        line = line[os.write(sys.stdout.fileno(), line) :]


class _State:
    rank: int = int(os.environ.get("RANK") or 0)
    sink: Callable[[Event], None] = staticmethod(write)


def set_rank(rank: int) -> None:
    """Events from here on carry `rank`; until then ``RANK`` of the environment, or 0. A Ray driver is -1."""
    _State.rank = rank


def keep() -> Callable[[], list[Event]]:
    """Keep this process's events instead of writing them; returns a function that takes out those kept so far."""
    kept: list[Event] = []
    lock = threading.Lock()

    def sink(event: Event) -> None:
        with lock:
            kept.append(event)

    def take() -> list[Event]:
        with lock:
            taken = kept[:]
            kept.clear()
        return taken

    _State.sink = staticmethod(sink)
    return take


def carry(sink: Callable[[Event], None]) -> None:
    """Give this process's events to `sink` instead of writing them."""
    _State.sink = staticmethod(sink)


def replay(events: Iterable[Event]) -> None:
    """Write events of another rank as that rank made them."""
    for event in events:
        _State.sink(event)


def own() -> dict[str, Any]:
    """Return what events of this rank have now: its number, and the time."""
    return {"rank": _State.rank, "t": round(time.time(), 6)}


def emit(event: Event) -> None:
    """Emit an event, now. Floats must be finite: JSON has no NaN."""
    _State.sink(event)


def ready() -> None:
    """Imports are done and the process group, or the actor, are ready."""
    emit(told.Ready(**own()))


@contextlib.contextmanager
def phase(name: str) -> Iterator[None]:
    """Time a phase, in seconds; it is reported when it has ended without an exception."""
    start = time.perf_counter()
    yield
    spent(name, time.perf_counter() - start)


def spent(name: str, seconds: float) -> None:
    """Report a phase that was timed in another way."""
    emit(told.Phase(**own(), name=name, seconds=round(seconds, 6)))


def progress(what: str, done: float, total: float, **extra: Any) -> None:
    """Say how far this rank is; `extra` may hold ``residual``, ``loss``, ``accuracy``, ``iterations`` (so far)."""
    emit(told.Progress(**own(), what=what, done=done, total=total, **extra))


def result(answer: Mapping[str, Any], tolerance: Mapping[str, float], show: Sequence[str]) -> None:
    """Give the run's answer, once, from rank 0 or the driver.

    `tolerance` maps dotted names in `answer`, in which lists do not count, to an absolute tolerance; what it does
    not name must be equal between runs. `show` are lines for a person.
    """
    emit(told.Result(**own(), answer=dict(answer), tolerance=dict(tolerance), show=tuple(show)))


def used() -> None:
    """Report what this process has used so far: its peak resident memory, and its seconds of CPU."""
    emit(told.Memory(**own(), peak_bytes=peak_bytes()))
    emit(told.Cpu(**own(), seconds=round(cpu_seconds(), 3)))


def exchanged(sent_bytes: int, times: int) -> None:
    """Report what this rank has sent to others, in bytes, in so many exchanges between all ranks."""
    emit(told.Exchanged(**own(), sent_bytes=sent_bytes, times=times))


def chosen(option: str, value: str, why: str) -> None:
    """Say what was decided for an option that was left open, and why."""
    emit(told.Chosen(**own(), option=option, value=value, why=why))


def warning(message: str) -> None:
    """Say something that the person should know and that stays in the record."""
    emit(told.WarningEvent(**own(), message=message))


def failed(rank: int, address: str | None, words: str) -> None:
    """Say, as a driver, which rank has failed, on which host, and what is known of how (the end of it, where long)."""
    emit(told.RankFailed(**own(), of=rank, address=address, words=words[-MOST_WORDS:]))


def bad_input(error: BadInput | str) -> NoReturn:
    """Emit `error` and end the process with status 2. Input files of a node are called by their name."""
    emit(told.ErrorEvent(**own(), message=_STAGED.sub("", str(error))))
    sys.exit(BAD_INPUT_STATUS)


def cpu_seconds() -> float:
    """Seconds of CPU, user and system, of all threads of this process and of its children that have ended."""
    return sum(os.times()[:4])


def peak_bytes() -> int:
    """Peak resident memory of this process in bytes: ``VmHWM``, which unlike ``ru_maxrss`` starts again at exec.

    Raises RuntimeError where the kernel does not tell it.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("/proc/self/status has no VmHWM")
