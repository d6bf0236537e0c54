"""Values in the order of their runs: whether repeats are steady, or still warm up, and where a history has changed.

A trend is found by Mann and Kendall's test, a change by a permutation test of the best split, so that each has a known
error whatever the noise is.
"""

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from regatta.records import stats

_EXACT = 60
"""The number of repeats up to which all orders are counted; above, the normal distribution is close enough."""

LEAST_SESSIONS = 8
"""The number of values that can show a change: fewer have too few orders."""
_LEAST_BESIDE = 3
"""The number of values on each side of a change."""
_ORDERS = 999
_SEED = 0


@dataclass(frozen=True)
class Trend:
    """`steady_from`: the first repeat from which on no trend is shown (1: all of them); None: never.

    `falls`: values became smaller over the repeats that are not steady.
    """

    steady_from: int | None
    falls: bool

    @property
    def steady(self) -> bool:
        """Whether no trend over all repeats is shown."""
        return self.steady_from == 1

    def words(self, what: str) -> str:
        """`the times of torch × 4 fell until repeat 3`; `... rose to the end: never steady`."""
        moved = f"{what} {'fell' if self.falls else 'rose'}"
        return f"{moved} until repeat {self.steady_from}" if self.steady_from else f"{moved} to the end: never steady"


def trend(values: Sequence[float]) -> Trend:
    """The trend of values in the order of their runs; fewer than `stats.LEAST_PAIRS` show none.

    First repeats are left out until the rest shows no trend; at least half of all, and `stats.LEAST_PAIRS`, are left.
    """
    least = max(stats.LEAST_PAIRS, -(-len(values) // 2))
    falls = _score(values) < 0
    for first in range(max(1, len(values) - least + 1)):
        if chance(values[first:]) > 1 - stats.CONFIDENCE:
            return Trend(first + 1, falls)
    return Trend(None, falls)


def chance(values: Sequence[float]) -> float:
    """How often values in a random order have as strong a trend, up or down (Mann 1945, Kendall); ties make it larger.

    1 where there are fewer than `stats.LEAST_PAIRS`.
    """
    n = len(values)
    if n < stats.LEAST_PAIRS:
        return 1.0
    score = abs(_score(values))
    if n > _EXACT:
        spread = math.sqrt(n * (n - 1) * (2 * n + 5) / 18)
        return math.erfc(max(0, score - 1) / spread / math.sqrt(2))
    most = n * (n - 1) // 2
    orders = _orders(n)
    return min(1.0, 2 * sum(orders[: (most - score) // 2 + 1]) / math.factorial(n))


def _score(values: Sequence[float]) -> int:
    """Number of pairs of runs of which the later has the larger value, less that of those where it has the smaller."""
    return sum((later > earlier) - (later < earlier) for earlier, later in itertools.combinations(values, 2))


@functools.cache
def _orders(n: int) -> list[int]:
    """How many orders of `n` values have 0, 1, 2, ... pairs the wrong way round."""
    if n == 1:
        return [1]
    before = _orders(n - 1)
    return [sum(before[max(0, wrong - n + 1) : wrong + 1]) for wrong in range(n * (n - 1) // 2 + 1)]


def changes(values: Sequence[float]) -> list[int]:
    """The places at which positive values change their level, each the first of a new one.

    The best split of the whole is a change if at most one of 20 random orders has as good a one; then each side is
    looked at in the same way.
    """
    return sorted(_changes([math.log(value) for value in values], 0))


def _changes(logs: Sequence[float], first: int) -> list[int]:
    import numpy as np

    if len(logs) < LEAST_SESSIONS:
        return []
    row = np.asarray(logs, float)
    orders = np.random.default_rng(_SEED).permuted(np.tile(row, (_ORDERS, 1)), axis=1)
    gains = _gains(np.vstack([row, orders]))
    best = gains.max(axis=1)
    if (best >= best[0] - 1e-12).sum() / (_ORDERS + 1) > 1 - stats.CONFIDENCE:
        return []
    place = int(gains[0].argmax()) + _LEAST_BESIDE
    return [*_changes(logs[:place], first), first + place, *_changes(logs[place:], first + place)]


def _gains(rows: Any) -> Any:
    """How much of its spread each split of each row explains, (rows, splits)."""
    import numpy as np

    n = rows.shape[1]
    sums = np.cumsum(rows - rows.mean(axis=1, keepdims=True), axis=1)[:, _LEAST_BESIDE - 1 : n - _LEAST_BESIDE]
    before = np.arange(_LEAST_BESIDE, n - _LEAST_BESIDE + 1)
    return sums**2 * n / (before * (n - before))
