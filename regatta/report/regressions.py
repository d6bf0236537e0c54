"""Changes of speed since an earlier set of records."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from regatta.records import stats
from regatta.records.clocks import LABELS
from regatta.records.record import Record
from regatta.report import texts
from regatta.report.cases import Case, Configuration, Group
from regatta.report.summary import CLOCKS


@dataclass(frozen=True)
class Change:
    """One configuration of a case by one timer: seconds before and now, and their ratio (now / before)."""

    case: Case
    configuration: Configuration
    clock: str
    before: stats.Interval
    now: stats.Interval
    times: stats.Ratio
    note: str = ""

    @property
    def verdict(self) -> stats.Verdict:
        """Whether the interval says that it became slower or faster."""
        return self.times.verdict

    @property
    def sentence(self) -> str:
        """Which, and by how much."""
        took = f"{texts.seconds(self.before.value)} -> {texts.seconds(self.now.value)}"
        where = f"{self.case.workload} {self.case.title}, {self.configuration.label}, {LABELS[self.clock]}"
        return f"{where}: {took}, {texts.times(self.times)} times as long as before"


def changes(now: Sequence[Case], before: Sequence[Case], at_least: float = stats.AT_LEAST) -> tuple[Change, ...]:
    """Every configuration that both sets have, those that became slower first; `at_least`: see `stats.Ratio`."""
    earlier = {case.key: case for case in before}
    pairs = [pair for case in now if case.key in earlier for pair in _pairs(case, earlier[case.key])]
    old = stats.medians([olds for _, _, _, _, olds in pairs])
    new = stats.medians([seconds for _, _, _, seconds, _ in pairs])
    ratios = stats.unpaired([(olds, seconds) for _, _, _, seconds, olds in pairs], at_least)
    found = [
        Change(case, group.configuration, clock, median_old, median, times, _note(group, _of(earlier[case.key], group)))
        for (case, group, clock, _, _), median_old, median, times in zip(pairs, old, new, ratios, strict=True)
    ]
    order: tuple[stats.Verdict, ...] = ("slower", "faster", "equal", "no difference shown", "too few runs")
    return tuple(sorted(found, key=lambda change: (order.index(change.verdict), -change.times.value)))


def _pairs(case: Case, earlier: Case) -> Iterator[tuple[Case, Group, str, list[float], list[float]]]:
    for group in case.groups:
        old = _of(earlier, group)
        if not (case.comparable(group.configuration) and earlier.comparable(group.configuration)):
            continue
        if group.crowded or (old and old.crowded):
            continue
        for clock in CLOCKS:
            samples, olds = group.seconds(clock), old.seconds(clock) if old else []
            if samples and olds and min(*samples, *olds) > 0:
                yield case, group, clock, samples, olds


def _of(earlier: Case, group: Group) -> Group | None:
    return earlier.group(group.configuration.framework, group.configuration.workers)


def _note(group: Group, old: Group | None) -> str:
    """Return what else is not the same."""
    return note(group.runs, old.runs) if old else ""


def note(now: Sequence[Record], before: Sequence[Record]) -> str:
    """What of the conditions of two sets of runs is not the same, and whether their code is."""
    differs: list[str] = []
    if machines(now) != machines(before):
        differs.append("other machine")
    if _versions(now) != _versions(before):
        differs.append("other versions")
    if {run.identity.release for run in now} == {run.identity.release for run in before}:
        differs.append("same release")
    return ", ".join(differs)


def machines(runs: Sequence[Record]) -> set[tuple[str | None, int | None, int]]:
    """Processor and cores of the hosts that runs used, and how many hosts there were."""
    return {(node.cpu, node.cores, len(run.cluster.nodes)) for run in runs for node in run.cluster.nodes}


def _versions(runs: Sequence[Record]) -> set[object]:
    return {frozenset(node.versions.items()) for run in runs for node in run.cluster.nodes}
