"""In which order the runs of a plan come, and which of them are recorded already."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from regatta.experiments.plans import BenchPlan, Point
from regatta.records import stats
from regatta.records.record import Record, Series


@dataclass(frozen=True)
class Entry:
    """One run of a plan; `repeat` counts from 1, warm-ups by themselves."""

    point: Point
    framework: str
    repeat: int
    warm_up: bool

    @property
    def key(self) -> tuple[str, str, int, bool]:
        """Return what no other run of the plan has."""
        return (self.point.name, self.framework, self.repeat, self.warm_up)

    def series(self, plan: BenchPlan, set_: str) -> Series:
        """The run's place as its record keeps it; those that are compared have the same label."""
        label = f"{set_}/{self.point.name}" + ("/warm-up" if self.warm_up else "")
        total = plan.warm_ups if self.warm_up else plan.repeats
        return Series(
            label,
            self.repeat,
            total,
            plan.name,
            set_,
            self.point.name,
            self.warm_up,
            self.point.published.get(self.framework),
            self.point.published_size.get(self.framework),
            len(stats.looks(plan.repeats)) if plan.until is not None else 1,
        )


def ordered(plan: BenchPlan, points: Sequence[Point]) -> tuple[Entry, ...]:
    """All runs, round after round; warm-ups are the first rounds.

    A round has every point once under each framework. The points come in a random order, and within a point the
    frameworks, one after the other: what a repeat is paired with runs right next to it, and a drift of the machine
    hits all alike. The plan's seed decides, and a round does not depend on how many there are.
    """
    found = []
    for warm_up, rounds in ((True, plan.warm_ups), (False, plan.repeats)):
        for repeat in range(1, rounds + 1):
            dice = random.Random(f"{plan.seed}/{'warm-up' if warm_up else 'repeat'}/{repeat}")
            for point in dice.sample(points, len(points)):
                frameworks = dice.sample(point.frameworks, len(point.frameworks))
                found += [Entry(point, framework, repeat, warm_up) for framework in frameworks]
    return tuple(found)


def key_of(record: Record) -> tuple[str, str, int, bool] | None:
    """Which run of a plan the record is of; None where it is of none."""
    series = record.series
    if series is None or series.point is None:
        return None
    return (series.point, record.identity.framework, series.index, series.warm_up)


def recorded(records: Sequence[Record], *, retry: bool = False) -> set[tuple[str, str, int, bool]]:
    """The runs that need not be repeated: all that have ended by themselves, or (`retry`) that have succeeded.

    A run that a person cancelled, also by Ctrl-C, is no result.
    """
    ended = {"succeeded"} if retry else {"succeeded", "failed", "lost"}
    return {key for record in records if record.exit.state in ended and (key := key_of(record)) is not None}
