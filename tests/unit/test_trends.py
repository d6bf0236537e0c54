"""Repeats that are steady, that warm up, and that never become steady."""

import itertools
import random

import numpy as np
import pytest
from scipy.stats import kendalltau

from regatta.records.trends import Trend, chance, trend


def test_the_chance_is_that_of_all_orders() -> None:
    values = [3.0, 1.0, 4.0, 1.5, 5.0, 9.0]
    scores = [
        abs(sum(np.sign(order[b] - order[a]) for a, b in itertools.combinations(range(6), 2)))
        for order in itertools.permutations(values)
    ]
    assert chance(values) == pytest.approx(sum(one >= scores[0] for one in scores) / len(scores))
    assert chance(values[:5]) == 1.0, "too few"
    assert chance([2.0] * 9) == 1.0, "all ties"


@pytest.mark.parametrize("n", [7, 20, 59, 200])
def test_the_chance_is_that_of_kendalls_test(n: int) -> None:
    dice = random.Random(n)
    values = [dice.random() + 0.01 * place for place in range(n)]
    theirs = kendalltau(range(n), values, method="exact" if n < 60 else "asymptotic").pvalue
    assert chance(values) == pytest.approx(theirs, rel=0.05)


def test_what_is_steady_is_called_so_in_19_of_20_cases() -> None:
    dice = random.Random(5)
    found = [trend([dice.gauss(10, 1) for _ in range(10)]) for _ in range(1000)]
    assert 20 <= sum(not one.steady for one in found) <= 65


def test_a_warm_up_is_found_and_where_it_ends() -> None:
    warm = [9.0, 7.0, 5.0, 4.0, 3.0, *(3.1, 2.9, 3.0, 3.2, 2.95, 3.05, 2.9, 3.1)]
    found = trend(warm)
    assert found.falls and found.steady_from is not None and 2 <= found.steady_from <= 6
    assert found.words("the times") == f"the times fell until repeat {found.steady_from}"
    assert trend([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]) == Trend(None, False)
    assert trend([6.0, 5.0, 4.0, 3.0, 2.0, 1.0]).words("the times") == "the times fell to the end: never steady"
    assert trend([1.0, 2.0, 3.0, 4.0, 5.0]) == Trend(1, False), "too few to tell"
    assert trend([]).steady
