"""The rest of a cluster and of a run when hosts are lost."""

import io
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from regatta.cards import discovery
from regatta.errors import RunFailedError, UsageError
from regatta.experiments.invocation import Invocation
from regatta.frameworks import plan
from regatta.hosts import selection
from regatta.hosts.cluster import Cluster
from regatta.hosts.inventories import build
from regatta.options.declaration import RunOptions
from regatta.run import elastic, placement
from regatta.run.request import Request
from regatta.terminal.console import Console

CORES = {"node1": 2, "node2": 2, "node3": 2}


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    hosts = {name: {"ansible_host": f"10.0.0.{number}"} for number, name in enumerate(CORES, 1)}
    listing = {"_meta": {"hostvars": hosts}, "head": {"hosts": ["node1"]}, "workers": {"hosts": [*CORES]}}
    return build("three", tmp_path, listing)


def test_the_others_are_left(cluster: Cluster) -> None:
    left = selection.without(cluster, ["node3"])
    assert left is not None
    assert [node.name for node in left.nodes] == [node.name for node in left.workers] == ["node1", "node2"]


def test_nothing_goes_on_without_the_head_or_workers(cluster: Cluster) -> None:
    assert selection.without(cluster, ["node1"]) is None
    apart = replace(cluster, workers=cluster.nodes[1:])
    assert selection.without(apart, ["node2", "node3"]) is None


@pytest.mark.parametrize(("wanted", "ranks"), [(1, 1), (3, 3), (4, 4), (5, 4), (6, 4), (12, 8)])
def test_as_many_ranks_as_fit(wanted: int, ranks: int) -> None:
    assert placement.ranks_left(wanted, CORES, 4) == ranks


@pytest.mark.parametrize(
    ("wanted", "ranks", "visible"),
    [
        (16, [16, 12, 8, 4], ()),
        (8, [8, 6, 4, 2], ()),
        (None, [8, 6, 4, 2], ()),
        (3, [3, 3, 3, 2], ()),
        (16, [16, 6, 4, 2], ("0",)),
    ],
)
def test_each_loss_counts_from_the_first_run(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, wanted: int | None, ranks: list[int], visible: tuple[str, ...]
) -> None:
    """Four hosts of two cores lose one after the other. A run on GPUs then asks for no number: it has one a GPU."""
    cards = {"node1": plan.Cards(visible)}
    cores = dict.fromkeys(("node1", "node2", "node3", "node4"), 2)
    node4 = replace(cluster.nodes[-1], name="node4")
    cluster = replace(cluster, nodes=(*cluster.nodes, node4), workers=(*cluster.workers, node4))
    started: list[int] = []

    class Losing:
        """A session in which every run loses the last host, until one is left."""

        def __init__(self, cluster: Cluster, console: Console, results: Path) -> None:
            self.cluster, self.console, self.results = cluster, console, results

        def __enter__(self) -> "Losing":
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def cores(self) -> dict[str, int]:
            return cores

        def begin(self, request: Request) -> SimpleNamespace:
            return SimpleNamespace(request=request, ready=SimpleNamespace(plan=SimpleNamespace(cards=cards)))

        def finish(self, begun: SimpleNamespace) -> int:
            request = begun.request
            started.append(request.options.workers or sum(cores[node.name] for node in self.cluster.workers))
            if len(self.cluster.workers) > 1:
                raise RunFailedError("lost", 1, self.cluster.workers[-1].name)
            return 0

    monkeypatch.setattr(elastic, "Session", Losing)
    monkeypatch.setattr(elastic, "_lost", lambda session, error: [error.host])
    said = RunOptions(wanted, restarts=3, elastic=True)
    asked = Request(plan.Program.script("a.py", []), "torch", Path(), said)
    elastic.run(Losing(cluster, Console(io.StringIO(), io.StringIO()), Path()), asked)  # type: ignore[arg-type]
    assert started == ranks


def test_the_checkpoint_outlives_its_host() -> None:
    asked = Invocation(discovery.ours()["digits"], restarts=1, elastic=True)
    assert "--checkpoint=hdfs:///checkpoints/{run}.pt" in asked.words(4)
    assert "--elastic=4" in asked.words(4)
    single = asked.words(4, alone=True)
    assert "--batch=256" in single
    assert not [word for word in single if word.startswith("--elastic")]


def test_a_checkpoint_on_a_host_is_refused() -> None:
    asked = Invocation(discovery.ours()["digits"], checkpoint="saved.pt", restarts=1, elastic=True)
    with pytest.raises(UsageError, match="outlive its host is in HDFS"):
        asked.check(runs=1)


def test_generations_name_the_first_run() -> None:
    from test_plan import made, node

    first = made(1, {"n1": 1})
    assert "REGATTA_FIRST_RUN" not in plan.common_environment(first, node(1))
    assert plan.common_environment(replace(first, first_run="one"), node(1))["REGATTA_FIRST_RUN"] == "one"
