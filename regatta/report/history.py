"""The history of each configuration: its sessions over months, where its speed changed, gaps and other machines."""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from regatta.records import trends
from regatta.records.record import Record
from regatta.report import regressions, specs, texts
from regatta.report.across import Picture, Row
from regatta.report.cases import Case, Configuration, Group
from regatta.report.tables import Table

_CLOCK = "total"
_LONG = 4
"""A gap is so many times as long as the median time between sessions, and at least `_LEAST_DAYS`."""
_LEAST_DAYS = 2
_NOTE = (
    "End to end. A session is one series of repeats, or the single runs of a day; its median is one value. Times "
    "changed where a split of the sessions is too good for a random order (a permutation test, 5 % for each history). "
    f"A gap is {_LONG} times as long as usual. A slow drift shows as changes."
)


@dataclass(frozen=True)
class Session:
    """Runs of a configuration that belong together: the day of the first, and the median of their seconds."""

    day: str
    seconds: float
    runs: tuple[Record, ...]


@dataclass(frozen=True)
class Change:
    """From `session` on, the times were `ratio` times as long as since the change before. `note`: what else changed."""

    session: Session
    ratio: float
    note: str


@dataclass(frozen=True)
class History:
    """The sessions of a configuration, earliest first; `gaps` are (last day before, first day after)."""

    case: Case
    configuration: Configuration
    sessions: tuple[Session, ...]
    changes: tuple[Change, ...]
    gaps: tuple[tuple[str, str], ...]
    machines: tuple[str, ...]
    """The days on which other machines began."""

    @property
    def words(self) -> Iterator[str]:
        """What happened, in sentences."""
        for change in self.changes:
            took = f"{change.ratio:.2f} times as long as before"
            yield f"took {took} from {change.session.day} on{f' ({change.note})' if change.note else ''}"
        if not self.changes:
            few = len(self.sessions) < trends.LEAST_SESSIONS
            yield f"too few sessions, {trends.LEAST_SESSIONS} are needed" if few else "no change is shown"
        yield from (f"no session from {before} to {after}" for before, after in self.gaps)
        yield from (f"other machines from {day} on" for day in self.machines)

    @property
    def line(self) -> str:
        """All of it, for a terminal."""
        many = f"{len(self.sessions)} {'session' if len(self.sessions) == 1 else 'sessions'}"
        where = f"{self.case.workload} {self.case.title} on {self.case.cluster}, {self.configuration.label}"
        return f"{where}: {many} since {self.sessions[0].day}: {'; '.join(self.words)}"


def histories(cases: Sequence[Case]) -> tuple[History, ...]:
    """The history of each configuration whose times may be shown."""
    groups = [(case, group) for case in cases for group in case.groups if case.shown(group.configuration)]
    return tuple(found for case, group in groups if (found := _of(case, group)))


def table(found: Sequence[History]) -> Table:
    """A row for each history."""
    rows = tuple(
        (
            f"{one.case.workload}: {one.case.title} ({one.case.cluster})",
            one.configuration.label,
            str(len(one.sessions)),
            f"{one.sessions[0].day} to {one.sessions[-1].day}",
            texts.seconds(one.sessions[-1].seconds),
            "; ".join(one.words),
        )
        for one in found
    )
    columns = ("case", "configuration", "sessions", "days", "latest", "what happened")
    return Table("history", "History", columns, rows, _NOTE, grouped=True)


def pictures(found: Sequence[History]) -> Iterator[Picture]:
    """For each case with more than one session a chart of them, with the levels between changes."""
    by_case: dict[int, list[History]] = {}
    for one in found:
        if len(one.sessions) > 1:
            by_case.setdefault(id(one.case), []).append(one)
    for number, mine in enumerate(by_case.values(), 1):
        case = mine[0].case
        yield Picture(
            "history",
            f"history-{number}",
            f"{case.workload}, {case.title} ({case.cluster}): history",
            "End to end, median of each session. Lines: median between changes that are shown.",
            specs.HISTORY,
            tuple(row for one in mine for row in _rows(one)),
        )


def _of(case: Case, group: Group) -> History | None:
    sessions = _sessions(group)
    if not sessions:
        return None
    values = [one.seconds for one in sessions]
    marks = trends.changes(values)
    bounds = [0, *marks, len(values)]
    levels = [statistics.median(values[low:high]) for low, high in pairwise(bounds)]
    changes = tuple(
        Change(sessions[mark], levels[place + 1] / levels[place], _note(sessions[mark - 1], sessions[mark]))
        for place, mark in enumerate(marks)
    )
    pairs = list(pairwise(sessions))
    apart = [_days(before, after) for before, after in pairs]
    usual = max(_LEAST_DAYS, _LONG * statistics.median(apart)) if apart else 0.0
    gaps = [(before.day, after.day) for (before, after), days in zip(pairs, apart, strict=True) if days > usual]
    moved = [b.day for a, b in pairs if regressions.machines(a.runs) != regressions.machines(b.runs)]
    return History(case, group.configuration, tuple(sessions), changes, tuple(gaps), tuple(moved))


def _sessions(group: Group) -> list[Session]:
    """The runs of a group by their series, those without one by day."""
    found: dict[str, list[Record]] = {}
    for run in () if group.crowded else (*group.once, *group.runs):
        if run.phases.total:
            found.setdefault(run.series.label if run.series else run.identity.started[:10], []).append(run)
    made = [
        Session(runs[0].identity.started[:10], statistics.median(run.phases.total or 0.0 for run in runs), tuple(runs))
        for runs in found.values()
    ]
    return sorted(made, key=lambda one: one.runs[0].identity.started)


def _note(before: Session, after: Session) -> str:
    return regressions.note(after.runs, before.runs)


def _days(before: Session, after: Session) -> float:
    first, second = (datetime.fromisoformat(one.runs[0].identity.started[:19]) for one in (before, after))
    return (second - first).total_seconds() / 86_400


def _rows(one: History) -> Iterator[Row]:
    marks = [change.session for change in one.changes]
    starts = [0, *(one.sessions.index(mark) for mark in marks)]
    for place, session in enumerate(one.sessions):
        stretch = sum(start <= place for start in starts)
        low, high = starts[stretch - 1], (*starts, len(one.sessions))[stretch]
        yield {
            "configuration": one.configuration.label,
            "framework": one.configuration.framework,
            "day": session.runs[0].identity.started,
            "seconds": session.seconds,
            "level": statistics.median(each.seconds for each in one.sessions[low:high]),
            "stretch": stretch,
            "runs": len(session.runs),
        }
