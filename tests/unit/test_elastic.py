"""What is left of a cluster and of a run when hosts are lost."""

from dataclasses import replace
from pathlib import Path

import pytest

from regatta import elastic, plan, training
from regatta.cluster import Cluster, build
from regatta.errors import UsageError

CORES = {"node1": 2, "node2": 2, "node3": 2}


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    hosts = {name: {"ansible_host": f"10.0.0.{number}"} for number, name in enumerate(CORES, 1)}
    listing = {"_meta": {"hostvars": hosts}, "head": {"hosts": ["node1"]}, "workers": {"hosts": [*CORES]}}
    return build("three", tmp_path, listing)


def test_the_others_are_left(cluster: Cluster) -> None:
    left = elastic.without(cluster, ["node3"])
    assert left is not None
    assert [node.name for node in left.nodes] == [node.name for node in left.workers] == ["node1", "node2"]


def test_nothing_goes_on_without_the_head_or_workers(cluster: Cluster) -> None:
    assert elastic.without(cluster, ["node1"]) is None
    apart = replace(cluster, workers=cluster.nodes[1:])
    assert elastic.without(apart, ["node2", "node3"]) is None


@pytest.mark.parametrize(("wanted", "ranks"), [(1, 1), (3, 3), (4, 4), (5, 4), (6, 4), (12, 8)])
def test_as_many_ranks_as_fit(wanted: int, ranks: int) -> None:
    assert elastic.ranks_left(wanted, CORES, ["node1", "node2"]) == ranks


def test_the_checkpoint_outlives_its_host() -> None:
    asked = training.Training("digits", restarts=1, elastic=True)
    assert "--checkpoint=hdfs:///checkpoints/{run}.pt" in asked.options(None, 1, 4)
    assert "--elastic=4" in asked.options(None, 1, 4)
    single = asked.options(None, 4, 4)
    assert "--batch=256" in single
    assert not [word for word in single if word.startswith("--elastic")]


def test_a_checkpoint_on_a_host_is_refused() -> None:
    asked = training.Training("digits", checkpoint="saved.pt", restarts=1, elastic=True)
    with pytest.raises(UsageError, match="outlive its host is in HDFS"):
        training.train(None, asked, ["torch"], workers=2, repeats=1, request=None)  # type: ignore[arg-type]


def test_generations_name_the_first_run() -> None:
    from test_plan import made, node

    first = made(1, {"n1": 1})
    assert "REGATTA_FIRST_RUN" not in plan.common_environment(first, node(1))
    assert plan.common_environment(replace(first, first_run="one"), node(1))["REGATTA_FIRST_RUN"] == "one"
