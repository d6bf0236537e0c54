"""Who else used this node while a run was on it: other runs, and processes that are none of ours."""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any, Dict

from regatta.node import rights, rundirs

Place = Dict[str, Any]
Answer = Dict[str, Any]

KERNEL_THREADS = "2"
OURS = "/regatta-"
"""In the path of a process's cgroup: a run of ours, or Ray's or HDFS' daemons, which work for runs."""


def strangers() -> dict[str, float]:
    """Seconds of CPU until now of each process that is none of ours, by process id and start."""
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


@rights.of_run()
def of_run(place: Place, run: str, before: dict[str, float] | None = None) -> Answer:
    """{"runs": ids of others that were on this node between the run's start and its end (or now), "load"}.

    "load": cores that processes which are none of ours have used since `before`, what `strangers` said at the run's
    start, on average; None where that is not known. What has ended meanwhile is not in it.
    """
    began, ended = _span(place, run)
    others = []
    for other in rundirs.names(place):
        if other == run:
            continue
        since, until = _span(place, other)
        if since < ended and until > began:
            others.append(other)
    load = None
    if before is not None and began < ended:
        used = sum(max(0.0, seconds - before.get(name, 0.0)) for name, seconds in strangers().items())
        load = round(used / max(time.time() - began, 0.1), 2)
    return {"runs": others, "load": load}


def _span(place: Place, run: str) -> tuple[float, float]:
    """When a run was on this node, Unix time; one that vanished without a word was nowhere."""
    began = (rundirs.spec(place, run) or {}).get("started")
    if began is None:
        return 0.0, 0.0
    if exit := rundirs.ended(place, run):
        return began, exit["ended"] or 0.0
    return (began, time.time()) if rundirs.active(place, run) else (0.0, 0.0)
