"""Our services and runs on a node right now, and how far the ranks are: read from files, nothing is started for it."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import time
from typing import TYPE_CHECKING, Any, Iterator

from regatta.node import rundirs, runlog
from regatta_protocol.decoding import fitting
from regatta_protocol.log import PREFIX
from regatta_protocol.run import Kept

if TYPE_CHECKING:
    from regatta_protocol.place import Place


TAIL_BYTES = 1 << 18
MOST_BYTES = 1 << 22
"""Bytes that are read of a log at a time: if a run prints faster, the older part is passed over."""
MONITORING = ("node-exporter", "metrics", "prometheus", "grafana")
"""Services that look at the others."""
BEGINNING_SECONDS = 30.0
"""A run's folder is there before its processes are."""
MOST_RANKS = 1 << 16


def units() -> list[str]:
    """Our services that are not stopped, without `regatta-` and `.service`; not those of runs."""
    return _named(glob.glob(f"{rundirs.STARTED}regatta-*.service"))


def installed() -> list[str]:
    """Our services that provisioning has made here, under the same names."""
    return _named(glob.glob("/etc/systemd/system/regatta-*.service"))


def _named(paths: list[str]) -> list[str]:
    names = [path.rpartition("regatta-")[2][: -len(".service")] for path in paths]
    return sorted(name for name in names if not name.startswith("run-"))


class Runs:
    """The runs of this node that have not ended, and how far the ranks are."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._logs: dict[str, Log] = {}
        self._ended: set[str] = set()

    def going(self) -> Iterator[dict[str, Any]]:
        """{"id", "framework", "seconds" since its start, "ranks": see Log, "phase": of ranks that have told none,
        "here": whether processes of the run's own are here: ranks, or a Ray driver, "quiet": seconds without output}.
        """
        names = rundirs.names(self._place)
        self._ended.intersection_update(names)
        for run in names:
            if run in self._ended:
                continue
            spec = rundirs.spec(self._place, run, rundirs.SHARE_BYTES)
            if spec is None or spec.started is None:
                continue
            seconds = time.time() - spec.started
            ended = os.path.lexists(rundirs.path(self._place, run, "exit.json")) and not rundirs.unit_started(run)
            if ended or not rundirs.active(self._place, run):
                if ended or seconds > BEGINNING_SECONDS:
                    self._ended.add(run)
                    self._logs.pop(run, None)
                continue
            log = self._logs.setdefault(run, Log(rundirs.path(self._place, run)))
            log.read()
            phase = "starting" if self._waits(run, spec, log) else "running"
            shown = {"id": run, "framework": spec.framework, "seconds": seconds, "ranks": log.ranks}
            yield {**shown, "phase": phase, "here": bool(spec.ranks), "quiet": self._quiet(run)}

    def _quiet(self, run: str) -> float:
        with contextlib.suppress(OSError):
            return runlog.quiet(rundirs.path(self._place, run))
        return 0.0

    def _waits(self, run: str, spec: Kept, log: Log) -> bool:
        """Whether its processes are not there yet, or are a workload of Regatta, which says when it is ready."""
        if not os.path.exists(rundirs.path(self._place, run, "pid.json")):
            return True
        return log.told or not _is_script(spec)


def _is_script(spec: Kept) -> bool:
    """Whether a person's script was started, not a module of Regatta."""
    return spec.plan is not None and bool(spec.plan.program) and (spec.plan.script or spec.plan.program[0] != "-m")


class Log:
    """The output of a run on this node, read as it grows.

    `ranks`: by rank {"phase": what it went through last, "progress": {"what", "done", "total", "loss", "residual"}}.
    `told`: whether there was any event; a person's own program need not report any.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._offset = 0
        self.ranks: dict[str, dict[str, Any]] = {}
        self.told = False
        with contextlib.suppress(OSError):
            self._offset = max(0, runlog.end(folder) - TAIL_BYTES)

    def read(self) -> None:
        """Take in what was added."""
        with contextlib.suppress(OSError):
            end = runlog.end(self._folder)
            self._offset = max(self._offset, end - MOST_BYTES)
            while self._offset < end:
                piece = runlog.read(self._folder, self._offset)
                if piece.offset == self._offset:
                    break
                self._offset = piece.offset
                for line in (*piece.events, *piece.lines):
                    _, found, text = line.partition(PREFIX.encode())
                    if found:
                        self.told = True
                        self._take(text)

    def _take(self, text: bytes) -> None:
        with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
            event = json.loads(text)
            number = fitting(int, event["rank"], None)
            if number is None or (str(number) not in self.ranks and len(self.ranks) >= MOST_RANKS):
                return
            rank = self.ranks.setdefault(str(number), {})
            if event["event"] == "progress":
                counted = {key: fitting(float, event.get(key), None) for key in ("done", "total", "loss", "residual")}
                rank["progress"] = {"what": fitting(str, event.get("what"), ""), **counted}
            elif event["event"] in ("phase", "ready"):
                rank["phase"] = fitting(str, event.get("name"), "") or "ready"
