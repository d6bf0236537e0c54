"""Ratios of paired repeats: what interval and verdict they get, and how often those are right."""

import math
import random
from itertools import product

import numpy as np
import pytest

from regatta.records import stats
from regatta.records.stats import LEAST_PAIRS, Interval, Ratio, holm, medians, paired, ratios, unpaired


def test_the_ratio_is_the_geometric_mean_of_the_pairs() -> None:
    found = paired([1.0, 2.0], [2.0, 1.0])
    assert found.value == pytest.approx(1.0)
    assert paired([2.0], [3.0]).value == pytest.approx(1.5)


@pytest.mark.parametrize("n", range(1, LEAST_PAIRS))
def test_too_few_runs_have_no_interval(n: int) -> None:
    found = paired([1.0] * n, [9.0] * n)
    assert (found.n, found.low, found.high, found.verdict) == (n, None, None, "too few runs")
    assert str(found) == "9.00"


def test_faster_slower_and_not_shown() -> None:
    base = [10.0, 10.5, 9.8, 10.2, 10.1, 10.3]
    assert paired(base, [5.0, 5.3, 4.8, 5.2, 5.0, 5.1]).verdict == "faster"
    assert paired(base, [20.0, 21.3, 19.8, 20.2, 20.0, 20.1]).verdict == "slower"
    assert paired(base, [10.1, 10.3, 9.9, 10.4, 9.9, 10.2]).verdict == "no difference shown"


def test_a_difference_that_does_not_matter_is_no_verdict() -> None:
    base = [10.0, 10.5, 9.8, 10.2, 10.1, 10.3]
    slower = [1.008 * seconds for seconds in base]
    assert paired(base, slower).verdict == "equal"
    assert paired(base, slower, at_least=0.005).verdict == "slower"
    uneven = [1.008 * seconds + 0.05 * (index % 2) for index, seconds in enumerate(base)]
    assert paired(base, uneven).low is not None and paired(base, uneven, at_least=0.02).verdict == "equal"
    assert paired(base, [seconds + 0.09 * (1 + index % 2) for index, seconds in enumerate(base)]).verdict == "slower"
    assert paired(base, [1.0 * seconds for seconds in base], at_least=0.0).verdict == "no difference shown"


def test_pairs_tell_what_unpaired_runs_would_hide() -> None:
    """A drift that is larger than the difference, and hits both alike."""
    base = [10.0, 14.0, 18.0, 26.0, 40.0, 60.0]
    found = paired(base, [1.05 * seconds + 0.001 * index for index, seconds in enumerate(base)])
    assert found.verdict == "slower"
    assert found.low is not None and 1.04 < found.low < found.value


def test_equal_pairs_have_an_interval_of_no_width() -> None:
    found = paired([2.0] * 6, [3.0] * 6)
    assert (found.low, found.high, found.verdict) == (pytest.approx(1.5), pytest.approx(1.5), "slower")
    assert paired([2.0] * 6, [2.0] * 6).verdict == "equal"
    assert paired([2.0] * 6, [2.002] * 6).verdict == "equal", "0.1 % is no verdict"


def test_the_same_seconds_give_the_same_interval() -> None:
    base, other = [1.0, 1.1, 0.9, 1.2, 1.0], [1.3, 1.0, 1.2, 1.1, 1.4]
    assert paired(base, other) == paired(base, other)
    there, back = paired(base, other), paired(other, base)
    assert there.value == pytest.approx(1 / back.value)


