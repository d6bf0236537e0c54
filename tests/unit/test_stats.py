"""Ratios of paired repeats: what interval and verdict they get, and how often those are right."""

import math
import random

import pytest

from regatta.records import stats
from regatta.records.stats import LEAST_PAIRS, Interval, Ratio, medians, paired, ratios, unpaired


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
    base = [10.0, 10.5, 9.8, 10.2, 10.1]
    assert paired(base, [5.0, 5.3, 4.8, 5.2, 5.0]).verdict == "faster"
    assert paired(base, [20.0, 21.3, 19.8, 20.2, 20.0]).verdict == "slower"
    assert paired(base, [10.1, 10.3, 9.9, 10.4, 9.9]).verdict == "no difference shown"


def test_pairs_tell_what_unpaired_runs_would_hide() -> None:
    """A drift that is larger than the difference, and hits both alike."""
    base = [10.0, 14.0, 18.0, 26.0, 40.0, 60.0]
    found = paired(base, [1.05 * seconds + 0.001 * index for index, seconds in enumerate(base)])
    assert found.verdict == "slower"
    assert found.low is not None and 1.04 < found.low < found.value


def test_equal_pairs_have_an_interval_of_no_width() -> None:
    found = paired([2.0] * 5, [3.0] * 5)
    assert (found.low, found.high) == (pytest.approx(1.5), pytest.approx(1.5))
    assert paired([2.0] * 5, [2.0] * 5).verdict == "no difference shown"


def test_the_same_seconds_give_the_same_interval() -> None:
    base, other = [1.0, 1.1, 0.9, 1.2, 1.0], [1.3, 1.0, 1.2, 1.1, 1.4]
    assert paired(base, other) == paired(base, other)
    there, back = paired(base, other), paired(other, base)
    assert there.value == pytest.approx(1 / back.value)


@pytest.mark.parametrize(("n", "least"), [(5, 0.90), (6, 0.91), (10, 0.92)])
def test_intervals_hold_what_is_true_about_as_often_as_they_say(
    n: int, least: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Noise as clocks have it, at the numbers of repeats that plans have."""
    monkeypatch.setattr(stats, "RESAMPLES", 2999)
    dice, truth, held, times = random.Random(n), 1.2, 0, 300
    for _ in range(times):
        base = [10 * math.exp(dice.gauss(0, 0.1)) for _ in range(n)]
        other = [truth * seconds * math.exp(dice.gauss(0, 0.05)) for seconds in base]
        found = paired(base, other)
        assert found.low is not None and found.high is not None
        held += found.low <= truth <= found.high
    assert held / times >= least


@pytest.mark.parametrize(
    ("base", "other"), [([], []), ([1.0], []), ([1.0, 2.0], [1.0]), ([0.0], [1.0]), ([1.0], [-1.0])]
)
def test_what_has_no_ratio(base: list[float], other: list[float]) -> None:
    with pytest.raises(ValueError, match=r"no pairs|no ratio"):
        paired(base, other)


def test_medians_hold_what_they_are_of() -> None:
    one, many, same = medians([[2.0, 4.0], [1.0, 2.0, 3.0, 4.0, 5.0], [3.0] * 6])
    assert one == Interval(3.0, 2)
    assert many.value == 3.0
    assert many.low is not None and many.high is not None
    assert 1.0 <= many.low < 3.0 < many.high <= 5.0
    assert (same.low, same.high) == (3.0, 3.0)
    assert medians([]) == []
    with pytest.raises(ValueError, match="no median"):
        medians([[]])


def test_intervals_are_the_same_alone_and_among_others(monkeypatch: pytest.MonkeyPatch) -> None:
    dice = random.Random(3)
    sets = [[dice.uniform(1, 9) for _ in range(n)] for n in (5, 7, 5, 2, 5, 5)]
    pairs = [(seconds, seconds[::-1]) for seconds in sets]
    for many, what in ((medians, sets), (ratios, pairs), (unpaired, pairs)):
        alone = [many([one])[0] for one in what]  # type: ignore[operator]
        assert many(what) == alone  # type: ignore[operator]
    monkeypatch.setattr(stats, "_VALUES", stats.RESAMPLES * 11)
    assert medians(sets) == [medians([one])[0] for one in sets]


def test_repeats_of_another_time_are_not_paired() -> None:
    drift = [10.0, 14.0, 18.0, 26.0, 40.0, 60.0]
    slower = [1.05 * seconds for seconds in drift]
    assert unpaired([(drift, slower)])[0].verdict == "no difference shown"
    assert unpaired([(drift, [9 * seconds for seconds in slower])])[0].verdict == "slower"
    few = unpaired([(drift, drift[:4])])[0]
    assert (few.n, few.low, few.verdict) == (4, None, "too few runs")


def test_the_interval_is_that_of_scipy() -> None:
    import numpy as np
    from scipy import special
    from scipy.stats import bootstrap

    dice = random.Random(8)
    for n in (5, 6, 20):
        samples = [dice.uniform(1, 9) for _ in range(n)]
        beyond = special.ndtr(-math.sqrt(n / (n - 1)) * special.stdtrit(n - 1, 0.975))
        for statistic, found in (
            (np.median, medians([samples])[0]),
            (lambda seconds, axis: np.exp(np.mean(np.log(seconds), axis=axis)), paired([1.0] * n, samples)),
        ):
            theirs = bootstrap(
                (np.array(samples),),
                statistic,
                confidence_level=1 - 2 * beyond,
                n_resamples=stats.RESAMPLES,
                method="percentile",
                rng=np.random.default_rng(stats._SEED),
            ).confidence_interval
            assert found.low == pytest.approx(theirs.low, rel=1e-3)
            assert found.high == pytest.approx(theirs.high, rel=1e-3)


def test_the_other_way_round() -> None:
    assert Ratio(2.0, 5, 1.6, 2.5).inverse == Ratio(0.5, 5, 0.4, 0.625)
    assert Ratio(2.0, 1).inverse == Ratio(0.5, 1)
