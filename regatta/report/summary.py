"""Summaries of the runs of a case: medians and ratios with their intervals."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from regatta.records import compare, stats, trends
from regatta.records.stats import Interval
from regatta.report.cases import Case, Configuration, Group

CLOCKS = ("total", "compute")
"""End to end, and compute; see `clocks.TITLES`."""


@dataclass(frozen=True)
class Time:
    """A configuration's median seconds by one timer."""

    configuration: Configuration
    clock: str
    seconds: Interval


@dataclass(frozen=True)
class Ratio:
    """The time of `above` compared with `below`, by one timer."""

    above: Configuration
    below: Configuration
    clock: str
    times: stats.Ratio
    trend: trends.Trend
    """Of the ratios of its pairs, over the repeats."""

    @property
    def speedup(self) -> stats.Ratio:
        """The same the other way round: how many times as fast `above` was."""
        return self.times.inverse


@dataclass(frozen=True)
class Summary:
    """Everything that is computed of a case; times only where the answers are equal, or where there are none."""

    case: Case
    times: tuple[Time, ...]
    ratios: tuple[Ratio, ...]

    @cached_property
    def unsteady(self) -> tuple[tuple[Configuration, trends.Trend], ...]:
        """The configurations whose latest series of repeats has a trend, end to end."""
        groups = [group for group in self.case.groups if self.case.shown(group.configuration)]
        found = [(group.configuration, trends.trend(group.latest(CLOCKS[0]))) for group in groups]
        return tuple((configuration, trend) for configuration, trend in found if not trend.steady)

    @cached_property
    def told(self) -> tuple[Ratio, ...]:
        """Its ratios; with many frameworks only those to one process, and to the fastest with as many ranks."""
        others: dict[int, dict[Configuration, float]] = {}
        for time in self.times:
            if time.clock == CLOCKS[0] and not time.configuration.single:
                others.setdefault(time.configuration.workers, {})[time.configuration] = time.seconds.value
        fastest = {min(own, key=lambda one: own[one]) for own in others.values()}
        few = {workers for workers, own in others.items() if len(own) <= compare.MOST_PAIRED}
        return tuple(
            one
            for one in self.ratios
            if one.below.single or one.above.workers in few or {one.above, one.below} & fastest
        )

    @cached_property
    def compared(self) -> frozenset[Configuration]:
        """The configurations that are compared with others."""
        return frozenset(side for one in self.ratios for side in (one.above, one.below))

    def cores_shared(self, configuration: Configuration) -> bool:
        """Whether ranks of a configuration had to share cores in some run."""
        group = self.case.group(configuration.framework, configuration.workers)
        return group is not None and any(run.cores_shared for run in group.runs)

    def time(self, configuration: Configuration, clock: str) -> Interval | None:
        """The median of a configuration; None where it may not be shown."""
        wanted = (configuration, clock)
        return next((t.seconds for t in self.times if (t.configuration, t.clock) == wanted), None)


def summarise(cases: Sequence[Case], at_least: float = stats.AT_LEAST) -> tuple[Summary, ...]:
    """The summary of each case; `at_least`: the part that a difference must have to matter."""
    samples = [(case, *place) for case in cases for place in _samples(case)]
    medians = stats.medians([seconds for _, _, _, seconds in samples])
    pairs = [(case, *place) for case in cases for place in _pairs(case)]
    sides = [([pair.base for pair in found], [pair.other for pair in found]) for *_, found in pairs]
    ratios = stats.ratios(sides, at_least, [looks for *_, looks, _ in pairs])
    times: dict[int, list[Time]] = {}
    for (case, configuration, clock, _), found in zip(samples, medians, strict=True):
        times.setdefault(id(case), []).append(Time(configuration, clock, found))
    compared: dict[int, list[Ratio]] = {}
    for (case, above, below, clock, shared, _, own), found in zip(pairs, ratios, strict=True):
        over = trends.trend([pair.other / pair.base for pair in own])
        judged = compare.over_levels(replace(found, shared=shared), own)
        compared.setdefault(id(case), []).append(Ratio(above, below, clock, judged, over))
    return tuple(Summary(case, tuple(times.get(id(case), ())), tuple(compared.get(id(case), ()))) for case in cases)


def _samples(case: Case) -> Iterator[tuple[Configuration, str, list[float]]]:
    for group in case.groups:
        if case.shown(group.configuration):
            for clock in CLOCKS:
                if seconds := group.seconds(clock):
                    yield group.configuration, clock, seconds


def _sides(groups: Sequence[Group]) -> Iterator[tuple[Group, Group]]:
    """Which are compared: each with the single process, then with those behind it; groups are in their order."""
    others = [group for group in groups if not group.configuration.single]
    yield from ((one, group) for one in others for group in groups if group.configuration.single)
    yield from itertools.combinations(others, 2)


def _pairs(case: Case) -> Iterator[tuple[Configuration, Configuration, str, bool, int, list[compare.Pair]]]:
    for workers, comparison in case.comparisons.items():
        if not comparison.comparable:
            continue
        for one, other in _sides([group for group in case.groups if group.configuration.workers == workers]):
            if not (one.answered and other.answered):
                continue
            shared, looks = compare.unlike(other.runs, one.runs), compare.looks(other.runs, one.runs)
            for clock in CLOCKS:
                if pairs := compare.pairs((*other.runs, *other.beside), (*one.runs, *one.beside), clock):
                    yield one.configuration, other.configuration, clock, shared, looks, pairs