def alike(kind: str, n: int, times: int) -> "tuple[np.ndarray, np.ndarray]":
    """Seconds of the same thing under two names, (times, n) each: chance decides which of a pair comes first."""
    dice = np.random.default_rng(n)
    slots = 2 * n
    logs = dice.normal(0, 0.05, (times, slots))
    if kind == "drift":
        logs += np.linspace(0, 0.5, slots)
    elif kind == "outliers":
        logs += (dice.random((times, slots)) < 0.1) * dice.exponential(1, (times, slots))
    elif kind == "autocorrelation":
        for slot in range(1, slots):
            logs[:, slot] += 0.9 * logs[:, slot - 1]
    elif kind == "two modes":
        logs += (dice.random((times, slots)) < 0.5) * 0.3
    elif kind == "ties":
        logs = np.log(np.round(np.exp(logs), 2))
    elif kind == "unequal spread":
        return np.exp(dice.normal(0, 0.02, (times, n))), np.exp(dice.normal(0, 0.2, (times, n)))
    slot_of = logs.reshape(times, n, 2)
    first = dice.integers(0, 2, (times, n, 1))
    one, other = (np.take_along_axis(slot_of, place, 2)[..., 0] for place in (first, 1 - first))
    return np.exp(one), np.exp(other)


KINDS = ("noise", "drift", "outliers", "autocorrelation", "two modes", "unequal spread", "ties")


@pytest.mark.parametrize("n", [6, 10, *(pytest.param(n, marks=pytest.mark.whole) for n in (7, 20))])
@pytest.mark.parametrize("kind", KINDS)
def test_of_10_000_verdicts_on_the_same_thing_at_most_5_5_percent_are_false(kind: str, n: int) -> None:
    pairs = zip(*alike(kind, n, 10_000), strict=True)
    found = ratios([(base.tolist(), other.tolist()) for base, other in pairs], at_least=0.0)
    false = sum(one.verdict in ("faster", "slower") for one in found)
    assert false <= 550
    assert all((one.verdict in ("faster", "slower")) == (one.p is not None and one.p <= 0.05) for one in found)


@pytest.mark.parametrize("n", [6, 10])
@pytest.mark.parametrize("kind", ["noise", "outliers", "two modes", "unequal spread", "ties"])
def test_of_2_000_verdicts_on_two_sets_of_the_same_thing_few_are_false(kind: str, n: int) -> None:
    """Repeats of each set are independent: neither drift nor autocorrelation."""
    pairs = zip(*alike(kind, n, 2_000), strict=True)
    found = stats.unpaired([(base.tolist(), other.tolist()) for base, other in pairs], at_least=0.0)
    assert sum(one.verdict in ("faster", "slower") for one in found) <= 0.066 * 2_000


@pytest.mark.parametrize(
    ("most", "times", "false_at_most"), [(12, 1000, 0.066), pytest.param(40, 10_000, 0.055, marks=pytest.mark.whole)]
)
@pytest.mark.parametrize("kind", KINDS)
def test_pairs_that_are_measured_until_the_interval_is_narrow_give_no_more_false_verdicts(
    kind: str, most: int, times: int, false_at_most: float
) -> None:
    """Half of the comparisons end at the first look, the others at later ones."""
    base, other = alike(kind, most, times)
    looks = stats.looks(most)
    verdicts, until, going = [], 0.0, np.arange(times)
    for look in looks:
        pairs = list(zip(base[going, :look].tolist(), other[going, :look].tolist(), strict=True))
        found = ratios(pairs, 0.0, [len(looks)] * len(pairs))
        widths = np.array([one.width for one in found])
        until = until or float(np.median(widths))
        ends = (widths <= until) | (look == most)
        verdicts += [one.verdict for one, ended in zip(found, ends, strict=True) if ended]
        going = going[~ends]
    assert len(verdicts) == times
    assert sum(verdict in ("faster", "slower") for verdict in verdicts) <= false_at_most * times


def test_looks_share_the_error() -> None:
    assert stats.looks(40) == (8, 12, 18, 27, 40) and stats.looks(8) == (8,) and stats.looks(9) == (8, 9)
    for looks in range(1, 40):
        n = stats.least_pairs(looks)
        assert 2 / 2**n <= 0.05 / looks < 2 / 2 ** (n - 1)
    base, other = [1.0] * 8, [1.1, 1.2, 1.3, 1.1, 1.2, 1.3, 1.1, 1.2]
    once, often = paired(base, other), paired(base, other, looks=5)
    assert (once.verdict, often.verdict, often.least) == ("slower", "slower", 8)
    assert once.p == pytest.approx(2 / 256) and often.p == pytest.approx(10 / 256)
    assert once.width is not None and often.width is not None and once.width < often.width
    assert paired(base, other, looks=7).verdict == "too few runs"


