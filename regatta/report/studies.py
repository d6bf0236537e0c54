"""Studies: cases of one experiment that differ only in the number of ranks, and in the batch that these share.

Which option is the batch, its card says: a number that each rank takes, of which plans know a total. One of the kind
`ranks` says that something else grows with them (the learning rate).
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from regatta.cards.card import Card
from regatta.records.record import Record
from regatta.report import published, theme
from regatta.report.cases import Case, Configuration, Group, card_of, describe
from regatta.report.summary import Summary


@dataclass(frozen=True, eq=False)
class Point:
    """A configuration of a study: a batch has `batch` rows of each rank; `scaled`: something grew with the ranks."""

    configuration: Configuration
    batch: int
    scaled: bool
    summary: Summary
    group: Group

    @property
    def total(self) -> int:
        """Rows of a batch, of all ranks together."""
        return self.batch * self.configuration.workers

    @property
    def runs(self) -> tuple[Record, ...]:
        """Those whose times count."""
        return self.group.runs

    @property
    def threads(self) -> int | None:
        """Return how many threads each rank had; None where no run tells."""
        return max((run.speed.threads for run in self.runs if run.speed.threads), default=None)

    @property
    def nodes(self) -> int:
        """Return how many nodes its ranks were on."""
        return max(len({*run.cluster.rank_map}) for run in self.runs)


@dataclass(frozen=True)
class Series:
    """The points of one framework over ranks, fewest first: with a batch that all share, or one that `grows`."""

    framework: str
    grows: bool
    batch: int
    scaled: bool
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Study:
    """A request to a workload but for ranks and batch, and all its points."""

    workload: str
    title: str
    points: tuple[Point, ...]

    @property
    def frameworks(self) -> list[str]:
        """Those that spread the work, in their order."""
        return theme.ordered({p.configuration.framework for p in self.points if not p.configuration.single})

    @property
    def synthetic(self) -> bool:
        """Whether a run's data are synthetic: then its accuracy shows nothing."""
        return any((run.answer or {}).get("synthetic") is True for point in self.points for run in point.runs)

    def series(self, framework: str) -> list[Series]:
        """The series of a framework that have several numbers of ranks: those of a fixed batch first."""
        own = [point for point in self.points if point.configuration.framework == framework]
        found: dict[tuple[bool, int, bool], list[Point]] = {}
        for point in own:
            if not point.scaled:
                found.setdefault((False, point.total, False), []).append(point)
            found.setdefault((True, point.batch, point.scaled), []).append(point)
        return [
            Series(framework, grows, batch, scaled, tuple(sorted(some, key=lambda point: point.configuration.workers)))
            for (grows, batch, scaled), some in sorted(found.items())
            if len({point.configuration.workers for point in some}) > 1
        ]


def studies(summaries: Sequence[Summary]) -> list[Study]:
    """The studies among the cases: those in which some framework has a series."""
    found: dict[tuple[str, str, str], list[Point]] = {}
    titles: dict[tuple[str, str, str], str] = {}
    for summary in summaries:
        card = card_of(summary.case.workload)
        batch = _batch_of(card) if card else None
        if card and batch:
            key, rest = _key(summary.case, card, batch)
            found.setdefault(key, []).extend(_points(summary, card, batch))
            titles.setdefault(key, rest)
    made = [Study(key[0], titles[key], tuple(points)) for key, points in found.items() if points]
    return [study for study in made if any(study.series(framework) for framework in study.frameworks)]


def _batch_of(card: Card) -> str | None:
    return next((name for name, option in card.options.items() if option.each_rank and option.total), None)


def _growing(card: Card) -> set[str]:
    return {name for name, option in card.options.items() if option.kind == "ranks"}


def _given(case: Case) -> dict[str, str]:
    return {name.replace("-", "_"): value for name, value in published.options_of(case).items()}


def _key(case: Case, card: Card, batch: str) -> tuple[tuple[str, str, str], str]:
    """Return what all cases of a study have in common; and the same for a person."""
    left = {name: value for name, value in _given(case).items() if name not in {batch, *_growing(card)}}
    rest = {name: value for name, value in case.parameters.items() if name != "options"}
    words = [f"{name.replace('_', '-')}={value}" if value else name for name, value in left.items()]
    title = describe({**rest, "options": words}, case.workload)
    return (case.workload, case.cluster, json.dumps([rest, sorted(left.items())], sort_keys=True)), title


def _points(summary: Summary, card: Card, batch: str) -> Iterator[Point]:
    given = _given(summary.case)
    told = given.get(batch, str(card.options[batch].default))
    if not told.isdecimal():
        return
    for group in summary.case.groups:
        if summary.time(group.configuration, "total") is not None and not group.crowded:
            yield Point(group.configuration, int(told), bool(_growing(card) & given.keys()), summary, group)
