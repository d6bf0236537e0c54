"""The end of a bench, as tables that fit a terminal."""

import dataclasses
import random
import re

import pytest
import typed_json
from msgspec.structs import replace

from regatta.bench import order, until
from regatta.bench.findings import findings, lines
from regatta.experiments.plan_file import load
from regatta.experiments.plans import BenchPlan, expand
from regatta.records.record import ClusterFacts, ExitInfo, NodeFacts, Phases, Record, RunIdentity, Series, Speed
from regatta.tasks.shown import bench, say


def made(point: str, framework: str, index: int, total: float) -> Record:
    """A run of a point."""
    return Record(
        RunIdentity(f"{framework}-{index}", "perfect", framework, "2026-01-31T10:00:00Z", {}, release="abc"),
        ClusterFacts("lab", (NodeFacts("node1", "10.0.0.1", (0,)),)),
        Speed(threads=1),
        Phases(0.25, 0.5, 0.125, 0.5, total - 2.0, 0.625, total, 0.0),
        (),
        ExitInfo("succeeded", 0),
        answer={"sum": 1.0},
        tolerance={},
        series=Series(point, index, 6, "spectrum", "set", point),
    )


def test_many_frameworks_have_a_row_each_beside_the_single_process(capsys: pytest.CaptureFixture[str]) -> None:
    points = [point for point in expand(load("spectrum"), 2) if point.name == "spectrum-perfect-20000-w2"]
    (point,) = points
    ran = [name for name in point.frameworks if name != "ray"]
    seconds = {name: 10.0 / (1 + place) for place, name in enumerate(ran)}
    records = [made(point.name, name, index, seconds[name] + 3) for name in ran for index in range(1, 7)]
    shown = lines(findings(points, records))
    assert max(map(len, shown)) < 100, "a terminal has room for it"
    table = shown[1 : 2 + len(point.frameworks)]
    rows = {row.replace(point.name, " ").split()[0]: row for row in table[1:]}
    assert sorted(rows) == sorted(point.frameworks)
    assert rows["ray"].split()[-2:] == ["-", "-"], "what did not run"
    for name in ran[1:]:
        assert f"{(seconds[name] + 3) / 13:.2f}" in rows[name] and "faster" in rows[name]
    say(bench("spectrum", "set", "lab", findings(points, records)))
    (said,) = typed_json.read("bench", capsys.readouterr().out).points
    assert said.seconds["total"] == {name: seconds[name] + 3 for name in ran} and not said.refused + said.failed
    (against,) = [one for one in said.compared if (one.clock, one.framework, one.to) == ("total", ran[-1], ran[0])]
    assert against.ratio == pytest.approx((seconds[ran[-1]] + 3) / 13) and against.verdict == "faster"
    assert not [one for one in said.compared if "ray" in (one.framework, one.to)]


def test_answers_that_differ_are_told_without_clocks() -> None:
    (point,) = [point for point in expand(load("spectrum"), 2) if point.name == "spectrum-perfect-20000-w2"]
    one, other = (made(point.name, name, 1, 10.0) for name in point.frameworks[:2])
    said = bench("spectrum", "set", "lab", findings([point], [one, replace(other, answer={"sum": 2.0})])).points[0]
    assert (said.seconds, said.compared) == ({}, []) and any("sum" in text for text in said.refused)


def narrowing(spread: float, repeats: int, most: int = 18) -> tuple[BenchPlan, list[str], list[int]]:
    """A plan that continues until its ratios are known to 2 %, lines on it, and the repeats that are left to run."""
    plan = dataclasses.replace(load("spectrum"), repeats=most, until=0.02)
    (point,) = [point for point in expand(plan, 2) if point.name == "spectrum-perfect-20000-w2"]
    point = dataclasses.replace(point, frameworks=("single", "torch"))
    dice = random.Random(1)
    records = [
        made(point.name, name, index, 10 * (1 + dice.uniform(-spread, spread)))
        for name in point.frameworks
        for index in range(1, repeats + 1)
    ]
    keys = order.recorded(records)
    entries = until.left(plan, order.ordered(plan, [point]), records)
    left = sorted({entry.repeat for entry in entries if not entry.warm_up and entry.key not in keys})
    return plan, [*until.lines(plan, [point], records)], left


def test_a_point_is_repeated_until_its_ratios_are_narrow() -> None:
    assert narrowing(0.01, 7)[1:] == ([], [*range(8, 19)]), "before the first look"
    _, said, left = narrowing(0.01, 8)
    assert left == [] and len(said) == 1
    assert re.fullmatch(r"spectrum-perfect-20000-w2: ratios are known to [01]\.\d % after 8 pairs", said[0])
    _, said, left = narrowing(0.04, 9)
    assert left == [*range(10, 19)], "it continues between looks"
    assert re.search(r"after 8 pairs; 2 % would take about \d+ pairs", said[0])


def test_a_plan_that_can_never_be_narrow_enough_ends_and_says_so() -> None:
    _, said, left = narrowing(0.6, 18)
    assert left == []
    assert re.search(r"known to \d+\.\d % after 18 pairs; 2 % would take about [\d,]+ pairs, more than --max-", said[0])


def test_a_point_that_compares_nothing_ends_at_its_first_look() -> None:
    plan = dataclasses.replace(load("spectrum"), repeats=18, until=0.02)
    (point,) = [point for point in expand(plan, 2) if point.name == "spectrum-perfect-20000-w2"]
    point = dataclasses.replace(point, frameworks=("single", "torch"))
    records = [made(point.name, name, index, 10.0) for name in point.frameworks for index in range(1, 9)]
    failed = [replace(run, exit=ExitInfo("failed", 1)) if run.identity.framework == "torch" else run for run in records]
    entries = order.ordered(plan, [point])
    for found in (failed, [*records[:-1], replace(records[-1], answer={"sum": 2.0})]):
        assert max(entry.repeat for entry in until.left(plan, entries, found)) == 8
    assert until.left(dataclasses.replace(plan, until=None), entries, records) == entries
    assert entries[-1].series(plan, "set").looks == 3 and narrowing(0.01, 1, 6)[2] == [2, 3, 4, 5, 6]
