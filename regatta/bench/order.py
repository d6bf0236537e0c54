"""In which order the runs of a plan come, and which of them are recorded already."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from regatta.experiments.plans import BenchPlan, Point
from regatta.records.record import Record, Series


@dataclass(frozen=True)
class Entry:
    """One run of a plan; `repeat` counts from 1, warm-ups by themselves. `half` of the cores and number of the `duet`:
    of runs at the same moment, else None.
    """

    point: Point
    framework: str
    repeat: int
    warm_up: bool
    half: int | None = None
    duet: int | None = None

    @property
    def key(self) -> tuple[str, str, int, bool]:
        """Return what no other run of the plan has."""
        return (self.point.name, self.framework, self.repeat, self.warm_up)

    def series(self, plan: BenchPlan, set_: str, partner: str | None = None) -> Series:
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
            plan.until,
            partner,
            self.half,
            plan.shuffled,
            (plan.about or None) if len(plan.experiments) == 1 else None,
        )

    def hosts(self, plan: BenchPlan, names: Sequence[str]) -> tuple[str, ...]:
        """The hosts in the order in which they get ranks: the same for all runs of a pair."""
        if not plan.shuffled:
            return tuple(names)
        kind = "warm-up" if self.warm_up else "hosts"
        dice = random.Random(f"{plan.seed}/{kind}/{self.point.name}/{self.duet or self.repeat}")
        return tuple(dice.sample(sorted(names), len(names)))


def ordered(plan: BenchPlan, points: Sequence[Point]) -> tuple[Entry, ...]:
    """All runs, round after round; warm-ups are the first rounds; those of a duet follow each other.

    A round has every point once under each framework. The points come in a random order, and within a point the
    frameworks, one after the other: what a repeat is paired with runs right next to it, and a drift of the machine
    hits all alike. The plan's seed decides, and a round does not depend on how many there are.
    """
    if plan.duet:
        return tuple(_duets(plan, points))
    found = []
    for warm_up, rounds in ((True, plan.warm_ups), (False, plan.repeats)):
        for repeat in range(1, rounds + 1):
            dice = random.Random(f"{plan.seed}/{'warm-up' if warm_up else 'repeat'}/{repeat}")
            for point in dice.sample(points, len(points)):
                frameworks = dice.sample(point.frameworks, len(point.frameworks))
                found += [Entry(point, framework, repeat, warm_up) for framework in frameworks]
    return tuple(found)


def _duets(plan: BenchPlan, points: Sequence[Point]) -> Iterator[Entry]:
    """All runs of a plan of duets: chance decides who has which half of the cores, and the next time they change.

    The same framework twice has two repeats in each duet.
    """
    same = len({*plan.duet}) == 1
    for warm_up, rounds in ((True, plan.warm_ups), (False, plan.repeats // 2 if same else plan.repeats)):
        for number in range(1, rounds + 1):
            dice = random.Random(f"{plan.seed}/{'warm-up' if warm_up else 'duet'}/{number}")
            for point in dice.sample(points, len(points)):
                first, second = random.Random(f"{plan.seed}/{point.name}/{(number - 1) // 2}").sample((0, 1), 2)
                places = (first, second) if number % 2 else (second, first)
                for half, place in enumerate(places, 1):
                    repeat = 2 * number - 1 + place if same else number
                    yield Entry(point, plan.duet[place], repeat, warm_up, half, number)


def remaining(entries: Sequence[Entry], keys: set[tuple[str, str, int, bool]]) -> tuple[Entry, ...]:
    """The entries that have to run; of a duet both, if one of them has."""

    def duet(one: Entry) -> tuple[str, int | None, bool]:
        return one.point.name, one.duet, one.warm_up

    again = {duet(one) for one in entries if one.duet and one.key not in keys}
    return tuple(one for one in entries if one.key not in keys or duet(one) in again)


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
