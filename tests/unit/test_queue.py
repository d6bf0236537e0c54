"""What a run asks of the cluster's queue, and what a person reads while it waits."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from test_plan import made, node

from regatta.errors import UsageError
from regatta.frameworks import registry
from regatta.hosts.cluster import Cluster
from regatta.node import queue as node_queue
from regatta.options.declaration import RunOptions
from regatta.run import queue
from regatta_protocol.operations.queue import Entry

NODES = tuple(node(number) for number in (1, 2, 3))
CLUSTER = Cluster("three", Path(), NODES, NODES, NODES[0])
CORES = {"n1": 2, "n2": 2, "n3": 2}


@pytest.mark.parametrize(
    ("framework", "workers", "cores", "cluster", "asked"),
    [
        ("torch", 2, CORES, CLUSTER, (2, ())),
        ("torch", 6, CORES, CLUSTER, (3, ())),
        ("torch", 2, CORES, replace(CLUSTER, nodes=NODES[:2], workers=NODES[:2], inventory=NODES), (2, ("n1", "n2"))),
        ("ray", 1, CORES, CLUSTER, (3, ("n1", "n2", "n3"))),
        ("single", 1, {"n1": 2}, CLUSTER, (1, ("n1",))),
        ("single", 1, {"n1": 2}, replace(CLUSTER, workers=NODES[1:]), None),
    ],
)
def test_a_run_asks_for_the_nodes_of_its_plan_or_for_all_where_its_engine_places_work(
    framework: str, workers: int, cores: dict[str, int], cluster: Cluster, asked: tuple[int, tuple[str, ...]] | None
) -> None:
    found = queue.wanted(made(workers, cores, framework=framework), registry.find(framework), cluster)
    assert (found and (found.wanted, found.only)) == asked


def test_a_run_that_says_its_cores_asks_for_these_on_as_many_nodes() -> None:
    shares = made(4, CORES, options=RunOptions(cores=2))
    found = queue.wanted(shares, registry.find("torch"), CLUSTER)
    assert found and (found.wanted, found.ranks, found.cores) == (3, 4, 2)
    with pytest.raises(UsageError, match="ray places work itself"):
        queue.wanted(made(1, CORES, framework="ray", options=RunOptions(cores=2)), registry.find("ray"), CLUSTER)


def test_a_run_that_waits_says_for_whom() -> None:
    first = Entry(1, "mnist", "ann on laptop", True, nodes=("n1",), since=0.0)
    others = [Entry(number, f"run-{number}", "bob on pc", False) for number in range(2, 7)]
    said = queue.waiting("mine", [first, *others])
    assert said.startswith("mine waits for its turn: mnist (ann on laptop) holds nodes; run-2 (bob on pc), ")
    assert "run-4 (bob on pc) and 2 more are ahead. " in said
    assert "a job of Slurm) holds" in queue.waiting("mine", [Entry(1, "theirs", "", True)])


def waits(job: int, priority: int, nice: int = 0, holds: bool = False) -> Entry:
    return Entry(job, f"run-{job}", "ann", holds, ours=True, priority=priority, nice=nice)


@pytest.mark.parametrize(
    ("own", "nice", "priority", "others"),
    [
        ([], 0, 1_000_000, {}),
        ([waits(1, 1_000_000, holds=True)], 0, 999_999, {}),
        ([waits(1, 1_000_000, holds=True), waits(2, 999_999)], 0, 999_998, {}),
        ([waits(1, 999_999), waits(2, 999_998)], -100, 999_999, {1: 999_998, 2: 999_997}),
        ([waits(1, 999_999, -100), waits(2, 999_998)], -100, 999_998, {2: 999_997}),
        ([waits(1, 999_999), waits(2, 999_998, 100)], 0, 999_998, {2: 999_997}),
        ([waits(1, 999_999), waits(2, 999_998)], 100, 999_997, {}),
    ],
)
def test_a_priority_is_a_place_among_a_persons_own_runs(
    own: list[Entry], nice: int, priority: int, others: dict[int, int]
) -> None:
    assert node_queue.placed(own, nice) == (priority, others)
    assert queue.nice(queue.priority(nice)) == nice


def test_copies_of_runs_that_left_the_queue_go_but_not_while_slurm_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_queue, "_COPIES", str(tmp_path))
    for name in ("waits", "scancelled", ".known", ".starting"):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (0, 0))
    (tmp_path / "just-submitted").touch()
    node_queue._drop_copies({"waits"})
    assert {path.name for path in tmp_path.iterdir()} == {
        "waits",
        "scancelled",
        "just-submitted",
        ".known",
        ".starting",
    }
    (tmp_path / ".starting").unlink()
    node_queue._drop_copies({"waits"})
    assert {path.name for path in tmp_path.iterdir()} == {"waits", "just-submitted", ".known"}
