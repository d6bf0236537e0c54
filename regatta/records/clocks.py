"""Turns the events of a run and their arrival on the controller into the phases of the record."""

import math
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated

from msgspec import Meta, Struct

from regatta_protocol.events import (
    Chosen,
    Cpu,
    ErrorEvent,
    Event,
    Exchanged,
    Memory,
    OverheadEvent,
    Phase,
    Progress,
    Ready,
    Result,
    WarningEvent,
)
from regatta_protocol.log import DRIVER

ITERATIONS = "iterations"
"""The units that are counted besides those of the progress, where a rank tells it."""

PHASES = ("sync", "launch", "rendezvous", "load", "compute", "collect", "total")
"""The phases of the contract, in the order in which a run passes through them."""

LABELS = {"total": "end to end", "compute": "compute"}
"""The two timers that verdicts are about, as tables and charts name them."""

TITLES = {"total": "end to end, as the user waits", "compute": "compute only"}

_MAX_WARNINGS = 100
_MAX_POINTS = 200
_MAX_NAMES = 100
"""Phases, and things with progress, of each rank."""
_MAX_REPETITIONS = 10_000
_MAX_FURTHER = 32
"""Ranks that are none of the run's."""

Number = Annotated[int, Meta(ge=0)] | Annotated[float, Meta(ge=0)]
"""Seconds, and whatever else is 0 or more; an integer stays one."""
Point = tuple[Number, Number, int | float | None]
"""Progress of a rank: seconds since its `ready` by its own clock, units done, and loss, or the like, if it has one."""


class Phases(Struct, frozen=True, forbid_unknown_fields=True):
    """Seconds a phase: sync + launch + rendezvous + load + compute + collect - overlap = total.

    None where the run did not get that far or its workload has no such phase.
    `overlap` is what the phases add up to beyond `total`. It is 0 where all ranks go through the phases together; it
    is more where the longest load and the longest compute were those of different ranks.
    """

    sync: Number | None = None
    launch: Number | None = None
    rendezvous: Number | None = None
    load: Number | None = None
    compute: Number | None = None
    collect: Number | None = None
    total: Number | None = None
    overlap: Number | None = None


@dataclass(frozen=True)
class RankClocks:
    """One rank: seconds a phase as measured there, each repetition of repeated ones, what it used, progress.

    `progress` maps what is counted (epochs, sources) to at most 200 points, evenly thinned where there were more.
    """

    rank: int
    phases: Mapping[str, float] = field(default_factory=dict)
    repetitions: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    peak_bytes: int | None = None
    progress: Mapping[str, tuple[Point, ...]] = field(default_factory=dict)
    cpu_seconds: float | None = None
    exchanged_bytes: int | None = None
    exchanges: int | None = None


class _Thinned:
    """Points in their order; when there are too many, every second one goes. The last one is always kept."""

    def __init__(self) -> None:
        self._kept: list[Point] = []
        self._last: Point | None = None
        self._every = 1
        self._seen = 0

    def add(self, point: Point) -> None:
        if self._seen % self._every == 0:
            self._kept.append(point)
            if len(self._kept) >= _MAX_POINTS:
                self._kept = self._kept[::2]
                self._every *= 2
        self._seen += 1
        self._last = point

    @property
    def points(self) -> tuple[Point, ...]:
        last = (self._last,) if self._last is not None and self._last != self._kept[-1] else ()
        return (*self._kept, *last)


class _Repeated:
    """The seconds of a phase: those of each repetition while there are not too many, and their sum."""

    def __init__(self) -> None:
        self.each: list[float] = []
        self.total = 0.0

    def add(self, seconds: float) -> bool:
        """Take in a repetition; whether there was space for it besides the others."""
        self.total += seconds
        room = len(self.each) < _MAX_REPETITIONS
        if room:
            self.each.append(seconds)
        return room


