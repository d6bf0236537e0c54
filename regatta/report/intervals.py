"""Medians with their intervals, and ratios of medians: percentile bootstrap (Efron), 95 %, by scipy.

Many at a time, as scipy takes a millisecond for each call and next to nothing for each sample set in it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

FEWEST = 4
"""Runs a side before a ratio may be called a difference: three against three lie apart by chance in 2 of 20 draws,
four against four in 2 of 70."""

_RESAMPLES = 1000
_SEED = 20
_BATCH = 4_000_000

Samples = Sequence[float]
Verdict = Literal["faster", "slower", "no difference shown", "too few runs"]


@dataclass(frozen=True)
class Interval:
    """The median of `n` samples, or a ratio of medians, and its 95 % interval; a single sample has none."""

    median: float
    low: float | None
    high: float | None
    n: int


def medians(sets: Sequence[Samples]) -> list[Interval]:
    """The median of each sample set with its interval, in the samples' unit. ValueError for an empty set."""
    return _intervals([(samples,) for samples in sets], _median)


def ratios(pairs: Sequence[tuple[Samples, Samples]]) -> list[Interval]:
    """For each pair the median of the first divided by that of the second, unpaired; all samples above 0.

    `n` is the number of samples of the smaller side. ValueError for an empty side.
    """
    return _intervals(pairs, _ratio)


def verdict(times: Interval) -> Verdict:
    """What a ratio of times says about the one above: only an interval without 1 is a difference."""
    if times.n < FEWEST or times.low is None or times.high is None:
        return "too few runs"
    if times.low > 1:
        return "slower"
    return "faster" if times.high < 1 else "no difference shown"


def _intervals(rows: Sequence[tuple[Samples, ...]], statistic: Callable[..., Any]) -> list[Interval]:
    """One call of scipy for all rows with as many samples a side."""
    import numpy as np

    alike: dict[tuple[int, ...], list[int]] = {}
    for index, row in enumerate(rows):
        alike.setdefault(tuple(map(len, row)), []).append(index)
    found: dict[int, Interval] = {}
    for lengths, indices in alike.items():
        if min(lengths) < 1:
            raise ValueError("there is no median of no samples")
        sides = [np.array([rows[index][side] for index in indices], float) for side in range(len(lengths))]
        middles = statistic(*sides)
        if min(lengths) == 1:
            bounds: Any = [(None, None)] * len(indices)
        else:
            bounds = [(float(low), float(high)) for low, high in zip(*_bootstrap(sides, statistic), strict=True)]
        for index, middle, (low, high) in zip(indices, middles, bounds, strict=True):
            found[index] = Interval(float(middle), low, high, min(lengths))
    return [found[index] for index in range(len(rows))]


def _bootstrap(sides: Sequence[Any], statistic: Callable[..., Any]) -> tuple[Any, Any]:
    from scipy import stats

    values = sum(side.size for side in sides)
    interval = stats.bootstrap(
        sides,
        statistic,
        n_resamples=_RESAMPLES,
        batch=max(1, _BATCH // values),
        method="percentile",
        vectorized=True,
        axis=-1,
        rng=_SEED,
    ).confidence_interval
    return interval.low, interval.high


def _median(samples: Any, axis: int = -1) -> Any:
    import numpy as np

    return np.median(samples, axis=axis)


def _ratio(above: Any, below: Any, axis: int = -1) -> Any:
    return _median(above, axis) / _median(below, axis)