@pytest.mark.parametrize(("n", "least"), [(6, 0.95), (7, 0.93), (10, 0.93)])
def test_intervals_hold_what_is_true_about_as_often_as_they_say(n: int, least: float) -> None:
    """Noise as clocks have it, at the numbers of repeats that plans have."""
    dice, truth, times = np.random.default_rng(n), 1.2, 2000
    base = np.exp(dice.normal(2, 0.1, (times, n)))
    other = truth * base * np.exp(dice.normal(0, 0.05, (times, n)))
    found = ratios(list(zip(base.tolist(), other.tolist(), strict=True)))
    held = sum(one.low is not None and one.high is not None and one.low <= truth <= one.high for one in found)
    assert held / times >= least
    single = medians(other.tolist())
    middle = truth * math.exp(2)
    held = sum(one.low is not None and one.high is not None and one.low <= middle <= one.high for one in single)
    assert held / times >= least


def test_the_interval_has_what_the_test_does_not_reject() -> None:
    """By the definition: every sign of every pair, for a hypothesis at each end of the interval."""
    dice = random.Random(8)
    for n in (6, 8):
        logs = [dice.gauss(0.2, 0.3) for _ in range(n)]
        found = paired([1.0] * n, [math.exp(one) for one in logs])

        def chance(hypothesis: float, logs: list[float] = logs, n: int = n) -> float:
            apart = [one - hypothesis for one in logs]
            every = product((1, -1), repeat=n)
            sums = [sum(sign * one for sign, one in zip(signs, apart, strict=True)) for signs in every]
            ours = sum(apart)
            return 2 * min(sum(one >= ours - 1e-9 for one in sums), sum(one <= ours + 1e-9 for one in sums)) / len(sums)

        assert found.low is not None and found.high is not None
        assert chance(math.log(found.low) - 1e-6) <= 0.05 < chance(math.log(found.low) + 1e-6)
        assert chance(math.log(found.high) + 1e-6) <= 0.05 < chance(math.log(found.high) - 1e-6)
        assert found.p == pytest.approx(min(1.0, chance(0.0)))


@pytest.mark.parametrize("days", [6, 12])
@pytest.mark.parametrize(("kind", "least"), [("alike", 0.92), ("apart", 0.93), ("one is far off", 0.92)])
def test_intervals_over_days_hold_what_is_true_on_any_day(kind: str, least: float, days: int) -> None:
    """Each day has its own ratio, and its pairs spread around that; with few days the interval has to be wider."""
    dice, times, truth = np.random.default_rng(days), 400, 1.2
    apart = {"alike": 0.0, "apart": 0.05, "one is far off": 0.03}[kind]
    of_day = dice.normal(0, apart, (times, days))
    of_day += (dice.random((times, days)) < 0.1 * (kind == "one is far off")) * dice.normal(0, 0.3, (times, days))
    pairs = truth * np.exp(of_day[..., None] + dice.normal(0, 0.05, (times, days, 4)))
    found = [stats.over_groups([[(1.0, ratio) for ratio in day] for day in one.tolist()]) for one in pairs]
    held = sum(one.low is not None and one.high is not None and one.low <= truth <= one.high for one in found)
    assert held / times >= least
    if kind == "apart" and days == 6:
        inside = ratios([([1.0] * one.size, one.ravel().tolist()) for one in pairs[:200]])
        narrow = sum(one.low is not None and one.high is not None and one.low <= truth <= one.high for one in inside)
        assert narrow / 200 < 0.8, "pairs of a day know nothing of other days"


