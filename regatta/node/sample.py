"""Samples what a node does, once a second: counters of the kernel, services, runs and how far their ranks are.

Only files are read, which costs a node some milliseconds a second. Where NVIDIA's driver is loaded nvidia-smi is asked.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, Any, Callable

from regatta.node import gpus, hdfs, progress, rights
from regatta_protocol.decoding import encode
from regatta_protocol.operations.hosts import Sampled

if TYPE_CHECKING:
    from regatta_protocol.place import Place

Emit = Callable[[Sampled], None]

HDFS_SECONDS = 5.0
GPU_SECONDS = 2.0
SECTOR_BYTES = 512
VIRTUAL = ("loop", "ram", "zram", "dm-", "md", "sr", "fd")
"""Block devices that are parts of other devices, or none."""


@rights.shared(seconds=None)
def follow(place: Place, emit: Emit, interval: float, head: bool) -> None:
    """Emit a sample every `interval` seconds until the connection ends; the head also says how HDFS is."""
    runs, cards = progress.Runs(place), gpus.Meter(GPU_SECONDS)
    state: dict[str, Any] = {}
    due = time.monotonic()
    asked = due - HDFS_SECONDS
    while True:
        if head and due - asked >= HDFS_SECONDS:
            state, asked = dict(encode(hdfs.state(place))), due
        units = [name for name in progress.units() if name not in progress.MONITORING]
        told = {"units": units, "runs": list(runs.going()), "hdfs": state, "gpus": cards.look()}
        emit(Sampled({**counters(), **told}))
        due = max(due + interval, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))


def counters() -> dict[str, Any]:
    """Totals since the node's start, to be compared with later ones.

    {"at": seconds, "cpu": [busy, all] in ticks, "memory": [used, all], "network": [received, sent],
    "disk": [read, written], all in bytes, "segments": [sent, sent again] by TCP, "load", "cores"}.
    """
    with open("/proc/stat") as file:
        ticks = [int(word) for word in file.readline().split()[1:9]]
    return {
        "at": time.monotonic(),
        "cpu": [sum(ticks) - ticks[3] - ticks[4], sum(ticks)],
        "memory": _memory(),
        "network": _network(),
        "disk": _disk(),
        "segments": _segments(),
        "load": os.getloadavg()[0],
        "cores": os.cpu_count() or 1,
    }


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


def _segments() -> list[int]:
    with open("/proc/net/snmp") as file:
        names, values = [line.split() for line in file if line.startswith("Tcp:")][:2]
    found = dict(zip(names, values, strict=True))
    return [int(found["OutSegs"]), int(found["RetransSegs"])]


def _disk() -> list[int]:
    read = written = 0
    with contextlib.suppress(OSError), open("/proc/diskstats") as file:
        for line in file:
            fields = line.split()
            whole = os.path.isdir(f"/sys/block/{fields[2]}") and not fields[2].startswith(VIRTUAL)
            if whole:
                read, written = read + int(fields[5]), written + int(fields[9])
    return [read * SECTOR_BYTES, written * SECTOR_BYTES]
