"""Runs as lines of a list, whether the nodes know them, a record was kept of them, or both."""

import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from regatta.errors import UsageError
from regatta.records.record import Record
from regatta.text import clean, owner
from regatta_protocol.states import State

if TYPE_CHECKING:
    from regatta.run.catalogue import RunInfo

HEADINGS = (
    "run",
    "state",
    "framework",
    "ranks",
    "nodes",
    "started (UTC)",
    "took",
    "workload",
    "owner",
    "left",
    "record",
)
_AGE = re.compile(r"(\d+)([mhdw])\Z")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_BAD = {"failed", "lost", "cancelled"}


@dataclass(frozen=True)
class Line:
    """One run. `started` has a zone; `took` in seconds, None where it is not known; `workload` too.

    `left`: what it has left on the nodes, in words; `elsewhere`: the folder of its record, where that is not ours.
    """

    run: str
    state: str
    framework: str
    workload: str | None
    ranks: int
    nodes: tuple[str, ...]
    started: datetime
    took: float | None
    record: Record | None = None
    elsewhere: str | None = None
    left: str = "-"
    owner: str = ""

    def cells(self) -> tuple[str, ...]:
        """The row under `HEADINGS`."""
        took = "-" if self.took is None else f"{self.took:.1f} s"
        took += " (with others)" if self.record and self.record.others else ""
        began = self.started.strftime("%Y-%m-%d %H:%M:%S")
        kept = "yes" if self.record else self.elsewhere or "-"
        nodes = ",".join(self.nodes)
        return (
            self.run, self.state, self.framework, str(self.ranks), nodes, began, took, self.workload or "-",
            owner(self.owner) or "-", self.left, kept,
        )  # fmt: skip


SORTS: dict[str, Callable[[Line], Any]] = {
    "started": lambda line: line.started,
    "run": lambda line: line.run,
    "workload": lambda line: (line.workload or "", line.started),
    "framework": lambda line: (line.framework, line.started),
    "state": lambda line: (line.state, line.started),
    "took": lambda line: line.took or 0.0,
}
"""The keys by which runs can be sorted."""


@dataclass(frozen=True)
class Wanted:
    """Which runs; None: any. `failed` means every end but success."""

    workload: str | None = None
    framework: str | None = None
    since: datetime | None = None
    before: datetime | None = None
    failed: bool = False

    def fits(self, line: Line) -> bool:
        """Whether the run is one of those."""
        return (
            (self.workload is None or line.workload == self.workload)
            and (self.framework is None or line.framework == self.framework)
            and (self.since is None or line.started >= self.since)
            and (self.before is None or line.started < self.before)
            and (not self.failed or line.state in _BAD)
        )


def choose(lines: Iterable[Line], wanted: Wanted, sort: str = "started") -> list[Line]:
    """The runs that fit, sorted. UsageError for an unknown order."""
    if sort not in SORTS:
        raise UsageError(f"--sort takes {', '.join(SORTS)}, not '{sort}'")
    return sorted((line for line in lines if wanted.fits(line)), key=SORTS[sort])


def of_records(records: Iterable[Record]) -> list[Line]:
    """The lines of records."""
    return [
        Line(
            run=record.run_id,
            state=record.exit.state,
            framework=record.identity.framework,
            workload=record.identity.workload,
            ranks=len(record.cluster.rank_map),
            nodes=tuple(node.name for node in record.cluster.nodes),
            started=started(record),
            took=record.phases.total,
            record=record,
            owner=record.identity.owner or "",
        )
        for record in records
    ]


def of_nodes(known: "Sequence[RunInfo]", records: Iterable[Record], cluster: str) -> list[Line]:
    """Return what the nodes of a cluster know, and the records of runs that they know no longer.

    The end of a run is in its record's words, and its time by the controller's timer, with what came before
    the start; nodes are asked only about what still runs there.
    """
    kept = {record.run_id: record for record in records if record.cluster.name == cluster}
    lines = [
        Line(
            run=info.run,
            state=_state(info, kept.get(info.run)),
            framework=info.framework,
            workload=kept[info.run].identity.workload if info.run in kept else None,
            ranks=info.ranks,
            nodes=tuple(node.name for node in info.nodes),
            started=datetime.fromtimestamp(info.started, timezone.utc),
            took=_took(info, kept.get(info.run)),
            record=kept.pop(info.run, None),
            elsewhere=_place(info),
            owner=info.owner,
        )
        for info in known
    ]
    return [*of_records(kept.values()), *lines]


def _place(info: "RunInfo") -> str | None:
    """Return where who followed the run keeps its record, as far as the nodes know."""
    by = info.by
    return clean(f"{by.host or '?'}:{by.results}") if by and info.recorded and by.results else None


def project(info: "RunInfo") -> str:
    """Return whose a run is, as far as the nodes know: the machine and the folder of its project."""
    by = info.by
    return clean(f"{by.host or '?'}:{by.results.removesuffix('/results')}") if by and by.results else "-"


def _took(info: "RunInfo", record: Record | None) -> float:
    if record and record.phases.total is not None:
        return record.phases.total
    return (info.ended or time.time()) - info.started


def _state(info: "RunInfo", record: Record | None) -> str:
    if info.state is State.RUNNING or record is None:
        return info.state.recorded
    return record.exit.state


def started(record: Record) -> datetime:
    """When the run was asked for, to the second, by the controller's clock."""
    return datetime.fromisoformat(record.identity.started[:19]).replace(tzinfo=timezone.utc)


def moment(option: str, text: str | None, now: datetime | None = None) -> datetime | None:
    """A time given as an option: `2026-11-21`, `2026-11-21T10:00` (UTC), or an age: `30m`, `12h`, `3d`, `2w`."""
    if text is None:
        return None
    try:
        if age := _AGE.match(text):
            return (now or datetime.now(timezone.utc)) - timedelta(**{_UNITS[age[2]]: int(age[1])})
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except (ValueError, OverflowError):
        raise UsageError(
            f"--{option} takes a date (2026-11-21, 2026-11-21T10:00, UTC) or an age (30m, 12h, 3d, 2w), not '{text}'"
        ) from None
    return found if found.tzinfo else found.replace(tzinfo=timezone.utc)