def test_few_days_have_no_interval_and_each_counts_once() -> None:
    found = stats.over_groups([[(1.0, 2.0)] * 9, [(1.0, 8.0)]])
    assert (found.value, found.n, found.low) == (pytest.approx(4.0), 2, None)
    same = stats.over_groups([[(2.0, 3.0)]] * 6)
    assert (same.low, same.high) == (pytest.approx(1.5), pytest.approx(1.5))
    turned = Ratio(2.0, 12, 1.6, 2.5, days=Interval(2.0, 6, 1.25, 4.0)).inverse
    assert turned.days == Interval(0.5, 6, 0.25, 0.8)


def test_many_verdicts_are_corrected_as_holm_does() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == [True, False, False, True]
    assert holm([0.04]) == [True] and holm([]) == []


@pytest.mark.parametrize(
    ("base", "other"), [([], []), ([1.0], []), ([1.0, 2.0], [1.0]), ([0.0], [1.0]), ([1.0], [-1.0])]
)
def test_what_has_no_ratio(base: list[float], other: list[float]) -> None:
    with pytest.raises(ValueError, match=r"no pairs|no ratio"):
        paired(base, other)


def test_medians_hold_what_they_are_of() -> None:
    one, many, same = medians([[2.0, 4.0], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0], [3.0] * 6])
    assert one == Interval(3.0, 2)
    assert (many.value, many.low, many.high) == (5.0, 2.0, 8.0), "as in tables of the sign test"
    assert (same.low, same.high) == (3.0, 3.0)
    assert medians([]) == []
    with pytest.raises(ValueError, match="no median"):
        medians([[]])


def test_intervals_are_the_same_alone_and_among_others(monkeypatch: pytest.MonkeyPatch) -> None:
    dice = random.Random(3)
    sets = [[dice.uniform(1, 9) for _ in range(n)] for n in (6, 7, 6, 2, 6, 14)]
    pairs = [(seconds, seconds[::-1]) for seconds in sets]
    for many, what in ((medians, sets), (ratios, pairs), (unpaired, pairs)):
        alone = [many([one])[0] for one in what]  # type: ignore[operator]
        assert many(what) == alone  # type: ignore[operator]
    monkeypatch.setattr(stats, "_VALUES", 2 * stats._SAMPLE)
    assert ratios(pairs) == [ratios([one])[0] for one in pairs]
    assert medians(sets) == [medians([one])[0] for one in sets]


def test_repeats_of_another_time_are_not_paired() -> None:
    drift = [10.0, 14.0, 18.0, 26.0, 40.0, 60.0]
    slower = [1.05 * seconds for seconds in drift]
    assert unpaired([(drift, slower)])[0].verdict == "no difference shown"
    assert unpaired([(drift, [9 * seconds for seconds in slower])])[0].verdict == "slower"
    few = unpaired([(drift, drift[:4])])[0]
    assert (few.n, few.low, few.verdict) == (4, None, "too few runs")


def test_repeats_without_pairs_are_judged_as_scipy_does() -> None:
    from scipy.stats import ttest_ind

    dice = random.Random(8)
    base, other = [dice.uniform(1, 9) for _ in range(6)], [dice.uniform(1, 12) for _ in range(9)]
    found = unpaired([(base, other)])[0]
    theirs = ttest_ind(np.log(other), np.log(base), equal_var=False)
    low, high = theirs.confidence_interval(0.95)
    assert (found.p, found.low, found.high) == pytest.approx((theirs.pvalue, math.exp(low), math.exp(high)))
    assert unpaired([([2.0] * 6, [2.0] * 6)])[0].verdict == "equal"


def test_the_other_way_round() -> None:
    assert Ratio(2.0, 6, 1.6, 2.5).inverse == Ratio(0.5, 6, 0.4, 0.625)
    assert Ratio(2.0, 1).inverse == Ratio(0.5, 1)
