"""Is a difference of times real? Medians, ratios of paired repeats, their intervals, and a verdict in words.

There is one interval: the bootstrap's percentiles, widened for few repeats as Student's distribution is (Hesterberg
2015, "expanded percentile"). It is made for many sets of repeats at a time, as a report has thousands. The draws are
those of `scipy.stats.bootstrap`, which takes a second to import and draws no medians fast.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Verdict = Literal["faster", "slower", "no difference shown", "too few runs", "cores shared"]
Seconds = Sequence[float]

LEAST_PAIRS = 5
"""Fewer pairs than this cannot show a difference at CONFIDENCE: 4 fall on the same side by chance once in 8 times."""
CONFIDENCE = 0.95
RESAMPLES = 9999
_SEED = 0
_VALUES = 4_000_000
"""The number of resampled values in memory at a time."""


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

    `shared`: ranks of one side had to share cores and those of the other had not, so that it says nothing of scaling.
    """

    shared: bool = False

    @property
    def verdict(self) -> Verdict:
        """Whether it was faster than its base, as far as the interval shows."""
        if self.shared:
            return "cores shared"
        if self.low is None or self.high is None:
            return "too few runs"
        if self.high < 1.0:
            return "faster"
        return "slower" if self.low > 1.0 else "no difference shown"

    @property
    def inverse(self) -> "Ratio":
        """Return how many times as fast it was: 1 / value, with the interval's ends turned round."""
        low, high = (1 / self.high if self.high else None), (1 / self.low if self.low else None)
        return Ratio(1 / self.value, self.n, low, high, self.shared)


def paired(base: Seconds, other: Seconds) -> Ratio:
    """The ratio of `other` to `base`, seconds of repeats that belong together by their place. Raises as `ratios`."""
    return ratios([(base, other)])[0]


def ratios(pairs: Sequence[tuple[Seconds, Seconds]]) -> list[Ratio]:
    """For each (base, other) the ratio of other to base: seconds of repeats that belong together by their place.

    The same seconds get the same interval, whatever else is compared. ValueError where the numbers of repeats differ,
    there are none, or a timer shows no time.
    """
    for base, other in pairs:
        if len(base) != len(other):
            raise ValueError(f"{len(base)} and {len(other)} repeats are no pairs")
    rows = [([b - a for a, b in zip(_logs(base), _logs(other), strict=True)],) for base, other in pairs]
    return [_ratio(found) for found in _intervals(rows, _mean)]


def unpaired(pairs: Sequence[tuple[Seconds, Seconds]]) -> list[Ratio]:
    """As `ratios`, for repeats of two different times, which no drift of the machine hit alike.

    A base may have more or fewer repeats than the other: `n` is the smaller number.
    ValueError where there are no repeats, or a timer shows no time.
    """
    return [_ratio(found) for found in _intervals([(_logs(base), _logs(other)) for base, other in pairs], _difference)]


def medians(sets: Sequence[Seconds]) -> list[Interval]:
    """The median of each set of repeats, in their unit, with its interval. ValueError for an empty set."""
    return _intervals([(samples,) for samples in sets], _median)


def _ratio(found: Interval) -> Ratio:
    low, high = (math.exp(end) if end is not None else None for end in (found.low, found.high))
    return Ratio(math.exp(found.value), found.n, low, high)


def _logs(samples: Seconds) -> list[float]:
    if samples and min(samples) <= 0:
        raise ValueError("a time of 0 has no ratio")
    return [math.log(seconds) for seconds in samples]


def _intervals(rows: Sequence[tuple[Seconds, ...]], statistic: "Statistic") -> list[Interval]:
    """All rows with as many repeats a side at once, as far as memory goes."""
    import numpy as np

    alike: dict[tuple[int, ...], list[int]] = {}
    for index, row in enumerate(rows):
        alike.setdefault(tuple(map(len, row)), []).append(index)
    found: dict[int, Interval] = {}
    for lengths, indices in alike.items():
        least = min(lengths)
        if not least:
            raise ValueError("no repeats, so that there are no pairs and no median")
        at_a_time = max(1, _VALUES // RESAMPLES)
        for first in range(0, len(indices), at_a_time):
            some = indices[first : first + at_a_time]
            sides = [np.array([rows[index][side] for index in some], float) for side in range(len(lengths))]
            as_they_are = [np.arange(length)[None, :] for length in lengths]
            values = statistic(sides, as_they_are)[:, 0].tolist()
            ends: Any = [(None, None)] * len(some)
            if least >= LEAST_PAIRS:
                ends = _percentiles(statistic(sides, _draws(lengths)), least)
            for index, value, (low, high) in zip(some, values, ends, strict=True):
                found[index] = Interval(value, least, low, high)
    return [found[index] for index in range(len(rows))]


def _draws(lengths: Sequence[int]) -> list[Any]:
    """For each side RESAMPLES draws of its places with replacement; the same for every row."""
    import numpy as np

    dice = np.random.default_rng(_SEED)
    return [dice.integers(0, length, (RESAMPLES, length)) for length in lengths]


def _percentiles(resampled: Any, least: int) -> list[tuple[float, float]]:
    """The ends of the interval of each row."""
    import numpy as np
    from scipy import special

    beyond = special.ndtr(-math.sqrt(least / (least - 1)) * special.stdtrit(least - 1, (1 + CONFIDENCE) / 2))
    low, high = np.quantile(resampled, [beyond, 1 - beyond], axis=1)
    return list(zip(low.tolist(), high.tolist(), strict=True))


Statistic = Callable[[list[Any], list[Any]], Any]
"""(repeats of each side: rows x n; draws of each side: draws x n) -> rows x draws."""


def _mean(sides: list[Any], draws: list[Any]) -> Any:
    (samples,), (drawn,) = sides, draws
    return sum(samples[:, drawn[:, place]] for place in range(drawn.shape[1])) / drawn.shape[1]


def _difference(sides: list[Any], draws: list[Any]) -> Any:
    return _mean(sides[1:], draws[1:]) - _mean(sides[:1], draws[:1])


def _median(sides: list[Any], draws: list[Any]) -> Any:
    """Of sorted repeats the middle one of a draw is the one at the middle of its sorted places."""
    import numpy as np

    (samples,), (drawn,) = sides, draws
    ordered, places, n = np.sort(samples, axis=1), np.sort(drawn, axis=1), drawn.shape[1]
    return (ordered[:, places[:, (n - 1) // 2]] + ordered[:, places[:, n // 2]]) / 2
