"""The charts of a report: what each draws of a case, and the rows that it draws."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from regatta.records.clocks import ITERATIONS, LABELS
from regatta.records.record import Record
from regatta.records.stats import Interval
from regatta.report import published, specs, theme
from regatta.report.cases import Case, Group
from regatta.report.regressions import Change
from regatta.report.specs import PHASES, Spec
from regatta.report.summary import CLOCKS, Summary
from regatta.report.timeline import rank_label, segments
from regatta.text import fit

Row = dict[str, Any]

SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
_MAX_LINES = 12
_MAX_CHANGES = 40
_MAX_CASES = 40
ACCURACY = "accuracy"
"""The units that trainings count when they test a model on its way."""
_DODGE = 0.04
"""The distance between points of the same number of ranks, so that none hides another."""


@dataclass(frozen=True)
class Chart:
    """A kind of chart: `rows` makes what a case has for it, none where there is nothing to draw."""

    kind: str
    title: str
    about: str
    spec: Spec
    rows: Callable[[Summary], list[Row]]


def with_rows(spec: Spec, rows: Sequence[Row]) -> Spec:
    """The whole specification, as Vega-Lite takes it."""
    coloured = specs.coloured(spec, {str(row["framework"]) for row in rows if "framework" in row})
    return {"$schema": SCHEMA, **coloured, "data": {"values": fitted(rows)}}


def fitted(rows: Sequence[Row]) -> list[Row]:
    """The rows, whose text does nothing to what stands beside it, such as to turn its direction round."""
    return [{name: fit(value) if isinstance(value, str) else value for name, value in row.items()} for row in rows]


def overview(summaries: Sequence[Summary]) -> list[Row]:
    """Median seconds end to end of the latest cases, a line for each number of ranks; and published ones of that size.

    Empty where there is one line only, which its own chart shows better.
    """
    latest = sorted(summaries, key=lambda summary: summary.case.latest)[-_MAX_CASES:]
    alike = Counter(_short_name(summary.case) for summary in latest)
    found = [
        row
        for summary in sorted(latest, key=_by_size)
        for row in _overview(summary, alike[_short_name(summary.case)] > 1)
    ]
    return found if len({row["what"] for row in found}) > 1 else []


def bars(summary: Summary) -> list[Row]:
    """Median seconds with interval, for each configuration and timer."""
    return [
        {
            "configuration": time.configuration.label,
            "framework": time.configuration.framework,
            "clock": time.clock,
            "seconds": time.seconds.value,
            **_bounds(time.seconds),
            "runs": time.seconds.n,
        }
        for time in summary.times
    ]


def shares(summary: Summary) -> list[Row]:
    """Median seconds of each phase, for each configuration."""
    return [
        {
            "configuration": group.configuration.label,
            "phase": phase,
            "place": place,
            "seconds": round(median(samples), 4),
        }
        for group in summary.case.groups
        if summary.case.shown(group.configuration)
        for place, phase in enumerate(PHASES)
        if (samples := group.seconds(phase))
    ]


def speedups(summary: Summary) -> list[Row]:
    """Speed-up and efficiency against one process, with interval; and the line that is as large as the ranks."""
    against = [ratio for ratio in summary.ratios if ratio.below.single]
    beside = [(name, clock) for name in theme.ordered(r.above.framework for r in against) for clock in CLOCKS]
    aside = {place: _DODGE * (index - (len(beside) - 1) / 2) for index, place in enumerate(beside)}
    found = [
        {
            "framework": ratio.above.framework,
            "workers": ratio.above.workers,
            "at": ratio.above.workers + aside[ratio.above.framework, ratio.clock],
            "clock": ratio.clock,
            "speedup": ratio.speedup.value,
            **_bounds(ratio.speedup),
            "efficiency": ratio.speedup.value / ratio.above.workers,
            "cores": "shared" if ratio.times.shared else "own",
            "runs": ratio.times.n,
        }
        for ratio in against
    ]
    ends = sorted({1, *(ratio.above.workers for ratio in summary.ratios)})
    return [*found, *({"at": workers, "workers": workers, "ideal": workers} for workers in ends)] if found else []


def efficiencies(summary: Summary) -> list[Row]:
    """Speed-up divided by ranks, with interval, where there are several numbers of ranks over which it changes."""
    found = [
        {**row, "low": row["low"] / row["workers"], "high": row["high"] / row["workers"]}
        for row in speedups(summary)
        if "efficiency" in row
    ]
    return found if len({row["workers"] for row in found}) > 1 else []


def repetitions(summary: Summary) -> list[Row]:
    """Seconds of each repetition of a repeated phase (an epoch, an iteration): median over runs of the longest rank."""
    return [row for group in summary.case.groups for row in _laps(group)]


def progress(summary: Summary) -> list[Row]:
    """Loss or residual over the seconds since a rank was ready: rank 0, or the first that told, of the latest run."""
    return [row for row in _told(summary) if row["what"] != ACCURACY]


def accuracies(summary: Summary) -> list[Row]:
    """The same of the accuracy, where a training was tested on its way."""
    return [row for row in _told(summary) if row["what"] == ACCURACY]


def iterations(summary: Summary) -> list[Row]:
    """Mean seconds of an iteration between two points of its progress: the slowest rank of the latest run."""
    return [row for group in summary.case.groups[:_MAX_LINES] if group.runs for row in _iterations(group)]


def memory(summary: Summary) -> list[Row]:
    """Resident memory of the largest rank in GiB, the median over runs, for each configuration."""
    return [
        {
            "configuration": group.configuration.label,
            "framework": group.configuration.framework,
            "gibibytes": round(median(samples) / 2**30, 4),
            "runs": len(samples),
        }
        for group in summary.case.groups
        if (samples := [run.peak_bytes for run in group.runs if run.peak_bytes is not None])
    ]


def timeline(record: Record) -> list[Row]:
    """Return what each rank of one run did, and when."""
    nodes = {rank.rank: rank.node for rank in record.ranks}
    return [
        {
            "rank": rank_label(segment.rank),
            "place": segment.rank,
            "node": nodes.get(segment.rank),
            "phase": segment.name,
            "start": round(segment.start, 4),
            "end": round(segment.end, 4),
            "seconds": round(segment.seconds, 4),
        }
        for segment in segments(record)
    ]


def regressions(found: Sequence[Change]) -> list[Row]:
    """The ratio of each change, with interval: the first 40 that have one."""
    drawn = [change for change in found if change.times.low is not None][:_MAX_CHANGES]
    return [
        {
            "what": f"{change.configuration.label} {LABELS[change.clock]}, {_short(change)}",
            "case": f"{change.case.workload}: {change.case.title}",
            "ratio": change.times.value,
            "low": change.times.low,
            "high": change.times.high,
            "verdict": change.verdict,
        }
        for change in drawn
    ]


def _by_size(summary: Summary) -> tuple[str, int, str]:
    return summary.case.workload, published.size(summary.case) or 0, summary.case.title


def _short_name(case: Case) -> str:
    size, unit = published.size(case), published.unit(case)
    return f"{case.workload}, {size:,} {unit}" if size else f"{case.workload}, {case.title}"


def _overview(summary: Summary, whole_name: bool) -> Iterator[Row]:
    case, theirs = summary.case, published.figures(summary.case)
    size = published.size(case)
    named = f"{case.workload}, {case.title}" if whole_name else _short_name(case)
    totals = (time for time in summary.times if time.clock == "total" and case.comparable(time.configuration))
    for time in sorted(totals, key=lambda t: t.configuration.order):
        ranks = time.configuration.workers
        what = {"what": f"{named}, {ranks} ranks", "framework": time.configuration.framework}
        yield {**what, "whose": "measured", "seconds": time.seconds.value, **_bounds(time.seconds)}
        figure = theirs.get(time.configuration)
        if figure and figure.size in (None, size):
            at = figure.seconds
            yield {**what, "whose": "published", "seconds": at, "low": at, "high": at}


def _bounds(found: Interval) -> Row:
    """The ends of an interval; a single sample is drawn as one of no length."""
    low = found.value if found.low is None else found.low
    return {"low": low, "high": found.value if found.high is None else found.high}


def _short(change: Change) -> str:
    title = f"{change.case.workload} {change.case.title}"
    return title if len(title) <= 20 else f"{title[:19]}…"


def _laps(group: Group) -> Iterator[Row]:
    found: dict[tuple[str, int], list[float]] = {}
    for run in group.runs:
        longest: dict[tuple[str, int], float] = {}
        for rank in run.ranks:
            for name, seconds in rank.repetitions.items():
                for index, value in enumerate(seconds, 1):
                    longest[name, index] = max(value, longest.get((name, index), 0.0))
        for place, value in longest.items():
            found.setdefault(place, []).append(value)
    for (name, index), values in found.items():
        yield {
            "configuration": group.configuration.label,
            "framework": group.configuration.framework,
            "what": name,
            "repetition": index,
            "seconds": round(median(values), 4),
            "low": min(values),
            "high": max(values),
            "runs": len(values),
        }


def _iterations(group: Group) -> Iterator[Row]:
    run = group.runs[-1]
    told = [rank for rank in run.ranks if ITERATIONS in rank.progress]
    if not told:
        return
    slowest = max(told, key=lambda rank: rank.phases.get("compute", 0.0))
    before, done = slowest.phases.get("load", 0.0), 0.0
    for seconds, count, _ in slowest.progress[ITERATIONS]:
        if count is not None and seconds is not None and count > done and seconds > before:
            yield {
                "configuration": group.configuration.label,
                "framework": group.configuration.framework,
                "iteration": count,
                "seconds": round((seconds - before) / (count - done), 6),
                "run": run.run_id,
            }
            before, done = seconds, count


def _told(summary: Summary) -> list[Row]:
    found = [list(_progress(group)) for group in summary.case.groups[:_MAX_LINES] if group.runs]
    return [row for line in found if len(line) > 1 for row in line]


def _progress(group: Group) -> Iterator[Row]:
    run = group.runs[-1]
    told = next((rank for rank in run.ranks if rank.progress), None)
    for what, points in told.progress.items() if told else ():
        for seconds, done, value in points:
            if value is not None:
                yield {
                    "configuration": group.configuration.label,
                    "framework": group.configuration.framework,
                    "what": what,
                    "seconds": seconds,
                    "done": done,
                    "value": value,
                    "run": run.run_id,
                }


def search_rows(summary: Summary) -> list[Row]:
    """The value of each trial, and the best one so far, of the latest run of each configuration that is a search."""
    return [row for group in summary.case.groups if group.runs for row in _of_search(group)]


def _of_search(group: Group) -> Iterator[Row]:
    answer = group.runs[-1].answer or {}
    values, metric = answer.get("values"), answer.get("metric")
    if not isinstance(metric, str) or not isinstance(values, list):
        return
    numbers = [(trial, value) for trial, value in enumerate(values, 1) if isinstance(value, int | float)]
    if len(numbers) < 2:
        return
    choose = max if answer.get("value") == max(value for _, value in numbers) else min
    best = numbers[0][1]
    for trial, value in numbers:
        best = choose(best, value)
        yield {
            "configuration": group.configuration.label,
            "framework": group.configuration.framework,
            "metric": metric,
            "trial": trial,
            "value": value,
            "best": best,
        }


CHARTS = (
    Chart(
        "bars",
        "Time",
        "Medians. Strong: end to end. Pale: compute. Line: 95 % interval. The sentences are of pairs of repeats, whose "
        "ratio may differ from that of medians.",
        specs.BARS,
        bars,
    ),
    Chart("phases", "Where the time goes", "Medians of the phases.", specs.SHARES, shares),
    Chart(
        "speedup",
        "Speed-up against one process",
        "Above the lower dashed line the cluster beats one process; the rising one is as many times as ranks. "
        "Pale: ranks share cores.",
        specs.SPEEDUPS,
        speedups,
    ),
    Chart(
        "efficiency",
        "Efficiency",
        "The share of the ideal: speed-up divided by ranks. Line: 95 % interval. Pale: ranks share cores.",
        specs.EFFICIENCY,
        efficiencies,
    ),
    Chart(
        "repetitions",
        "Epochs",
        "Each repetition: the slowest rank, median over runs, with the least and the greatest.",
        specs.LAPS,
        repetitions,
    ),
    Chart(
        "iterations",
        "Seconds of an iteration",
        "Means over half a second and more, of the slowest rank of the latest run; all sources of a rank at once.",
        specs.ITERATIONS,
        iterations,
    ),
    Chart("progress", "Loss or residual over time", "The latest run of each configuration.", specs.PROGRESS, progress),
    Chart(
        "accuracy",
        "Accuracy over time",
        "On what a training was tested on, of the latest run of each configuration.",
        specs.ACCURACY,
        accuracies,
    ),
    Chart(
        "search",
        "Trials of the search",
        "The result of each trial, and the best until then, of the latest run of each configuration.",
        specs.SEARCH,
        search_rows,
    ),
    Chart("memory", "Memory", "Resident memory of the largest rank, medians.", specs.MEMORY, memory),
)
"""The charts of each case."""
