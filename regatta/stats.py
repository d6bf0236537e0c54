"""Is a difference of clocks real? Ratios of paired repeats, their intervals, and a verdict in words."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["faster", "slower", "no difference shown", "too few runs"]

LEAST_PAIRS = 5
"""Fewer pairs than this cannot show a difference at CONFIDENCE: 4 fall on the same side by chance once in 8 times."""
CONFIDENCE = 0.95
RESAMPLES = 9999
_SEED = 0


@dataclass(frozen=True)
class Ratio:
    """How many times as long something took as its base: geometric mean of `n` pairs and its interval at CONFIDENCE.

    Without `low` and `high` there were fewer than LEAST_PAIRS pairs.
    """

    value: float
    n: int
    low: float | None = None
    high: float | None = None

    @property
    def verdict(self) -> Verdict:
        """Whether it was faster than its base, as far as the interval says so."""
        if self.low is None or self.high is None:
            return "too few runs"
        if self.high < 1.0:
            return "faster"
        return "slower" if self.low > 1.0 else "no difference shown"

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"{self.value:.2f}"
        return f"{self.value:.2f} ({self.low:.2f}..{self.high:.2f})"


def paired(base: Sequence[float], other: Sequence[float]) -> Ratio:
    """The ratio of `other` to `base`: seconds, more than 0, of repeats that belong together by their place.

    The interval is the bootstrap's over the pairs' logarithms (percentiles, widened for few pairs as Student's
    distribution is: Hesterberg 2015, "expanded percentile"), and the same for the same seconds. ValueError where the
    numbers of repeats differ, there are none, or one is not more than 0.
    """
    if len(base) != len(other) or not base:
        raise ValueError(f"{len(base)} and {len(other)} repeats are no pairs")
    if min(*base, *other) <= 0:
        raise ValueError("a clock that shows no time has no ratio")
    logs = [math.log(b / a) for a, b in zip(base, other, strict=True)]
    value, n = math.exp(statistics.fmean(logs)), len(logs)
    if n < LEAST_PAIRS:
        return Ratio(value, n)
    low, high = _interval(logs)
    return Ratio(value, n, math.exp(low), math.exp(high))


def _interval(values: Sequence[float]) -> tuple[float, float]:
    """The bootstrap's interval of the mean."""
    import numpy as np
    from scipy import stats

    n = len(values)
    beyond = stats.norm.cdf(-math.sqrt(n / (n - 1)) * stats.t.ppf((1 + CONFIDENCE) / 2, n - 1))
    found = stats.bootstrap(
        (np.asarray(values),),
        np.mean,
        confidence_level=1 - 2 * beyond,
        n_resamples=RESAMPLES,
        method="percentile",
        rng=np.random.default_rng(_SEED),
    ).confidence_interval
    return float(found.low), float(found.high)
