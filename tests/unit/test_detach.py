"""A run without a controller is placed on the nodes that it is granted, as if it had been planned on these."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_plan import made, node

from regatta.frameworks.plan import Cards, Plan
from regatta.hosts.cluster import Cluster
from regatta.node import detached
from regatta.options.declaration import RunOptions
from regatta.run import detach, launch, placement
from regatta_protocol.decoding import decode, encode
from regatta_protocol.operations.queue import Carried
from regatta_protocol.states import Mode

NODES = tuple(node(number) for number in range(1, 12))
CLUSTER = Cluster("eleven", Path(), NODES, NODES, NODES[0])
ALIKE = {one.name: 2 for one in NODES}


def brought(plan: Plan, cores: dict[str, int], *only: str) -> tuple[Carried, bool]:
    """What the job of a plan brings, and whether it needs certain nodes."""
    facts = {name: {"cores": own, "name": name} for name, own in cores.items()}
    said, fixed = detach.carried(CLUSTER, plan, {"identity": {}}, facts, [CLUSTER.node(name) for name in only])
    return decode(Carried, json.loads(json.dumps(encode(said)))), fixed


def planned(plan: Plan, names: Sequence[str], cores: dict[str, int]) -> dict[str, Any]:
    """What these nodes start where a controller has planned the run on them."""
    ranks = placement.spread(len(plan.ranks), [CLUSTER.node(name) for name in names], cores)
    own = replace(plan, ranks=ranks, threads=placement.threads(ranks, cores))
    return {
        name: encode(asked.spec.changed(record={"identity": {}, "facts": {"cores": cores[name], "name": name}}))
        for name, asked in launch.requests(CLUSTER, own, lambda _: {}).items()
    }


@pytest.mark.parametrize(("framework", "launcher"), [("torch", "env"), ("torch", "static"), ("torch", "c10d")])
def test_each_granted_node_starts_what_a_plan_on_them_has(framework: str, launcher: str) -> None:
    plan = made(5, {"n1": 2, "n2": 2, "n3": 2}, framework=framework, launcher=launcher, options=RunOptions())
    said, fixed = brought(plan, ALIKE)
    assert not fixed and len(said.forms) == 1
    for granted in (["n1", "n2", "n3"], ["n11", "n2", "n10"], ["n4", "n1", "n11"]):
        order = sorted(granted, key=lambda name: int(name[1:]))
        expected = planned(plan, order, ALIKE)
        for name in granted:
            start = detached.part(said, granted, name)
            assert start is not None and encode(start.spec) == expected[name]


def test_hosts_of_several_kinds_have_ranks_by_their_cores() -> None:
    cores = {**ALIKE, "n2": 8, "n5": 8}
    plan = made(10, {"n1": 2, "n2": 8})
    said, fixed = brought(plan, cores)
    assert not fixed and len(said.forms) == 3
    for granted, ranks in {("n3", "n4"): (5, 5), ("n5", "n3"): (8, 2), ("n5", "n2"): (5, 5)}.items():
        for name, count in zip(granted, ranks, strict=True):
            start = detached.part(said, granted, name)
            assert start is not None and len(start.spec.ranks) == count
    few = brought(made(2, {"n1": 2, "n3": 2}), {**ALIKE, "n2": 16})[0]
    assert detached.part(few, ["n2", "n1"], "n2") is None or detached.part(few, ["n2", "n1"], "n1") is None


def test_the_ports_of_ranks_go_with_them() -> None:
    plan = made(
        5, {"n1": 2, "n2": 2, "n3": 2}, framework="tensorflow", ports={"n1": (7, 8), "n2": (9, 10), "n3": (11,)}
    )
    said, fixed = brought(plan, ALIKE)
    assert not fixed
    starts = [detached.part(said, ["n6", "n7", "n8"], name) for name in ("n6", "n7", "n8")]
    found = {rank.env["TF_CONFIG"] for start in starts if start for rank in start.spec.ranks}
    places = ["10.0.0.6:7", "10.0.0.6:8", "10.0.0.7:7", "10.0.0.7:8", "10.0.0.8:7"]
    assert len(found) == 5 and all(all(f'"{place}"' in one for place in places) for one in found)


def test_a_run_that_is_bound_to_hosts_keeps_them() -> None:
    said, fixed = brought(made(2, {"n2": 2}), ALIKE, "n2")
    assert fixed and [*said.nodes] == ["n2"]
    start = detached.part(said, ["n2"], "n2")
    assert start is not None and encode(start.spec) == planned(made(2, {"n2": 2}), ["n2"], ALIKE)["n2"]
    every_kind = {name: number for number, name in enumerate(ALIKE, 1)}
    said, fixed = brought(made(6, {"n1": 1, "n2": 2, "n3": 3}), every_kind)
    assert fixed and [*said.nodes] == ["n1", "n2", "n3"]
    said, fixed = brought(made(1, {"n3": 1}, framework="ray"), ALIKE, *ALIKE)
    assert fixed and [*said.nodes] == [*ALIKE]
    members = [detached.part(said, [*ALIKE], name) for name in ALIKE]
    assert [one.spec.mode for one in members if one] == [Mode.UNIT, *[Mode.MEMBER] * 10]


def test_ranks_that_say_their_cores_are_spread_evenly_and_stay_on_those_that_are_granted() -> None:
    cores = {**ALIKE, "n2": 8}
    said, fixed = brought(made(3, {"n1": 2, "n3": 2}, options=RunOptions(cores=2)), cores)
    assert not fixed and said.shares
    for granted, ranks in {("n1", "n3"): (2, 1), ("n1", "n2"): (2, 1)}.items():
        for name, count in zip(granted, ranks, strict=True):
            start = detached.part(said, granted, name, [4, 5, 6, 7])
            assert start is not None and len(start.spec.ranks) == count and start.spec.cpus == (4, 5, 6, 7)
            assert start.spec.record["facts"]["cores"] == 4
            assert {rank.env.get("OMP_NUM_THREADS", "2") for rank in start.spec.ranks} == {"2"}


def test_a_run_on_gpus_shares_a_node_by_the_cards_that_are_granted() -> None:
    cards = [{"visible": str(number), "uuid": f"GPU-{number}", "name": "A", "minor": number} for number in (3, 2, 1, 0)]
    facts = {name: {"cores": 8, "name": name, "gpus": {"cards": cards[: 4 if name < "n2" else 2]}} for name in ALIKE}
    facts["n4"]["gpus"] = {}
    plan = made(2, {"n3": 2}, cards={"n3": Cards(("2", "3"), ("GPU-2", "GPU-3"))}, options=RunOptions())
    said, fixed = detach.carried(CLUSTER, plan, {"identity": {}}, facts)
    said = decode(Carried, json.loads(json.dumps(encode(said))))
    assert said.shares and not fixed and {*said.nodes} == {*ALIKE} - {"n4"}
    for granted, own in (((1, 3), ("1", "3")), ((0, 1), ("0", "1")), ((), ("0", "1"))):
        start = detached.part(said, ["n1"], "n1", [6, 7], granted)
        assert start is not None and start.spec.gpus == tuple(f"GPU-{one}" for one in own)
        assert start.spec.env["CUDA_VISIBLE_DEVICES"] == ",".join(own) and start.spec.cpus == (6, 7)
        assert [rank.env["REGATTA_GPUS"] for rank in start.spec.ranks] == ["0", "1"]
    mine = replace(plan, variables={"CUDA_VISIBLE_DEVICES": "7"})
    start = detached.part(detach.carried(CLUSTER, mine, {"identity": {}}, facts)[0], ["n1"], "n1", [6], [1, 3])
    assert start is not None and start.spec.env["CUDA_VISIBLE_DEVICES"] == "7"
    parts = replace(plan, cards={"n3": Cards(("MIG-a", "MIG-b"), ("MIG-a", "MIG-b"))})
    said, fixed = detach.carried(CLUSTER, parts, {"identity": {}}, facts)
    assert fixed and not said.shares


def test_a_node_that_came_later_is_named() -> None:
    said, _ = brought(made(2, {"n1": 2}), ALIKE)
    with pytest.raises(KeyError, match="n99"):
        detached.part(said, ["n99"], "n99")
