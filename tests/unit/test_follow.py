"""Following a run on several nodes of which one is hung, and one rank that never stops printing."""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from regatta.frameworks import plan
from regatta.frameworks.api import Judge, StartedRun
from regatta.hosts.channel import Channel
from regatta.hosts.cluster import Node
from regatta.hosts.remote import Remote
from regatta.release import sync, tree
from regatta.run import launch, naming, placement, watch
from regatta.run.follow import Follower

CHATTY = """\
import os, time
end = time.monotonic() + 40
while time.monotonic() < end:
    if os.environ["RANK"] == "0":
        print("still here", flush=True)
    time.sleep(0.02)
"""
FLOOD = """\
import os, sys, time
if os.environ["RANK"] == "1":
    time.sleep(1)
    sys.exit(7)
end = time.monotonic() + 20
while time.monotonic() < end:
    os.write(1, b"x\\n" * 32768)
"""
TWICE = """\
import os, time
if os.environ["RANK"] == "0":
    print("first", flush=True)
    while not os.path.exists("../go"):
        time.sleep(0.01)
    print("second", flush=True)
"""


class Hung(Remote):
    """Requests to nodes of which `there` takes them and says nothing."""

    def _channel(self, node: Node) -> Channel:
        return Channel(["sleep", "60"], b"") if node.name == "there" else super()._channel(node)


@pytest.fixture
def hung(pair: Remote) -> Iterator[Remote]:
    """Requests to two nodes, of which one hangs."""
    made = Hung(pair.cluster)
    yield made
    made.close()


@pytest.fixture
def start(source: Path) -> Iterator[object]:
    """Start a script on as many ranks as there are nodes, or on two; what still runs at the end is stopped."""
    started: list[tuple[Remote, StartedRun]] = []

    def begin(remote: Remote, text: str) -> StartedRun:
        (source / "train.py").write_text(text)
        release = sync.sync(remote, tree.read(source), remote.cluster.nodes).tree.release
        ranks = placement.spread(2, remote.cluster.workers, {node.name: 1 for node in remote.cluster.nodes})
        program = plan.Program.script("train.py", [])
        made = plan.Plan(naming.new_run_name("t", "torch"), "torch", program, release, ranks, 1, "env", master_port=1)
        handle = launch.start(remote, made)
        started.append((remote, handle))
        return handle

    yield begin
    for remote, handle in started:
        launch.stop_everywhere(remote, handle, list(handle.nodes), "test over")


def test_a_node_that_hangs_is_lost_however_much_another_says(
    pair: Remote, hung: Remote, start, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, seconds in (("FIRST_SECONDS", 4.0), ("SILENT_SECONDS", 4.0), ("LOST_SECONDS", 3.0)):
        monkeypatch.setattr(watch, name, seconds)
    handle = start(pair, CHATTY)
    lines: list[str] = []

    def slow(_node: str, _rank: int | None, text: str, _came: float) -> None:
        lines.append(text)
        if not follower.told.lost:
            time.sleep(0.05)  # so that there is always more to show

    follower = Follower(hung, handle, slow)
    outcome = follower.follow()
    assert "still here" in lines
    assert outcome.state == "lost"
    assert outcome.failure is not None and outcome.failure.host == "there"
    assert outcome.exits["here"].state == "stopped"  # it was still talking


class OfTheHead(Judge):
    """Of a run that only the head decides."""

    def over(self, ended: Mapping[str, float]) -> bool:
        return "here" in ended

    def outlives(self, node: str) -> bool:
        return node != "here"


def test_a_run_may_outlive_a_node(pair: Remote, hung: Remote, start, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("FIRST_SECONDS", 1.0), ("SILENT_SECONDS", 1.0), ("LOST_SECONDS", 1.0)):
        monkeypatch.setattr(watch, name, seconds)
    gone: list[str] = []
    handle = start(pair, CHATTY.replace("40", "6"))
    follower = Follower(hung, handle, lambda *_: None, on_gone=gone.append)
    follower.judge = OfTheHead(follower.handle)
    outcome = follower.follow()
    assert outcome.state == "succeeded" and list(follower.told.lost) == gone == ["there"]


def test_a_rank_that_prints_without_end_does_not_hide_that_another_failed(remote: Remote, start) -> None:
    outcome = Follower(remote, start(remote, FLOOD), lambda *_: None).follow()
    assert outcome.failure is not None and outcome.failure.rank == 1
    assert outcome.code == 7
    assert outcome.exits["here"].codes["0"] == -15  # it was still printing


def test_what_comes_faster_than_it_is_shown_waits_on_the_node_which_is_not_silent(
    remote: Remote, start, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, limit in (("SILENT_SECONDS", 1.0), ("LOST_SECONDS", 1.0), ("MOST_WAITING", 2)):
        monkeypatch.setattr(watch, name, limit)
    waited = False

    def slow(_node: str, _rank: int | None, _text: str, _came: float) -> None:
        nonlocal waited
        while not waited and not (follower.watch.messages.full() and "here" in follower.watch.held_back):
            time.sleep(0.01)
        if not waited:
            time.sleep(1.5)
        waited = True

    text = FLOOD.replace("sys.exit(7)", "sys.exit(0)").replace("+ 20", "+ 1").replace("x\\n", "x" * 63 + "\\n")
    follower = Follower(remote, start(remote, text), slow)
    outcome = follower.follow()
    assert outcome.state == "succeeded" and not follower.told.lost
    assert follower.watch.held["here"] > watch.SILENT_SECONDS


def test_lines_are_stamped_when_they_come_and_not_when_they_are_shown(remote: Remote, start) -> None:
    handle = start(remote, TWICE)
    go = Path(remote.cluster.head.state) / "runs" / handle.run / "go"
    came: dict[str, float] = {}
    shown = 0.0

    def slow(_node: str, _rank: int | None, text: str, at: float) -> None:
        nonlocal shown
        came[text] = at
        if text == "first":
            go.touch()
            while not follower.watch.messages.qsize():
                time.sleep(0.01)
            shown = time.monotonic()

    follower = Follower(remote, handle, slow)
    assert follower.follow().state == "succeeded"
    assert came["first"] < came["second"] < shown
