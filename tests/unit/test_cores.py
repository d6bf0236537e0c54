"""Cores that hosts share: found out by what nodes tell, kept in records, said in plans and reports, and no verdict."""

import contextlib
import dataclasses
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import kept
import pytest
from msgspec import structs

from lab.cgroups import hierarchies
from lab.lifecycle import cores_text
from lab.model import Lab
from regatta.hosts import shared_cores
from regatta.node import cgroup, facts, standing
from regatta.paths import PROJECT
from regatta.records import compare, document
from regatta.records.record import Record
from regatta.report import across, charts, tables
from regatta.report.cases import cases
from regatta.report.summary import summarise

LAB = Lab("lab", 3, True, "bookworm", "/image", "10.98.7.0/24", str(PROJECT / "inventory/lab"))


def host(began: float, cpus: Sequence[int], **more: Any) -> dict[str, Any]:
    return {"kernel_began": began, "hardware": "a", "ram_bytes": 8, "kernel": "6.1", "cpus": [*cpus], **more}


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        (host(5.0, [0, 1]), host(5.0004, [0, 1]), True),
        (host(5.0, [0]), host(5.0, [1]), False),
        (host(5.0, [0, 1]), host(5.0, [1, 2]), True),
        (host(5.0, [0]), host(5.1, [0]), False),
        (host(5.0, [0]), host(5.0, [0], hardware="b"), False),
        (host(5.0, [0]), {"cores": 1}, False),
        (host(5.0, [0, 1], cpu_limit=0.9), host(5.0, [0, 1], cpu_limit=0.9), False),
        (host(5.0, [0, 1], cpu_limit=1.2), host(5.0, [0, 1], cpu_limit=0.9), True),
        (host(5.0, [0, 1], cpu_limit=0.4), host(5.0, [0, 1], cpu_limit=None), True),
        ({"cores": 1}, {"cores": 1}, False),
    ],
)
def test_hosts_share_cores_of_one_kernel(one: dict[str, Any], other: dict[str, Any], shared: bool) -> None:
    found = shared_cores.sharing({"a": one, "b": other, "c": host(99.0, [0])})
    assert found == {"a": ("b",) if shared else (), "b": ("a",) if shared else (), "c": ()}
    assert shared_cores.sharing({"a": one, "b": other}, ["a"]) == {"a": ()}


def test_two_looks_at_this_kernel_agree() -> None:
    place = {"python": "/usr/bin/python3"}
    one, other = facts.facts(place), facts.facts(place)
    assert shared_cores.one_machine(one, other)
    assert one["cpus"] == sorted(os.sched_getaffinity(0)) and len(one["cpus"]) == one["cores"]


@pytest.fixture
def quota() -> Iterator[Path]:
    """A cgroup of this process's own that has a quota of processor time."""
    for point in map(Path, ("/sys/fs/cgroup/cpu", "/sys/fs/cgroup")):
        folder = point / f"regatta-test-{os.getpid()}"
        files = {"cpu.cfs_period_us": "5000", "cpu.cfs_quota_us": "2000", "cpu.max": "2000 5000"}
        with contextlib.suppress(OSError):
            folder.mkdir()
            if there := [name for name in files if (folder / name).exists()]:
                for name in there:
                    (folder / name).write_text(files[name])
                yield folder
                folder.rmdir()
                return
            folder.rmdir()
    pytest.skip("no cgroup of cpu can be made here")


def test_the_part_of_a_core_that_a_process_may_use_and_how_long_it_was_held_back(quota: Path) -> None:
    inner = quota / "inner"
    inner.mkdir()
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        try:
            assert cgroup.cpu_limit(process.pid) != 0.4
            before = standing._throttled([process.pid])
            (inner / "cgroup.procs").write_text(str(process.pid))
            assert cgroup.cpu_limit(process.pid) == 0.4
            end = time.monotonic() + 30
            while standing._throttled([process.pid]) <= before and time.monotonic() < end:
                time.sleep(0.05)
            assert standing._throttled([process.pid]) > before
        finally:
            process.kill()
            process.wait()
            inner.rmdir()


