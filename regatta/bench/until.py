"""Which points of a plan continue: a bench with `--until` repeats a point until its intervals are narrow enough."""

import math
from collections.abc import Iterator, Sequence

from regatta.bench import order
from regatta.bench.findings import Finding, findings
from regatta.bench.order import Entry
from regatta.experiments.plans import BenchPlan, Point
from regatta.records import stats
from regatta.records.record import Record

CLOCK = "total"


def left(plan: BenchPlan, entries: Sequence[Entry], records: Sequence[Record]) -> tuple[Entry, ...]:
    """The `entries` that are still to run, by what is recorded of the set; all of them without `until`."""
    if plan.until is None:
        return tuple(entries)
    points = {entry.point.name: entry.point for entry in entries}
    last = {name: _last(plan, point, records) for name, point in points.items()}
    return tuple(entry for entry in entries if entry.warm_up or entry.repeat <= last[entry.point.name])


def lines(plan: BenchPlan, points: Sequence[Point], records: Sequence[Record]) -> Iterator[str]:
    """How narrow the intervals of each point are after its latest look, and how many pairs the rest would take."""
    for point in points if plan.until is not None else ():
        pairs = _pairs(plan, point, records)
        passed = [look for look in stats.looks(plan.repeats) if look <= pairs]
        widest = _widest(point, records, passed[-1]) if passed else None
        if plan.until is None or widest is None:
            continue
        said = f"{point.name}: ratios are known to {100 * widest:.1f} % after {passed[-1]} pairs"
        if widest > plan.until and math.isfinite(widest):
            wanted = math.ceil(passed[-1] * (widest / plan.until) ** 2)
            more = f", more than --max-repeats {plan.repeats}" if wanted > plan.repeats else ""
            said += f"; {100 * plan.until:g} % would take about {wanted:,} pairs{more}"
        yield said


def _last(plan: BenchPlan, point: Point, records: Sequence[Record]) -> int:
    """The number of repeats that the point gets, as far as its looks until now tell."""
    pairs = _pairs(plan, point, records)
    for look in stats.looks(plan.repeats):
        if look > pairs:
            break
        widest = _widest(point, records, look)
        if widest is None or (plan.until is not None and widest <= plan.until):
            return look
    return plan.repeats


def _pairs(plan: BenchPlan, point: Point, records: Sequence[Record]) -> int:
    """The number of repeats until which all runs of the point have ended."""
    ended = order.recorded(records)
    repeats = range(1, plan.repeats + 1)
    whole = (all((point.name, one, repeat, False) in ended for one in point.frameworks) for repeat in repeats)
    return next((repeat for repeat, one in enumerate(whole) if not one), plan.repeats)


def _widest(point: Point, records: Sequence[Record], pairs: int) -> float | None:
    """The width of the widest interval of its first `pairs`; None where nothing is compared, and nothing to wait for.

    Infinite where there are too few pairs for an interval.
    """
    first = [run for run in records if run.series and run.series.index <= pairs]
    (found,) = findings([point], first)
    ratios = _compared(found)
    return max((math.inf if one.width is None else one.width for one in ratios), default=None)


def _compared(found: Finding) -> list[stats.Ratio]:
    if found.comparison is None or not found.comparison.comparable:
        return []
    return [ratio for _, _, ratio in found.ratios(CLOCK)]
