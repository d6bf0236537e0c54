"""What a node does right now, once a second: counters of the kernel, services, runs and how far their ranks are.

Nothing is started for it, and only files are read: it costs a node some milliseconds a second.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import time
from typing import Any, Callable, Dict, Iterator

from regatta.node import hdfs, rundirs

Place = Dict[str, Any]
Emit = Callable[[Dict[str, Any]], None]

PREFIX = b"@regatta "
TAIL_BYTES = 1 << 18
HDFS_SECONDS = 5.0
SECTOR_BYTES = 512
STARTED = "/run/systemd/units/invocation:"
"""With a unit's name behind it: there while the unit is not stopped."""
VIRTUAL = ("loop", "ram", "zram", "dm-", "md", "sr", "fd")
"""Block devices that are parts of others, or none."""


def follow(place: Place, emit: Emit, interval: float, head: bool) -> dict[str, Any]:
    """Emit {"sample"} every `interval` seconds until the connection ends; the head also says how HDFS is."""
    runs = Runs(place)
    state: dict[str, Any] = {}
    due = time.monotonic()
    asked = due - HDFS_SECONDS
    while True:
        if head and due - asked >= HDFS_SECONDS:
            state, asked = hdfs.state(place), due
        emit({"sample": {**counters(), "units": units(), "runs": list(runs.going()), "hdfs": state}})
        due = max(due + interval, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))


def counters() -> dict[str, Any]:
    """Totals since the node's start, to be compared with later ones.

    {"at": seconds, "cpu": [busy, all] in ticks, "memory": [used, all], "network": [received, sent],
    "disk": [read, written], all in bytes, "load", "cores"}.
    """
    with open("/proc/stat") as file:
        ticks = [int(word) for word in file.readline().split()[1:9]]
    return {
        "at": time.monotonic(),
        "cpu": [sum(ticks) - ticks[3] - ticks[4], sum(ticks)],
        "memory": _memory(),
        "network": _network(),
        "disk": _disk(),
        "load": os.getloadavg()[0],
        "cores": os.cpu_count() or 1,
    }


def units() -> list[str]:
    """Our services that are not stopped, without `regatta-` and `.service`; not those of runs."""
    found = glob.glob(f"{STARTED}regatta-*.service")
    names = [path[len(f"{STARTED}regatta-") : -len(".service")] for path in found]
    return sorted(name for name in names if not name.startswith("run-"))


class Runs:
    """The runs of this node that have not ended, and how far the ranks are."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._logs: dict[str, Log] = {}
        self._ended: set[str] = set()

    def going(self) -> Iterator[dict[str, Any]]:
        """{"id", "framework", "seconds" since its start, "ranks": see Log}."""
        for run in rundirs.names(self._place):
            if run in self._ended:
                continue
            spec = rundirs.load(rundirs.path(self._place, run, "spec.json"))
            if spec is None:
                continue
            if os.path.exists(rundirs.path(self._place, run, "exit.json")) or not self._active(run, spec):
                self._ended.add(run)
                self._logs.pop(run, None)
                continue
            log = self._logs.setdefault(run, Log(rundirs.path(self._place, run, "log")))
            log.read()
            seconds = time.time() - float(spec["started"])
            yield {"id": run, "framework": spec["framework"], "seconds": seconds, "ranks": log.ranks}

    def _active(self, run: str, spec: dict[str, Any]) -> bool:
        if spec["mode"] == "unit":  # asking systemctl every second would cost more than all the rest
            return os.path.lexists(f"{STARTED}{rundirs.unit(run)}")
        return rundirs.active(self._place, run)


class Log:
    """What a run has printed on this node, read on and on.

    `ranks`: by rank {"phase": what it went through last, "progress": {"what", "done", "total", "loss", "residual"}}.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._offset = 0
        self.ranks: dict[str, dict[str, Any]] = {}
        with contextlib.suppress(OSError):
            self._offset = max(0, os.path.getsize(path) - TAIL_BYTES)

    def read(self) -> None:
        """Take in what was added."""
        with contextlib.suppress(OSError), open(self._path, "rb") as file:
            file.seek(self._offset)
            block = file.read()
            whole = block.rfind(b"\n") + 1
            self._offset += whole
            for line in block[:whole].split(b"\n"):
                _, found, text = line.partition(PREFIX)
                if found:
                    self._take(text)

    def _take(self, text: bytes) -> None:
        with contextlib.suppress(ValueError, KeyError, TypeError):
            event = json.loads(text)
            rank = self.ranks.setdefault(str(int(event["rank"])), {})
            if event["event"] == "progress":
                rank["progress"] = {key: event.get(key) for key in ("what", "done", "total", "loss", "residual")}
            elif event["event"] in ("phase", "ready"):
                rank["phase"] = str(event.get("name") or "ready")


def _memory() -> list[int]:
    found = {}
    with open("/proc/meminfo") as file:
        for line in file:
            name, _, value = line.partition(":")
            found[name] = int(value.split()[0]) * 1024
    return [found["MemTotal"] - found["MemAvailable"], found["MemTotal"]]


def _network() -> list[int]:
    received = sent = 0
    with open("/proc/net/dev") as file:
        for line in list(file)[2:]:
            name, _, rest = line.partition(":")
            if name.strip() != "lo":
                fields = rest.split()
                received, sent = received + int(fields[0]), sent + int(fields[8])
    return [received, sent]


def _disk() -> list[int]:
    read = written = 0
    with contextlib.suppress(OSError), open("/proc/diskstats") as file:
        for line in file:
            fields = line.split()
            whole = os.path.isdir(f"/sys/block/{fields[2]}") and not fields[2].startswith(VIRTUAL)
            if whole:
                read, written = read + int(fields[5]), written + int(fields[9])
    return [read * SECTOR_BYTES, written * SECTOR_BYTES]