def on(record: Record, nodes: Mapping[str, tuple[Sequence[int], Sequence[str]]], name: str, times: float) -> Record:
    """The run with its ranks on these nodes, which share cores with others."""
    first = record.cluster.nodes[0]
    made = tuple(
        structs.replace(first, name=node, ranks=tuple(ranks), shares=tuple(shares))
        for node, (ranks, shares) in nodes.items()
    )
    again = kept.again(record, name, times=times)
    return structs.replace(again, cluster=structs.replace(record.cluster, nodes=made))


TORCH, RAY, SINGLE = (kept.one("stars", name) for name in ("torch", "ray", "single"))
APART = {"node1": ([0], ()), "node2": ([1], ())}
TOGETHER = {"node1": ([0], ["node2"]), "node2": ([1], ["node1"])}
ALONE = {"node1": ([0], ())}


def six(record: Record, nodes: Any, name: str, times: float = 1.0) -> list[Record]:
    series = record.series
    assert series
    return [
        structs.replace(
            on(record, nodes, f"{name}{index}", times + index / 100), series=structs.replace(series, index=index)
        )
        for index in range(1, 7)
    ]


def test_no_verdict_where_one_side_shares_cores() -> None:
    single, apart, together = six(SINGLE, ALONE, "s", 2), six(TORCH, APART, "a"), six(TORCH, TOGETHER, "t")
    honest, shared = compare.ratio(single, apart), compare.ratio(single, together)
    assert honest and shared
    assert honest.verdict in ("faster", "slower") and shared.verdict == "cores shared"
    assert shared.inverse.verdict == "cores shared" and shared.value == honest.value
    words = compare.compare({"single": single, "torch": together}).words
    assert any("no verdict, as ranks share cores" in line for line in words)
    assert not any("beat one process" in line for line in words)
    assert "node1, node2 have the same cores of one machine: how the work scales over them is not seen." in words


def test_of_hosts_with_parts_of_cores_it_is_said_what_they_share() -> None:
    def parts(record: Record) -> Record:
        nodes = tuple(structs.replace(node, cores=1, cpu_limit=0.4) for node in record.cluster.nodes)
        return structs.replace(record, cluster=structs.replace(record.cluster, nodes=nodes))

    single, torch = ([*map(parts, six(*words))] for words in ((SINGLE, ALONE, "s", 2), (TORCH, APART, "a")))
    found = compare.ratio(single, torch)
    assert found and found.verdict == "faster"
    words = compare.compare({"single": single, "torch": torch}).words
    assert any(line.startswith("node1 (0.4), node2 (0.4) may use") and "memory bandwidth" in line for line in words)


def test_frameworks_on_the_same_shared_cores_are_compared() -> None:
    torch, ray = six(TORCH, TOGETHER, "t"), six(RAY, TOGETHER, "r", 3)
    found = compare.ratio(torch, ray)
    assert found and found.verdict == "slower"


def test_more_ranks_than_cores_share_them() -> None:
    crowd = on(TORCH, {"node1": ([0, 1, 2], ())}, "crowd", 1)
    cores = crowd.cluster.nodes[0].cores
    assert cores == 2 and crowd.cores_shared
    assert not on(TORCH, {"node1": ([0, 1], ())}, "fits", 1).cores_shared


def test_a_record_keeps_who_shares_and_older_ones_say_nothing() -> None:
    record = on(TORCH, TOGETHER, "t", 1)
    text = document.to_dict(record)
    assert [node["shares"] for node in text["cluster"]["nodes"]] == [["node2"], ["node1"]]
    for node in text["cluster"]["nodes"]:
        del node["shares"]
    old = document.parse(json.dumps({**text, "schema_version": 6}), "old")
    assert [node.shares for node in old.cluster.nodes] == [(), ()]


def test_the_report_says_it_in_tables_and_charts() -> None:
    runs = [*six(SINGLE, ALONE, "s", 2), *six(TORCH, TOGETHER, "t")]
    (summary,) = summarise(cases(runs))
    (table,) = tables.ratios([summary])
    assert {row[-2:] for row in table.rows} == {("cores shared", "–")}
    assert {row["cores"] for row in charts.speedups(summary) if "speedup" in row} == {"shared"}


