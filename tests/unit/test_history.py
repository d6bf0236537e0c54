"""Where an experiment became slower or faster over months; gaps, and other machines."""

import random
from datetime import date, timedelta

import kept
import numpy as np
from msgspec import structs

from regatta.records import trends
from regatta.records.record import Record
from regatta.report import history
from regatta.report.cases import cases

FIRST = kept.one("stars", "torch")


def run_of(day: date, seconds: float, release: str = "a" * 40, cores: int = 2) -> Record:
    made = kept.again(FIRST, f"run-{day}", times=seconds)
    nodes = tuple(structs.replace(node, cores=cores) for node in made.cluster.nodes)
    return structs.replace(
        made,
        identity=structs.replace(made.identity, started=f"{day}T12:00:00.000Z", release=release),
        phases=structs.replace(made.phases, total=seconds),
        cluster=structs.replace(made.cluster, nodes=nodes),
        series=None,
    )


def weekly(levels: list[float], seed: int = 1) -> list[Record]:
    """A run a week, with 2 % of noise."""
    dice, first = random.Random(seed), date(2026, 1, 5)
    return [run_of(first + timedelta(weeks=week), 10 * one * dice.gauss(1, 0.02)) for week, one in enumerate(levels)]


def lines(runs: list[Record]) -> list[str]:
    return [one.line for one in history.histories(cases(runs))]


def test_a_change_is_found_and_dated() -> None:
    slower = [
        structs.replace(run, identity=structs.replace(run.identity, release="b" * 40)) for run in weekly([1.2] * 20)[9:]
    ]
    (line,) = lines([*weekly([1.0] * 9), *slower])
    assert "torch × 2: 20 sessions since 2026-01-05: took 1.2" in line
    assert line.endswith(" times as long as before from 2026-03-09 on")
    twice = lines(weekly([1.0] * 10 + [1.3] * 10 + [0.8] * 10))[0]
    assert twice.count(" as long as before from ") == 2 and twice.endswith("on (same release)")
    assert lines(weekly([1.0] * 20)) == [line.partition(": took")[0] + ": no change is shown"]
    assert lines(weekly([1.0] * 4 + [2.0] * 3))[0].endswith(
        "7 sessions since 2026-01-05: too few sessions, 8 are needed"
    )


def test_gaps_and_other_machines_are_named() -> None:
    runs = weekly([1.0] * 24)
    moved = [structs.replace(one, cluster=run_of(date(2026, 1, 1), 1.0, cores=8).cluster) for one in runs[12:]]
    (line,) = lines([*runs[:6], *runs[11:12], *moved])
    assert "no session from 2026-02-09 to 2026-03-23" in line
    assert "other machines from 2026-03-30 on" in line


def test_of_histories_without_a_change_5_percent_show_one() -> None:
    dice = np.random.default_rng(3)
    found = [trends.changes(np.exp(dice.normal(0, 0.05, 20)).tolist()) for _ in range(200)]
    assert sum(map(bool, found)) <= 19


def test_the_table_and_the_pictures_show_it() -> None:
    found = history.histories(cases(weekly([1.0] * 9 + [1.2] * 9)))
    (row,) = history.table(found).rows
    assert row[2:4] == ("18", "2026-01-05 to 2026-05-04") and "as long as before from 2026-03-09 on" in row[-1]
    (picture,) = history.pictures(found)
    levels = {one["stretch"]: one["level"] for one in picture.rows}
    assert len(picture.rows) == 18 and sorted(levels) == [1, 2] and levels[2] > 1.15 * levels[1]  # type: ignore[operator]


def test_a_history_of_one_run() -> None:
    (line,) = lines([run_of(date(2026, 1, 1), 9.0)])
    assert line.endswith("1 session since 2026-01-01: too few sessions, 8 are needed")
    (one,) = history.histories(cases([run_of(date(2026, 1, 1), 9.0)]))
    assert list(history.pictures([one])) == [] and history.table([one]).rows[0][2] == "1"
