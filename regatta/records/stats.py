"""Is a difference of times real? Medians, ratios of paired repeats, their intervals, and a verdict in words.

Pairs are judged by a randomization test. Chance decides which run of a pair comes first. So, if there is no difference,
each pair could as well have the other sign: whatever the noise is (drift, outliers, autocorrelation), at most one
verdict in 20 is false (Fisher 1935, *The Design of Experiments*, section 21). The interval has all ratios that the test
does not reject: its ends are means of subsets of the pairs (Hartigan 1969, "Using subsample values as typical values").
Whoever looks several times, and continues if the interval is still wide, has more chances of a false verdict. The looks
are fixed before and share the error equally (repeated confidence intervals, Jennison and Turnbull 1989).
Medians have the interval of order statistics, repeats without pairs that of Welch's test of their logarithms.
Pairs of several days are also judged with the day as the upper level, and those of shuffled hosts with the order of the
hosts, by a hierarchical bootstrap: days are drawn, each with all its pairs, as drawing these too would count their
spread twice (Davison and Hinkley 1997, *Bootstrap Methods*, section 3.8). Few days make it too narrow, for which its
ends are further out (Hesterberg 2015, "What teachers should know about the bootstrap", expanded percentiles).
Made for many sets of repeats at a time, as a report has thousands.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Literal, TypeVar

Verdict = Literal["faster", "slower", "equal", "no difference shown", "too few runs", "cores shared"]
Seconds = Sequence[float]

LEAST_PAIRS = 6
"""Fewer pairs than this cannot show a difference at CONFIDENCE: 5 have the same sign by chance once in 16 times."""
CONFIDENCE = 0.95
FIRST_LOOK = 8
"""The number of pairs after which a bench that continues until its intervals are narrow looks for the first time."""
AT_LEAST = 0.01
"""The part by which times differ at least, if a difference is to matter: 1 % is far below what anyone would notice."""
_ALL = 13
"""The number of pairs up to which all subsets are looked at; of more pairs a sample."""
_SAMPLE = 9999
_SEED = 0
_VALUES = 16_000_000
"""The number of means of subsets in memory at a time."""


@dataclass(frozen=True)
class Interval:
    """The median of `n` repeats, and its interval at CONFIDENCE; without one there were fewer than LEAST_PAIRS."""

    value: float
    n: int
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"{self.value:.2f}"
        return f"{self.value:.2f} ({self.low:.2f}..{self.high:.2f})"


@dataclass(frozen=True)
class Ratio(Interval):
    """The ratio of a time to its base, without unit: a geometric mean over `n` repeats.

    `p`: how often so large a difference would come by chance. `at_least`: the part that a difference must have to
    matter. `shared`: ranks of one side had to share cores and those of the other had not, so that it says nothing of
    scaling. `looks`: how often there was, or could have been, a look at it; `p` and the interval are those of all.
    `days`: the same with the day as the upper level, where the pairs are of several days (its `n`); `hosts`: with the
    order of the hosts, where ranks had several; see `over_groups`.
    """

    p: float | None = None
    at_least: float = AT_LEAST
    shared: bool = False
    looks: int = 1
    days: Interval | None = None
    hosts: Interval | None = None

    @property
    def least(self) -> int:
        """The number of pairs that a verdict needs."""
        return least_pairs(self.looks)

    @property
    def width(self) -> float | None:
        """By which part the end of the interval that is farther away differs from the ratio; None without interval."""
        if self.low is None or self.high is None:
            return None
        return max(self.high / self.value, self.value / self.low) - 1

    @property
    def verdict(self) -> Verdict:
        """Whether it was faster than its base, as far as the interval shows, and by as much as matters."""
        if self.shared:
            return "cores shared"
        if self.low is None or self.high is None:
            return "too few runs"
        most = 1 + self.at_least
        if 1 / most < self.low and self.high < most:
            return "equal"
        if self.high < 1.0 and self.value <= 1 / most:
            return "faster"
        return "slower" if self.low > 1.0 and self.value >= most else "no difference shown"

    @property
    def inverse(self) -> "Ratio":
        """Return how many times as fast it was: 1 / value, with the interval's ends turned round."""
        days, hosts = (one and Interval(1 / one.value, one.n, *_turned(one)) for one in (self.days, self.hosts))
        ends = _turned(self)
        return Ratio(1 / self.value, self.n, *ends, self.p, self.at_least, self.shared, self.looks, days, hosts)