def test_nodes_of_a_lab_have_cores_of_their_own_while_there_are_some() -> None:
    here = sorted(os.sched_getaffinity(0))
    assert LAB.node(2).cpus == here
    pinned = dataclasses.replace(LAB, nodes=len(here) + 1, cores=1)
    assert [node.cpus for node in pinned.all_nodes()] == [*([core] for core in here), here[:1]]
    assert "SHARED" in cores_text(pinned)
    assert "SHARED" not in cores_text(dataclasses.replace(pinned, nodes=len(here)))
    parts = dataclasses.replace(LAB, nodes=2 * len(here), cores=0.4)
    assert parts.node(3).cpus == here and "SHARED" not in cores_text(parts)
    assert "SHARED" in cores_text(dataclasses.replace(parts, nodes=3 * len(here)))
    assert hierarchies()


def task(milliseconds: float, framework: str, compute: float, total: float, index: int) -> Record:
    nodes = ALONE if framework == "single" else APART
    base = on(SINGLE if framework == "single" else TORCH, nodes, f"{framework}-{milliseconds}-{index}", 1)
    options = [f"--milliseconds={milliseconds:g}", "--tasks=100"]
    parameters = {"options": options, "workers": len(nodes), "size": 100}
    identity = structs.replace(base.identity, workload="task-length", framework=framework, parameters=parameters)
    phases = structs.replace(base.phases, compute=compute, total=total)
    assert base.series
    series = structs.replace(base.series, label=f"tasks-{milliseconds:g}", index=index)
    return structs.replace(base, identity=identity, phases=phases, series=series)


def test_from_which_length_on_a_framework_pays() -> None:
    runs = []
    for milliseconds in (1.0, 10.0, 100.0, 1000.0):
        alone = milliseconds / 10
        for index in range(1, 3):
            runs.append(task(milliseconds, "single", alone, alone + 0.5, index))
            runs.append(task(milliseconds, "torch", alone / 2 + 0.5, alone / 2 + 3, index))
    found = across.tasks(summarise(cases(runs)))
    assert [round(one.length * 1000) for one in found] == [1000, 100, 10, 1] or len(found) == 4
    assert {round(one.overhead, 6) for one in found} == {0.01}
    crossing, end_to_end = across.crossing(found, "compute"), across.crossing(found, "total")
    assert crossing and 0.01 <= crossing < 0.02, "half of 1 s is saved, and half a second lost"
    assert end_to_end and 0.04 < end_to_end < 0.06
    (table,) = across.tables(summarise(cases(runs)))
    assert table.rows[0][0] == "torch × 2"
    drawn = {picture.kind: picture for picture in across.pictures(summarise(cases(runs)))}
    assert drawn.keys() == {"overhead", "crossing"}
    (paid,) = re.findall(r"End to end, torch × 2 beats one process from ([\d.]+) ms on\.$", drawn["crossing"].about)
    assert 40 < float(paid) < 60


def test_one_thread_that_does_it_better_stands_beside() -> None:
    runs = []
    for method, seconds in (("loop", 10.0), ("sieve", 0.5)):
        for framework, workers in (("single", 1), ("multiprocessing", 1), ("multiprocessing", 2)):
            base = on(SINGLE, ALONE, f"{method}-{framework}-{workers}", 1)
            options = [f"--method={method}"]
            identity = structs.replace(
                base.identity,
                workload="perfect",
                framework=framework,
                parameters={"options": options, "workers": workers, "size": 20_000},
            )
            took = seconds if framework == "single" else seconds / workers + 1
            phases = structs.replace(base.phases, total=took, compute=took)
            assert base.series
            series = structs.replace(base.series, label=f"{method}-{workers}")
            runs.append(structs.replace(base, identity=identity, phases=phases, series=series))
    loop = next(picture for picture in across.pictures(summarise(cases(runs))) if "sieve" in picture.about)
    assert "One thread by sieve takes 0.50 s and beats every configuration" in loop.about
    assert {row["method"] for row in loop.rows if "method" in row} == {"sieve", "the loop, one process"}
