"""The rate of false verdicts on a cluster: pairs of runs of the same thing, judged as if they had two names."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from regatta.records import stats
from regatta.records.record import Record

PLAN = "calibrate"
"""The name of the plan whose runs are pairs of the same thing."""


@dataclass(frozen=True)
class Calibration:
    """`false` of `verdicts` on `cluster` by one timer said that the same thing is faster or slower than itself."""

    cluster: str
    clock: str
    verdicts: int
    false: int

    def __str__(self) -> str:
        rate = share(self.false, self.verdicts)
        return f"{self.cluster}: {self.false} of {self.verdicts} verdicts ({self.clock}) are false, {rate}"


def share(found: int, of: int) -> str:
    """A share in per cent with its exact interval of 95 %: `1.0 % (0.0 to 5.4 %)`."""
    from scipy import special

    low = special.betaincinv(found, of - found + 1, 0.025) if found else 0.0
    high = special.betaincinv(found + 1, of - found, 0.975) if found < of else 1.0
    return f"{100 * found / of:.1f} % ({100 * low:.1f} to {100 * high:.1f} %)"


def of(records: Sequence[Record], at_least: float = stats.AT_LEAST) -> list[Calibration]:
    """The findings of the runs of calibration among these records, for each cluster by each timer.

    Of each set and point, two runs that follow each other are a pair. Chance gives them their names, as it decides the
    order of two frameworks. stats.LEAST_PAIRS pairs make a verdict. `at_least`: the part that a difference must have.
    """
    found: dict[tuple[str, str], list[stats.Ratio]] = {}
    for (cluster, label), runs in _sets(records).items():
        for clock in ("total", "compute"):
            ratios = stats.ratios(list(_named(label, runs, clock)), at_least)
            found.setdefault((cluster, clock), []).extend(ratios)
    return [
        Calibration(*key, len(ratios), sum(one.verdict in ("faster", "slower") for one in ratios))
        for key, ratios in found.items()
        if ratios
    ]


def _sets(records: Sequence[Record]) -> dict[tuple[str, str], list[Record]]:
    sets: dict[tuple[str, str], list[Record]] = {}
    for run in records:
        series = run.series
        if series and series.plan == PLAN and not series.warm_up and run.exit.state == "succeeded":
            sets.setdefault((run.cluster.name, series.label), []).append(run)
    return sets


def _named(label: str, runs: Sequence[Record], clock: str) -> Iterator[tuple[list[float], list[float]]]:
    """The seconds under two names of each verdict; runs without the timer, or timed while others ran, are left out."""
    ordered = sorted(runs, key=lambda run: run.series.index if run.series else 0)
    seconds = [getattr(run.phases, clock) for run in ordered if not run.others]
    times = [value for value in seconds if value]
    dice = random.Random(label)
    pairs = [dice.sample(times[at : at + 2], 2) for at in range(0, len(times) - 1, 2)]
    for first in range(0, len(pairs) - stats.LEAST_PAIRS + 1, stats.LEAST_PAIRS):
        one, other = zip(*pairs[first : first + stats.LEAST_PAIRS], strict=True)
        yield [*one], [*other]
