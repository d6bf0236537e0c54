"""Which hosts a run uses: those that are named, those that answer; never without the head."""

import socket
from dataclasses import replace
from pathlib import Path

import pytest

from regatta import paths
from regatta.errors import NodesError, RegattaError, UsageError
from regatta.frameworks import plan
from regatta.hosts import selection
from regatta.hosts.cluster import Cluster
from regatta.hosts.remote import Remote
from regatta.hosts.selection import Selection
from regatta.options.declaration import RunOptions
from regatta.records import store
from regatta.report import show
from regatta.run.request import Request
from regatta.run.session import Session
from regatta.tasks.launching import advising
from regatta.terminal.console import Console


@pytest.fixture
def down(pair: Remote) -> Cluster:
    """Two hosts, one of which is there and refuses to be talked to: nothing listens at its port."""
    here, there = pair.cluster.nodes
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    lost = replace(there, local=False, host="127.0.0.1", port=port)
    return replace(pair.cluster, nodes=(here, lost), workers=(here, lost), inventory=(here, lost))


@pytest.mark.parametrize(
    ("chosen", "names"),
    [
        (Selection(nodes="here"), ["here"]),
        (Selection(nodes=" here , there "), ["here", "there"]),
        (Selection(without="there"), ["here"]),
        (Selection(nodes="here,there", without="there"), ["here"]),
        (Selection(), ["here", "there"]),
    ],
)
def test_hosts_are_chosen_by_name(pair: Remote, chosen: Selection, names: list[str]) -> None:
    cluster = replace(pair.cluster, inventory=pair.cluster.nodes)
    said: list[str] = []
    left = chosen.of(cluster, said.append)
    assert [node.name for node in left.nodes] == [node.name for node in left.workers] == names
    assert left.everybody == cluster.nodes
    assert bool(said) == (names == ["here"]) and all("there" in line for line in said)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (Selection(nodes="here,nowhere"), "nowhere"),
        (Selection(without="nowhere"), "nowhere"),
        (Selection(nodes="there"), "here"),
        (Selection(without="here"), "here"),
        (Selection(without="here,there"), "here"),
        (Selection(nodes=""), "--nodes"),
        (Selection(nodes=","), "--nodes"),
        (Selection(without=""), "--without"),
    ],
)
def test_what_leaves_no_cluster_is_refused(pair: Remote, wrong: Selection, named: str) -> None:
    with pytest.raises(UsageError, match=named):
        wrong.of(pair.cluster, print)


def test_a_head_that_runs_no_ranks_is_not_enough(pair: Remote) -> None:
    here, there = pair.cluster.nodes
    apart = replace(pair.cluster, workers=(there,))
    assert here.name == apart.head.name
    with pytest.raises(UsageError, match="there"):
        Selection(without="there").of(apart, print)


def test_a_head_that_does_not_answer_is_not_skipped(down: Cluster) -> None:
    _, lost = down.nodes
    with pytest.raises(UsageError, match="there"):
        Selection(skip_lost=True).of(replace(down, head=lost), print)


def test_a_run_goes_on_without_a_host_that_is_down_and_says_so(down: Cluster, source: Path) -> None:
    (source / "train.py").write_text("print('trained')\n")
    request = Request(plan.Program.script("train.py", []), "torch", source, RunOptions(2, "without"))
    with Console() as console:
        with (
            pytest.raises(RegattaError, match=r"there(.|\n)*--skip-lost"),
            advising(down),
            Session(down, console, paths.results_dir()) as made,
        ):
            made.run(request)
        said: list[str] = []
        with Session(Selection(skip_lost=True).of(down, said.append), console, paths.results_dir()) as made:
            record = made.run(request)
    assert record.exit.state == "succeeded" and record.cluster.rank_map == ("here", "here")
    assert len(said) == 1 and "there" in said[0]
    kept = store.Store(paths.results_dir()).find("without")
    assert kept.identity.parameters["without"] == ["there"]
    assert any("without there" in line for line in show.lines(kept))


def test_advice_is_given_only_where_it_helps(down: Cluster) -> None:
    error = NodesError("data", {"there": RegattaError("no room")})
    assert selection.hint(error, down) == ""