def _turned(found: Interval) -> tuple[float | None, float | None]:
    return (1 / found.high if found.high else None), (1 / found.low if found.low else None)


def looks(most: int) -> tuple[int, ...]:
    """The numbers of pairs after which a bench of at most `most` may end: each half as many again."""
    found = [FIRST_LOOK]
    while found[-1] * 3 // 2 < most:
        found.append(found[-1] * 3 // 2)
    return (*found, most) if most > FIRST_LOOK else (most,)


def least_pairs(looks: int = 1) -> int:
    """The number of pairs that can show a difference at one of so many looks: fewer have the same sign by chance."""
    return math.ceil(1 - math.log2((1 - CONFIDENCE) / looks) - 1e-9)


def paired(base: Seconds, other: Seconds, at_least: float = AT_LEAST, looks: int = 1) -> Ratio:
    """The ratio of `other` to `base`, seconds of repeats that belong together by their place. Raises as `ratios`."""
    return ratios([(base, other)], at_least, [looks])[0]


def ratios(
    pairs: Sequence[tuple[Seconds, Seconds]], at_least: float = AT_LEAST, looks: Sequence[int] = ()
) -> list[Ratio]:
    """For each (base, other) the ratio of other to base: seconds of repeats that belong together by their place.

    `looks`: for each, see `Ratio`. The same seconds get the same interval, whatever else is compared. ValueError where
    the numbers of repeats differ, there are none, or a timer shows no time.
    """
    for base, other in pairs:
        if len(base) != len(other):
            raise ValueError(f"{len(base)} and {len(other)} repeats are no pairs")
    rows = [[b - a for a, b in zip(_logs(base), _logs(other), strict=True)] for base, other in pairs]
    looks = looks or [1] * len(rows)
    made: dict[int, Ratio] = {}
    for count in set(looks):
        places = [place for place, of_row in enumerate(looks) if of_row == count]
        found = _by_length([rows[place] for place in places], partial(_signs, looks=count))
        made.update((place, _ratio(one, at_least, count)) for place, one in zip(places, found, strict=True))
    return [made[place] for place in range(len(rows))]


def unpaired(pairs: Sequence[tuple[Seconds, Seconds]], at_least: float = AT_LEAST) -> list[Ratio]:
    """As `ratios`, for repeats of two different times, which no drift of the machine hit alike.

    A base may have more or fewer repeats than the other: `n` is the smaller number.
    ValueError where there are no repeats, or a timer shows no time.
    """
    return [_ratio(_welch(_logs(base), _logs(other)), at_least) for base, other in pairs]


def over_groups(groups: Sequence[Sequence[tuple[float, float]]]) -> Interval:
    """The ratio of other to base in any such group (a day, an order of hosts), by (base, other) seconds of its pairs.

    It is the geometric mean of the groups' ratios, and has an interval from LEAST_PAIRS groups on.
    """
    import numpy as np
    from scipy import special

    means = np.array([np.mean(np.log([other / base for base, other in pairs])) for pairs in groups])
    n = len(means)
    if n < LEAST_PAIRS:
        return Interval(math.exp(means.mean()), n)
    found = np.sort(_drawn(n) @ means)
    further = special.ndtr(math.sqrt(n / (n - 1)) * special.stdtrit(n - 1, (1 - CONFIDENCE) / 2))
    place = max(0, round(further * (_SAMPLE + 1)) - 1)
    return Interval(math.exp(means.mean()), n, *np.exp(found[[place, -1 - place]]).tolist())


def medians(sets: Sequence[Seconds]) -> list[Interval]:
    """The median of each set of repeats, in their unit, with its interval. ValueError for an empty set."""
    return _by_length(sets, _order)


def holm(chances: Sequence[float]) -> list[bool]:
    """Which of several differences are shown if all are looked at together (Holm 1979): by their `p`."""
    order = sorted(range(len(chances)), key=lambda index: chances[index])
    shown = [False] * len(chances)
    for place, index in enumerate(order):
        if chances[index] > (1 - CONFIDENCE) / (len(chances) - place):
            break
        shown[index] = True
    return shown


Logs = tuple[float, int, float | None, float | None, float | None]
"""Mean of logarithms, repeats, ends of its interval, p."""


def _ratio(found: Logs, at_least: float, looks: int = 1) -> Ratio:
    value, n, low, high, p = found
    low, high = (math.exp(end) if end is not None else None for end in (low, high))
    return Ratio(math.exp(value), n, low, high, p, at_least, looks=looks)


def _logs(samples: Seconds) -> list[float]:
    if samples and min(samples) <= 0:
        raise ValueError("a time of 0 has no ratio")
    return [math.log(seconds) for seconds in samples]


Found = TypeVar("Found")


def _by_length(rows: Sequence[Seconds], judge: Callable[[Any], list[Found]]) -> list[Found]:
    """Verdicts of `judge` on each row: it gets all with as many repeats at once, (rows, repeats), if memory allows."""
    import numpy as np

    alike: dict[int, list[int]] = {}
    for index, row in enumerate(rows):
        if not row:
            raise ValueError("no repeats, so that there are no pairs and no median")
        alike.setdefault(len(row), []).append(index)
    found: dict[int, Found] = {}
    at_a_time = _VALUES // _SAMPLE
    for indices in alike.values():
        for first in range(0, len(indices), at_a_time):
            some = indices[first : first + at_a_time]
            found.update(zip(some, judge(np.array([rows[index] for index in some], float)), strict=True))
    return [found[index] for index in range(len(rows))]


def _signs(differences: Any, looks: int = 1) -> list[Logs]:
    """Mean, interval and p of each row by the test that gives each pair the other sign, at one of so many looks."""
    import numpy as np

    n = differences.shape[1]
    values = differences.mean(axis=1)
    if n < least_pairs(looks):
        return [(value, n, None, None, None) for value in values.tolist()]
    subsets = _subsets(n)
    means = np.sort(differences @ (subsets / subsets.sum(axis=1, keepdims=True)).T, axis=1)
    signs = len(subsets) + 1  # those of the data themselves, which turn no pair round, count too
    beyond = int((1 - CONFIDENCE) / looks / 2 * signs + 1e-9)
    tie = 1e-12
    one_sided = np.minimum((means <= tie).sum(axis=1), (means >= -tie).sum(axis=1)) + 1
    chances = np.minimum(1.0, looks * 2 * one_sided / signs)
    ends = (means[:, beyond - 1], means[:, -beyond])
    return [
        (value, n, low, high, p)
        for value, low, high, p in zip(*(part.tolist() for part in (values, *ends, chances)), strict=True)
    ]


def _subsets(n: int) -> Any:
    """The pairs that are turned round: 0 and 1 for each, (subsets, n): all but none of them, or a sample."""
    import numpy as np

    if n <= _ALL:
        return (np.arange(1, 2**n)[:, None] >> np.arange(n)[None, :] & 1).astype(float)
    drawn = np.random.default_rng(_SEED).integers(0, 2, (_SAMPLE, n)).astype(float)
    drawn[drawn.sum(axis=1) == 0] = 1.0
    return drawn


@cache
def _drawn(n: int) -> Any:
    """The share of each of `n` groups in samples of as many, drawn with putting back: (samples, n)."""
    import numpy as np

    return np.random.default_rng(_SEED).multinomial(n, [1 / n] * n, _SAMPLE) / n


def _order(samples: Any) -> list[Interval]:
    """The median of each row between the two values that hold it whatever the distribution is."""
    import numpy as np

    n = samples.shape[1]
    ordered = np.sort(samples, axis=1)
    values = np.median(ordered, axis=1).tolist()
    if n < LEAST_PAIRS:
        return [Interval(value, n) for value in values]
    below, place = 0.5**n, 0
    while below + math.comb(n, place + 1) * 0.5**n <= (1 - CONFIDENCE) / 2:
        place += 1
        below += math.comb(n, place) * 0.5**n
    ends = zip(values, ordered[:, place].tolist(), ordered[:, -1 - place].tolist(), strict=True)
    return [Interval(value, n, low, high) for value, low, high in ends]


def _welch(base: Seconds, other: Seconds) -> Logs:
    import statistics

    least = min(len(base), len(other))
    if not least:
        raise ValueError("no repeats, so that there are no pairs and no median")
    value = statistics.fmean(other) - statistics.fmean(base)
    if least < LEAST_PAIRS:
        return value, least, None, None, None
    from scipy import special

    parts = [statistics.variance(side) / len(side) for side in (base, other)]
    error = math.sqrt(sum(parts))
    if not error:
        return value, least, value, value, 0.0 if value else 1.0
    freedom = sum(parts) ** 2 / sum(part**2 / (len(side) - 1) for part, side in zip(parts, (base, other), strict=True))
    wide = float(special.stdtrit(freedom, (1 + CONFIDENCE) / 2)) * error
    return value, least, value - wide, value + wide, 2 * float(special.stdtr(freedom, -abs(value) / error))
