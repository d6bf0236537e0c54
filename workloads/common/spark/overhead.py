"""An application by Spark's event log: where the driver's time went, and that of all tasks together."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Span = tuple[float, float]
"""From and to, Unix seconds by the driver's clock."""

OWN = ("JVM start", "session", "executors", "scheduling", "stop", "deserialising", "serialising results", "fetching")
"""Parts of both times that are Spark's own. The others are `tasks` or `running`, and the driver's own `program`."""
_ASKED = re.compile(
    rb'\{"Event":"SparkListener(ApplicationStart|ExecutorAdded|JobStart|JobEnd|StageCompleted|TaskEnd)"'
)


@dataclass(frozen=True)
class Driver:
    """When the driver asked for Spark, had it, began to leave it, and was rid of it: Unix seconds."""

    asked: float
    ready: float
    leaving: float
    gone: float


@dataclass
class Seen:
    """The sums of the events of a log; seconds."""

    started: float | None = None
    executors: list[float] = field(default_factory=list)
    jobs: dict[int, Span] = field(default_factory=dict)
    open_jobs: dict[int, float] = field(default_factory=dict)
    stages: int = 0
    tasks: list[Span] = field(default_factory=list)
    failed: int = 0
    work: dict[str, float] = field(default_factory=dict)
    within: dict[str, float] = field(default_factory=dict)

    def take(self, lines: Iterable[bytes]) -> None:
        """Take in lines of a log. Raises ValueError and KeyError where one of those that count is no event."""
        for line in lines:
            if found := _ASKED.match(line):
                self._take(found[1].decode(), json.loads(line))

    def _take(self, kind: str, event: Mapping[str, Any]) -> None:
        if kind == "ApplicationStart":
            self.started = event["Timestamp"] / 1000
        elif kind == "ExecutorAdded":
            self.executors.append(event["Timestamp"] / 1000)
        elif kind == "JobStart":
            self.open_jobs[event["Job ID"]] = event["Submission Time"] / 1000
        elif kind == "JobEnd":
            began = self.open_jobs.pop(event["Job ID"], None)
            if began is not None:
                self.jobs[event["Job ID"]] = began, event["Completion Time"] / 1000
        elif kind == "StageCompleted":
            self.stages += 1
        else:
            self._task(event["Task Info"], event.get("Task Metrics") or {})

    def _task(self, info: Mapping[str, Any], metrics: Mapping[str, Any]) -> None:
        """A task as its driver saw it. Its time beyond all that its executor tells is the scheduler's delay."""
        began, ended = info["Launch Time"] / 1000, info["Finish Time"] / 1000
        self.tasks.append((began, ended))
        self.failed += bool(info.get("Failed") or info.get("Killed"))
        if not metrics:
            return
        fetched = ended - info["Getting Result Time"] / 1000 if info.get("Getting Result Time") else 0.0
        told = {
            "deserialising": metrics.get("Executor Deserialize Time", 0) / 1000,
            "running": metrics.get("Executor Run Time", 0) / 1000,
            "serialising results": metrics.get("Result Serialization Time", 0) / 1000,
            "fetching": max(0.0, fetched),
        }
        told = {"scheduling": max(0.0, ended - began - sum(told.values())), **told}
        reads, writes = metrics.get("Shuffle Read Metrics") or {}, metrics.get("Shuffle Write Metrics") or {}
        inner = {
            "garbage collection": metrics.get("JVM GC Time", 0) / 1000,
            "waiting for shuffle": reads.get("Fetch Wait Time", 0) / 1000,
            "writing shuffle": writes.get("Shuffle Write Time", 0) / 1e9,
        }
        for kept, some in ((self.work, told), (self.within, inner)):
            for name, seconds in some.items():
                kept[name] = kept.get(name, 0.0) + seconds

    def account(self, driver: Driver, *, whole: bool) -> dict[str, Any]:
        """The fields of the event `overhead`; `whole`: whether the log was read to its end."""
        return {
            "source": "Spark's event log",
            "whole": whole and not self.open_jobs,
            "jobs": len(self.jobs) + len(self.open_jobs),
            "stages": self.stages,
            "tasks": len(self.tasks),
            "failed": self.failed,
            "wall": _rounded(self._wall(driver)),
            "work": _rounded(self.work),
            "within": _rounded(self.within),
            "own": list(OWN),
        }

    def _wall(self, driver: Driver) -> dict[str, float]:
        """Seconds of the driver by what it waited for; they add up to all that it had with Spark.

        Until the last executor has come that the first task waited for it is `executors`; in a job of which no task
        runs then, `scheduling`. The time between jobs is its own `program`.
        """
        started = min(max(self.started or driver.asked, driver.asked), driver.ready)
        first = min((began for began, _ in self.tasks), default=driver.leaving)
        came = max((at for at in self.executors if at <= first), default=driver.ready)
        joined = min(max(came, driver.ready), driver.leaving)
        jobs = [*self.jobs.values(), *((began, driver.leaving) for began in self.open_jobs.values())]
        working = covered(self.tasks, joined, driver.leaving)
        busy = covered([*jobs, *self.tasks], joined, driver.leaving)
        return {
            "JVM start": started - driver.asked,
            "session": driver.ready - started,
            "executors": joined - driver.ready,
            "scheduling": busy - working,
            "tasks": working,
            "program": driver.leaving - joined - busy,
            "stop": driver.gone - driver.leaving,
        }


def covered(spans: Sequence[Span], first: float, last: float) -> float:
    """Seconds between `first` and `last` that are in at least one of the spans."""
    seconds, until = 0.0, first
    for began, ended in sorted(spans):
        begin, end = max(began, until), min(ended, last)
        if end > begin:
            seconds += end - begin
            until = end
    return seconds


def _rounded(seconds: Mapping[str, float]) -> dict[str, float]:
    return {name: round(max(0.0, value), 3) for name, value in seconds.items()}
