"""The end of a bench, as tables that fit a terminal."""

import pytest
from msgspec.structs import replace

from regatta.bench.findings import findings, lines
from regatta.experiments.plan_file import load
from regatta.experiments.plans import expand
from regatta.records.record import ClusterFacts, ExitInfo, NodeFacts, Phases, Record, RunIdentity, Series, Speed
from regatta.tasks.shown import bench


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


def test_many_frameworks_have_a_row_each_beside_the_single_process() -> None:
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
    said = bench("spectrum", "set", "lab", findings(points, records)).points[0]
    assert said.seconds["total"] == {name: seconds[name] + 3 for name in ran} and not said.refused + said.failed
    (against,) = [one for one in said.compared if (one.clock, one.framework, one.to) == ("total", ran[-1], ran[0])]
    assert against.ratio == pytest.approx((seconds[ran[-1]] + 3) / 13) and against.verdict == "faster"
    assert not [one for one in said.compared if "ray" in (one.framework, one.to)]


def test_answers_that_differ_are_told_without_clocks() -> None:
    (point,) = [point for point in expand(load("spectrum"), 2) if point.name == "spectrum-perfect-20000-w2"]
    one, other = (made(point.name, name, 1, 10.0) for name in point.frameworks[:2])
    said = bench("spectrum", "set", "lab", findings([point], [one, replace(other, answer={"sum": 2.0})])).points[0]
    assert (said.seconds, said.compared) == ({}, []) and any("sum" in text for text in said.refused)
