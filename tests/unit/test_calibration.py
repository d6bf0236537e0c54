"""The rate of false verdicts: runs of the same thing, taken as pairs of two names."""

import random

import kept
from msgspec import structs

from regatta.records import calibration
from regatta.records.record import Beside, Record, Series


def runs(times: list[float], plan: str = calibration.PLAN) -> list[Record]:
    first = kept.one("stars", "single")
    return [
        structs.replace(
            kept.again(first, f"run-{index}", times=factor),
            series=Series("set/same", index, len(times), plan, "set", "same"),
        )
        for index, factor in enumerate(times, 1)
    ]


def test_twelve_runs_are_a_verdict_by_each_timer() -> None:
    dice = random.Random(1)
    found = calibration.of(runs([1 + dice.random() for _ in range(12 * 4 + 5)]))
    assert [(one.clock, one.verdicts) for one in found] == [("total", 4), ("compute", 4)]
    assert all(0 <= one.false <= 1 for one in found)


def test_a_cluster_whose_second_run_is_always_slower_gives_no_false_verdicts() -> None:
    """Chance gives the names: what hits the second of two runs hits both names alike."""
    found = calibration.of(runs([1.0, 3.0] * 6 * 20))
    assert found[0].verdicts == 20 and found[0].false <= 3
    assert str(found[0]).startswith(f"{found[0].cluster}: {found[0].false} of 20 verdicts (total) are false, ")


def test_other_runs_and_those_that_failed_or_were_not_alone_do_not_count() -> None:
    times = [1 + index / 100 for index in range(12)]
    assert calibration.of(runs(times, "smoke")) == []
    good = runs(times)
    assert calibration.of([*good[1:], kept.failed(good[0])]) == []
    assert str(calibration.Calibration("lab", "total", 200, 0)).endswith(
        "0 of 200 verdicts (total) are false, 0.0 % (0.0 to 1.8 %)"
    )
    assert str(calibration.Calibration("lab", "total", 2, 2)).endswith("100.0 % (15.8 to 100.0 %)")


def test_the_bias_of_the_halves_and_verdicts_of_duets() -> None:
    """The second half is always slower: that is the bias, and no false verdict, as chance gives the names."""
    dice = random.Random(4)
    made = []
    for index, run in enumerate(runs([one * dice.uniform(0.99, 1.01) for _ in range(60) for one in (1.0, 1.1)])):
        assert run.series is not None
        partner = f"run-{index + 2 if index % 2 == 0 else index}"
        series = structs.replace(run.series, half=index % 2 + 1, partner=partner)
        beside = (Beside("localhost", (partner,)),)
        made.append(structs.replace(run, series=series, beside=beside))
    assert all(run.others == () for run in made)
    found = calibration.of(made)
    assert found[0].verdicts == 10 and found[0].false <= 2
    total, compute = calibration.biases(made)
    assert (total.clock, compute.clock, total.times.n) == ("total", "compute", 60)
    assert total.times.low is not None and 1.09 < total.times.low < 1.1 < (total.times.high or 0) < 1.11
    assert str(total).startswith(f"{total.cluster}: in duets of the same thing the second half of the cores took 1.")
    assert calibration.biases(runs([1.0] * 12)) == []
