"""What a run asks of the cluster's queue, and what a person reads while it waits."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
import typed_json
import yaml
from test_plan import made, node

from regatta.errors import UsageError
from regatta.frameworks import registry
from regatta.frameworks.plan import Cards
from regatta.hosts.cluster import Cluster
from regatta.node import holder
from regatta.node import queue as node_queue
from regatta.options.declaration import RunOptions
from regatta.paths import PROJECT
from regatta.run import gpus, queue
from regatta.tasks import shown
from regatta_protocol.operations.launch import Inspected
from regatta_protocol.operations.queue import Entry, QueueWord

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
    found = queue.wanted(made(workers, cores, framework=framework), registry.find(framework), cluster, {}, slurm=True)
    assert (found and (found.wanted, found.only)) == asked


def test_a_run_that_says_its_cores_asks_for_these_on_as_many_nodes() -> None:
    shares = made(4, CORES, options=RunOptions(cores=2))
    found = queue.wanted(shares, registry.find("torch"), CLUSTER, {}, slurm=True)
    assert found and (found.wanted, found.ranks, found.cores) == (3, 4, 2)
    with pytest.raises(UsageError, match="ray places work itself"):
        plan = made(1, CORES, framework="ray", options=RunOptions(cores=2))
        queue.wanted(plan, registry.find("ray"), CLUSTER, {}, slurm=True)


def test_without_slurm_a_run_asks_for_all_workers() -> None:
    found = queue.wanted(made(1, CORES), registry.find("torch"), CLUSTER, {}, slurm=False)
    assert found and (found.wanted, found.only) == (3, ("n1", "n2", "n3"))


@pytest.mark.parametrize(
    ("own", "cores", "asked"),
    [
        (("0", "1"), None, (1, (), 2, 4, 2)),  # two ranks of one card each: a quarter of 16 cores a card
        (("0", "1"), 1, (1, (), 2, 1, 2)),
        (("MIG-1", "MIG-2"), None, (1, ("n1",), 0, None, 0)),
    ],
)
def test_a_run_with_gpus_asks_for_its_cards_and_as_large_a_part_of_the_cores(
    own: tuple[str, ...], cores: int | None, asked: tuple[int, tuple[str, ...], int, int | None, int]
) -> None:
    plan = made(2, {"n1": 16}, cards={"n1": Cards(own, own)}, options=RunOptions(cores=cores))
    facts = {"n1": {"cores": 16, "gpus": {"cards": [{}] * 4}}}
    found = queue.wanted(plan, registry.find("torch"), CLUSTER, facts, slurm=True)
    assert found and (found.wanted, found.only, found.ranks, found.cores, found.gpus) == asked


def test_what_slurm_has_granted_is_read_from_what_it_shows() -> None:
    shown = """\
   JOB_GRES=gpu:3
     Nodes=n1 CPU_IDs=0-1,4 Mem=512 GRES=gpu:2(IDX:0,2)
     Nodes=n2 CPU_IDs=3 Mem=512 GRES=gpu:h200:1(IDX:1-2)
     Nodes=n3 CPU_IDs=0 Mem=512 GRES=
"""
    assert [
        (node, holder.numbers(cpus), cards and holder.numbers(cards)) for node, cpus, cards in holder.shown(shown)
    ] == [
        ("n1", [0, 1, 4], [0, 2]),
        ("n2", [3], [1, 2]),
        ("n3", [0], ""),
    ]


def test_the_cards_that_are_granted_are_in_the_order_of_their_files() -> None:
    cards = [{"uuid": uuid, "minor": minor} for uuid, minor in (("a", 3), ("b", 0), ("c", 1))]
    answer = Inspected(facts={"gpus": {"cards": cards}}, gpus_taken=("a",))
    of_turn = gpus.granted(answer, (0, 2), waits=False)
    assert [card["uuid"] for card in of_turn.facts["gpus"]["cards"]] == ["b", "a"]
    assert gpus.granted(answer, None, waits=True).gpus_taken == () != gpus.granted(answer, None, waits=False).gpus_taken


def test_programs_get_the_queue_by_its_type(capsys: pytest.CaptureFixture[str]) -> None:
    shown.say(shown.queue("three", [Entry(1, "mnist", "ann on laptop", True, nodes=("n1",), since=0.0)]))
    (entry,) = typed_json.read("queue", capsys.readouterr().out).entries
    assert (entry.run, entry.holds, entry.nodes, entry.since) == ("mnist", True, ["n1"], 0.0)


def test_a_run_that_waits_says_for_whom() -> None:
    first = Entry(1, "mnist", "ann on laptop", True, nodes=("n1",), since=0.0)
    others = [Entry(number, f"run-{number}", "bob on pc", False) for number in range(2, 7)]
    said = queue.waiting("mine", [first, *others])
    assert said.startswith("mine waits for its turn: mnist (ann on laptop) holds nodes; run-2 (bob on pc), ")
    assert "run-4 (bob on pc) and 2 more are ahead. " in said
    assert "a job of Slurm) holds" in queue.waiting("mine", [Entry(1, "theirs", "", True)])
    said = []
    turn = queue.Turn.__new__(queue.Turn)
    turn.run, turn._say = "mine", said.append
    assert turn._granted(iter([QueueWord(down=("n2",)), QueueWord(granted=("n1",))])) == ("n1",)
    assert "Slurm gives no run to n2" in said[0] and "verify" in said[0]


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
    monkeypatch.setattr(node_queue, "COPIES", str(tmp_path))
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


def test_what_holds_nodes_is_confined_as_the_units_of_its_role_are() -> None:
    """It runs on the head, which the controller does not tell what a role's variables are."""
    confined = yaml.safe_load((PROJECT / "ansible/roles/slurm/vars/main.yml").read_text())["_slurm_confined"]
    assert {*confined} <= {*node_queue._CONFINED}
