"""Which parts of runs are left over: of runs that have ended elsewhere, or whose host went down."""

import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from regatta.hosts.remote import Remote
from regatta.run.catalogue import STALE_SECONDS, end_stale, stale
from regatta_protocol.run import About, Listed
from regatta_protocol.states import State

LONG = STALE_SECONDS + 1


def item(state: str, idle: float | None, framework: str = "torch", age: float = LONG) -> Listed:
    """A run as a node tells of it."""
    return Listed("one", State(state), 0.0, age, About(framework), recorded=False, idle=idle)


@pytest.mark.parametrize(
    ("node1", "node2", "left"),
    [
        (item("failed", LONG), item("running", None), ["node2"]),
        (item("stopped", LONG), item("running", None), ["node2"]),
        (item("failed", 1.0), item("running", None), []),
        (item("succeeded", LONG), item("running", None), []),
        (item("running", None), item("running", None), []),
        (item("failed", LONG), item("lost", None), ["node2"]),
        (item("running", None), item("lost", None), ["node2"]),
        (item("failed", LONG), item("lost", LONG), []),
        (item("running", None), item("lost", None, age=1.0), []),
        (item("succeeded", LONG, "ray"), item("running", None, "ray"), ["node2"]),
        (item("running", None, "ray"), item("failed", LONG, "ray"), []),
    ],
)
def test_what_is_left_over(node1: Listed, node2: Listed, left: list[str]) -> None:
    assert stale({"node1": [node1], "node2": [node2]}, head="node1") == [(node, "one") for node in left]


def test_what_has_just_ended_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    told = iter([(1.0, "running"), (1.0, "running"), (LONG, "running")])
    asked: list[str] = []

    class Nodes:
        cluster = SimpleNamespace(nodes=("node1", "node2"), head=SimpleNamespace(name="node1"), node=str)

        def gather(self, nodes: Any, _call: Any) -> tuple[dict[str, Any], dict[str, Exception]]:
            if nodes == self.cluster.nodes:
                idle, state = next(told)
                said = {"node1": item("failed", idle), "node2": item(state, None)}
                return {name: (one,) for name, one in said.items()}, {}
            asked.extend(nodes)
            return dict.fromkeys(nodes), {}

    monkeypatch.setattr(time, "sleep", lambda _: None)
    assert end_stale(cast(Remote, Nodes())) == [("node2", "one")]
    assert asked == ["node2"]
