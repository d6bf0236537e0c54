"""The rate of false verdicts on a cluster: pairs of runs of the same thing, judged as if they had two names."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from regatta.records import stats
from regatta.records.record import Record

PLAN = "calibrate"
"""The name of the plan whose runs are pairs of the same thing."""


@dataclass(frozen=True)
class Bias:
    """How many times as long as those beside them the runs on the second half of the cores took, by `clock`."""

    cluster: str
    clock: str
    times: stats.Ratio

    def __str__(self) -> str:
        return (
            f"{self.cluster}: in duets of the same thing the second half of the cores took {self.times.value:.3f} "
            f"times as long as the first ({self.clock}{_ends(self.times)}, {self.times.n} duets); runs change halves"
        )


def _ends(found: stats.Ratio) -> str:
    return "" if found.low is None else f", {found.low:.3f} to {found.high:.3f}"


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


def rates(records: Sequence[Record], at_least: float = stats.AT_LEAST) -> dict[str, str]:
    """A sentence on the rate of false verdicts end to end, by cluster, where it was measured."""
    measured = (one for one in of(records, at_least) if one.clock == "total")
    said = ((one.cluster, f"{one.false} of {one.verdicts}, {share(one.false, one.verdicts)}") for one in measured)
    return {cluster: f"False verdicts on {cluster}: {rate}." for cluster, rate in said}


def biases(records: Sequence[Record]) -> list[Bias]:
    """What the halves of the cores do to duets of the same thing, for each cluster by each timer."""
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for (cluster, _), runs in _sets(records).items():
        for clock in ("total", "compute"):
            found.setdefault((cluster, clock), []).extend(_duets(runs, clock))
    return [
        Bias(*key, stats.paired([one for one, _ in duets], [other for _, other in duets]))
        for key, duets in found.items()
        if duets
    ]


def _duets(runs: Sequence[Record], clock: str) -> list[tuple[float, float]]:
    """Seconds on the first and the second half of the cores of runs at the same moment, with no others beside them."""
    known = {run.run_id: run for run in runs if not run.others}
    firsts = [run for run in known.values() if run.series and run.series.half == 1 and run.series.partner in known]
    pairs = [(run, known[run.series.partner]) for run in firsts if run.series and run.series.partner]
    clocks = [(getattr(one.phases, clock), getattr(other.phases, clock)) for one, other in pairs]
    return [(one, other) for one, other in clocks if one and other]


def _sets(records: Sequence[Record]) -> dict[tuple[str, str], list[Record]]:
    sets: dict[tuple[str, str], list[Record]] = {}
    for run in records:
        series = run.series
        if series and series.plan == PLAN and not series.warm_up and run.exit.state == "succeeded":
            sets.setdefault((run.cluster.name, series.label), []).append(run)
    return sets


def _named(label: str, runs: Sequence[Record], clock: str) -> Iterator[tuple[list[float], list[float]]]:
    """The seconds under two names of each verdict; runs without the timer, or timed while others ran, are left out."""
    duets = _duets(runs, clock)
    dice = random.Random(label)
    if duets:
        pairs = [dice.sample(duet, 2) for duet in duets]
    else:
        ordered = sorted(runs, key=lambda run: run.series.index if run.series else 0)
        seconds = [getattr(run.phases, clock) for run in ordered if not run.others]
        times = [value for value in seconds if value]
        pairs = [dice.sample(times[at : at + 2], 2) for at in range(0, len(times) - 1, 2)]
    for first in range(0, len(pairs) - stats.LEAST_PAIRS + 1, stats.LEAST_PAIRS):
        one, other = zip(*pairs[first : first + stats.LEAST_PAIRS], strict=True)
        yield [*one], [*other]
