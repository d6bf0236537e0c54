"""A framework's share of the runs by its own log: in sentences of one run, and as a table of cases."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from regatta.records import stats
from regatta.records.record import Overhead
from regatta.report import texts
from regatta.report.cases import Group
from regatta.report.summary import Summary
from regatta.report.tables import Table, row_title

_NOTE = (
    "By the log of the framework itself. Share of the driver: of the seconds from its asking for the framework until "
    "it had left it, those that were neither its own program's nor in a task. Share of tasks: of the time of all tasks "
    "together as the driver saw them, what was not spent running them; where tasks are Python, its worker's start and "
    f"what goes between it and the JVM count as running. Medians, 95 % intervals from {stats.LEAST_PAIRS} runs on."
)


def words(told: Overhead) -> tuple[str, ...]:
    """One run's, in sentences."""
    of = f"{told.stages} stages, {told.tasks} tasks" + (f" ({told.failed} of them failed)" if told.failed else "")
    cut = "" if told.whole else "; the log was not read to its end, so that there was more"
    lines = [f"By {told.source}: {told.jobs} jobs, {of}{cut}."]
    for parts, whose in ((told.wall, "the driver's"), (told.work, "the tasks'")):
        share = told.share(parts)
        if share is not None:
            every = texts.seconds(sum(parts.values()))
            lines.append(
                f"Of {whose} {every} the framework's own are {share:.0%}: {_listed(parts)}.".replace("%", " %")
            )
    if sum(told.within.values()):
        lines.append(f"Within the tasks' running: {_listed(told.within)}.")
    return tuple(lines)


def tables(summaries: Sequence[Summary]) -> Iterator[Table]:
    """For each workload whose runs tell it: the framework's own share of each configuration."""
    for workload, chosen in groupby(summaries, lambda summary: summary.case.workload):
        beside = list(chosen)
        rows = [
            (row_title(summary.case, beside), group.configuration.label, *_cells(_told(group)))
            for summary in beside
            for group in summary.case.groups
            if _told(group) and summary.case.shown(group.configuration)
        ]
        if rows:
            yield Table(
                f"{workload}-own-share",
                f"{workload}: the framework's own share",
                ("case", "configuration", "jobs", "tasks", "share of the driver", "share of tasks", "driver", "tasks'"),
                tuple(rows),
                _NOTE,
                grouped=True,
            )


def _told(group: Group) -> list[Overhead]:
    return [run.overhead for run in group.runs if run.overhead]


def _cells(told: Sequence[Overhead]) -> Iterator[str]:
    for name in ("jobs", "tasks"):
        counts = sorted({getattr(one, name) for one in told})
        yield " to ".join(f"{count:,}" for count in dict.fromkeys((counts[0], counts[-1])))
    for parts in ("wall", "work"):
        shares = [share for one in told if (share := one.share(getattr(one, parts))) is not None]
        yield texts.percent(stats.medians([shares])[0]) if shares else "–"
    for parts in ("wall", "work"):
        yield _listed(_medians([getattr(one, parts) for one in told])) or "–"


def _medians(every: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(name for parts in every for name in parts)
    return {name: stats.medians([[parts.get(name, 0.0) for parts in every]])[0].value for name in names}


def _listed(parts: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {texts.seconds(seconds)}" for name, seconds in parts.items())
