"""Other users of this node during a run: other runs, and processes outside of Regatta."""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING

from regatta.node import energy as counters
from regatta.node import notes, rights, rundirs
from regatta_protocol.decoding import fitting
from regatta_protocol.operations.runs import Contended
from regatta_protocol.run import Kept

if TYPE_CHECKING:
    from regatta_protocol.place import Place


KERNEL_THREADS = "2"
OURS = "/regatta-"
"""In the path of a process's cgroup: a run of Regatta, or Ray's or HDFS' daemons, which work for runs."""


def strangers() -> dict[str, float]:
    """Seconds of CPU until now of each process outside of Regatta, by process id and start."""
    ticks, found = os.sysconf("SC_CLK_TCK"), {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError, ValueError, IndexError):
            with open(f"/proc/{pid}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
            seconds = (int(fields[11]) + int(fields[12])) / ticks
            if fields[1] == KERNEL_THREADS or not seconds:
                continue
            with open(f"/proc/{pid}/cgroup") as file:
                if OURS not in file.read():
                    found[f"{pid}/{fields[19]}"] = round(seconds, 2)
    return found


def of_run(
    place: Place, run: str, before: dict[str, float] | None = None, energy: dict[str, float] | None = None
) -> Contended:
    """Return the other runs on this node between the run's start and its end (or now), and the load of other processes.

    The load is an average since `before`, their seconds of CPU at the run's start; None where that is not known. It
    lacks processes that have ended meanwhile. `energy`: the counters at the run's start.
    """
    joules, of_cards = (counters.joules(energy), counters.of_cards(energy)) if energy else (None, None)
    began, ended = _spans_of(place, [run])[run]
    names = [name for name in rundirs.names(place) if name != run and not _over(place, name, began)]
    spans = _spans_of(place, names)
    others = [name for name, (since, until) in spans.items() if since < ended and until > began]
    load = None
    if before is not None and began < ended:
        used = sum(max(0.0, seconds - before.get(name, 0.0)) for name, seconds in strangers().items())
        load = round(used / max(time.time() - began, 0.1), 2)
    return Contended(tuple(others), load, joules, of_cards)


def _over(place: Place, run: str, moment: float) -> bool:
    """Whether a run is known to have ended before this Unix time, by the time of one file: a node has many old runs."""
    ended = notes.ended(place, run)
    if ended is None and place.get("user") is None:
        with contextlib.suppress(OSError):
            ended = os.lstat(rundirs.path(place, run, "exit.json")).st_mtime
    return ended is not None and ended < moment and not rundirs.unit_started(run)


def _spans_of(place: Place, runs: list[str]) -> dict[str, list[float]]:
    noted = {name: _noted_span(place, name) for name in runs}
    told = rights.each(
        place,
        noted,
        lambda own: _spans(place, {name: noted[name] for name in own}),
        lambda own: {name: noted[name] or [0.0, 0.0] for name in own},
    )
    return {name: span for one in told for name, span in one.items()}


def _noted_span(place: Place, run: str) -> list[float] | None:
    """When a run was on this node, by what is not the run's; None where only its own files tell."""
    began: float | None = fitting(float, (notes.read(place, run) or {}).get("started"), None)
    if began is None:
        return None
    if rundirs.here(place, run):
        return [began, time.time()]
    ended = notes.ended(place, run)
    return [began, ended] if ended is not None else None


@rights.of_run()
def _spans(place: Place, noted: dict[str, list[float] | None]) -> dict[str, list[float]]:
    return {name: span or _own_span(place, name) for name, span in noted.items()}


def _own_span(place: Place, run: str) -> list[float]:
    """When a run was on this node, Unix time; one that vanished without a word was nowhere."""
    began = (rundirs.spec(place, run, rundirs.SHARE_BYTES) or Kept()).started
    if began is None:
        return [0.0, 0.0]
    if rundirs.active(place, run):
        return [began, time.time()]
    said = rundirs.ended(place, run)
    return [began, (said.ended if said else None) or 0.0]