class Clocks:
    """Collects what one run does; may be fed by several threads.

    With `driver`, as under Ray, the driver speaks for its actors: it relays their events when it likes, so the moment
    at which all are ready is the arrival of the driver's own `ready`. Otherwise it is the arrival of the last
    `ready` of the ranks 0 to `world_size` - 1. Every other time comes from what a rank measured, never from an
    arrival, so both frameworks are timed by the same rule:

    - `launch` + `rendezvous`: from `start()` until all are ready; the longest `rendezvous` is split off.
    - `load`, `compute`: the longest of any rank (the driver counts as one); a phase that is repeated is summed.
    - `collect`: from the end of the last compute until `end()`. The last compute ends max(load + compute of a rank)
      after all are ready. Phases with names of the workload's own are in here unless they are part of other phases.
    - `total`: `sync` plus the time from `start()` to `end()`. `sync_seconds` must be set, and `start()` follow it.

    Hence sync + launch + rendezvous + load + compute + collect - overlap = total. A run that was attached to later has
    no `start()` on this controller, hence no launch, collect and total.
    """

    def __init__(self, world_size: int, *, driver: bool = False) -> None:
        self.world_size = world_size
        self.driver = driver
        self.sync_seconds: float | None = None
        self.result: Result | None = None
        self.error: ErrorEvent | None = None
        self.overhead: OverheadEvent | None = None
        self._start: float | None = None
        self._end: float | None = None
        self._ready: dict[int, float] = {}
        self._ready_there: dict[int, float] = {}
        self._progress: dict[int, dict[str, _Thinned]] = {}
        self._seconds: dict[int, dict[str, _Repeated]] = {}
        self._peak: dict[int, int] = {}
        self._cpu: dict[int, float] = {}
        self._exchanged: dict[int, tuple[int, int]] = {}
        self.chosen: dict[str, str] = {}
        self._warnings: dict[str, list[int]] = {}
        self._warnings_left_out = 0
        self._further: set[int] = set()
        self._left_out = 0
        self._lock = threading.Lock()

    def start(self, at: float | None = None) -> None:
        """The launch is requested now, or was at `at` (seconds of time.monotonic)."""
        self._start = time.monotonic() if at is None else at

    def end(self, at: float | None = None) -> None:
        """The run has ended as seen by the controller; only the first call counts."""
        if self._end is None:
            self._end = time.monotonic() if at is None else at

    def feed(self, event: Event, arrived: float) -> None:
        """Take in an event that reached the controller at `arrived` (seconds of time.monotonic)."""
        with self._lock:
            if not self._knows(event.rank):
                self._left_out += 1
                return
            match event:
                case Ready(rank=rank, t=t):
                    self._ready.setdefault(rank, arrived)
                    self._ready_there.setdefault(rank, t)
                case Progress():
                    self._take_progress(event)
                case Phase():
                    self._take_phase(event)
                case Memory() | Cpu() | Exchanged() | Chosen():
                    self._take_facts(event)
                case Result() if self.result is None:
                    self.result = event
                case Result(rank=rank):
                    self._warn(rank, "a second result was printed: the first one is kept")
                case OverheadEvent() if self.overhead is None:
                    self.overhead = event
                case WarningEvent(rank=rank, message=message):
                    self._warn(rank, message)
                case ErrorEvent() if self.error is None:
                    self.error = event

    def _take_facts(self, event: Memory | Cpu | Exchanged | Chosen) -> None:
        match event:
            case Memory(rank=rank, peak_bytes=peak):
                self._peak[rank] = max(peak, self._peak.get(rank, 0))
            case Cpu(rank=rank, seconds=seconds):
                self._cpu[rank] = max(seconds, self._cpu.get(rank, 0.0))
            case Exchanged(rank=rank, sent_bytes=sent, times=times):
                self._exchanged[rank] = sent, times
            case Chosen() if event.option in self.chosen or len(self.chosen) < _MAX_NAMES:
                self.chosen[event.option] = f"{event.value}: {event.why}"
            case Chosen():
                self._left_out += 1

    def _take_progress(self, event: Progress) -> None:
        told = (event.loss, event.residual, event.accuracy)
        value = next((value for value in told if value is not None), None)
        known = value if value is not None and math.isfinite(value) else None
        seconds = round(max(0.0, event.t - self._ready_there.setdefault(event.rank, event.t)), 3)
        points = self._progress.setdefault(event.rank, {})
        if self._room(points, event.what):
            points.setdefault(event.what, _Thinned()).add((seconds, event.done, known))
        if event.iterations is not None:
            points.setdefault(ITERATIONS, _Thinned()).add((seconds, event.iterations, None))

    def _take_phase(self, event: Phase) -> None:
        phases = self._seconds.setdefault(event.rank, {})
        if self._room(phases, event.name) and not phases.setdefault(event.name, _Repeated()).add(event.seconds):
            self._left_out += 1

    def _knows(self, rank: int) -> bool:
        """Whether a rank is one of the run's, or one of the first others that spoke."""
        if DRIVER <= rank < self.world_size or rank in self._further:
            return True
        if len(self._further) < _MAX_FURTHER:
            self._further.add(rank)
        return rank in self._further

    def _room(self, kept: Mapping[str, object], name: str) -> bool:
        """Whether what is kept of a rank has `name`, or space for it; else that is counted."""
        room = name in kept or len(kept) < _MAX_NAMES
        self._left_out += not room
        return room

    def _warn(self, rank: int, message: str) -> None:
        if message in self._warnings or len(self._warnings) < _MAX_WARNINGS:
            ranks = self._warnings.setdefault(message, [])
            if rank not in ranks:
                ranks.append(rank)
        else:
            self._warnings_left_out += 1

    @property
    def warnings(self) -> tuple[str, ...]:
        """Each message once, with the ranks that gave it; the first 100 messages."""
        with self._lock:
            lines = [message + _by(ranks) for message, ranks in self._warnings.items()]
            if self._warnings_left_out:
                lines.append(f"{self._warnings_left_out} more warnings are in the log")
            if self._left_out:
                lines.append(
                    f"{self._left_out} events are only in the log: a record keeps {_MAX_NAMES} names of phases and "
                    f"progress a rank, {_MAX_REPETITIONS} repetitions each, and {_MAX_FURTHER} ranks besides its own"
                )
            return tuple(lines)

    @property
    def ranks(self) -> tuple[RankClocks, ...]:
        """One entry a rank of the world, also where nothing came from it, and one a further rank that spoke."""
        with self._lock:
            known = sorted({*range(self.world_size), *self._seconds, *self._peak, *self._progress})
            return tuple(self._rank(rank) for rank in known)

    def _rank(self, rank: int) -> RankClocks:
        repetitions = self._seconds.get(rank, {})
        return RankClocks(
            rank,
            {name: seconds.total for name, seconds in repetitions.items()},
            {name: tuple(seconds.each) for name, seconds in repetitions.items() if len(seconds.each) > 1},
            self._peak.get(rank),
            {what: points.points for what, points in self._progress.get(rank, {}).items()},
            self._cpu.get(rank),
            *self._exchanged.get(rank, (None, None)),
        )

    def phases(self) -> Phases:
        """The phases as known now; see the class for their definition."""
        ranks = [r.phases for r in self.ranks]
        rendezvous, load, compute = (_longest(ranks, name) for name in ("rendezvous", "load", "compute"))
        ready = self._everybody_ready()
        launch = collect = total = overlap = None
        if self._start is not None and ready is not None:
            launch = max(0.0, ready - self._start - (rendezvous or 0.0))
        if self._end is not None and self._start is not None:
            total = (self.sync_seconds or 0.0) + self._end - self._start
            if ready is not None and compute is not None:
                work = max(r.get("load", 0.0) + r.get("compute", 0.0) for r in ranks)
                collect = max(0.0, self._end - ready - work)
        if total is not None and launch is not None and collect is not None:
            parts = (self.sync_seconds, launch, rendezvous, load, compute, collect)
            overlap = max(0.0, sum(p for p in parts if p is not None) - total)
        return Phases(self.sync_seconds, launch, rendezvous, load, compute, collect, total, overlap)

    def _everybody_ready(self) -> float | None:
        with self._lock:
            if self.driver:
                return self._ready.get(DRIVER)
            if any(rank not in self._ready for rank in range(self.world_size)):
                return None
            return max((self._ready[rank] for rank in range(self.world_size)), default=None)


def _longest(ranks: Iterable[Mapping[str, float]], name: str) -> float | None:
    return max((phases[name] for phases in ranks if name in phases), default=None)


def _by(ranks: list[int]) -> str:
    workers = sorted(rank for rank in ranks if rank != DRIVER)
    if not workers:
        return ""
    return f" (rank{'s' * (len(workers) > 1)} {', '.join(map(str, workers))})"
