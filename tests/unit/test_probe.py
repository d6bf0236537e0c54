"""Hosts are measured and compared; here two nodes that are this machine, and rates that were made up."""

import pytest

from regatta.errors import RemoteError
from regatta.hosts.remote import Remote
from regatta.run import probe
from regatta_protocol.operations.probe import Probe, Receive


def test_two_nodes_of_this_machine_are_measured_in_turn(
    pair: Remote, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "SECONDS", dict.fromkeys(probe.SECONDS, 0.02))
    monkeypatch.setattr(probe, "ROUNDS", 2)
    found = probe.probe(pair, print)
    assert set(found.figures) == set(probe.TITLES)
    assert all(set(of_hosts) == {"here", "there"} and min(of_hosts.values()) > 0 for of_hosts in found.figures.values())
    assert "2 host(s)" in capsys.readouterr().out
    heading, *rows = probe.rows(found.figures, ["here", "there"])
    assert [row[0] for row in rows] == ["here", "there"] and len({len(row) for row in (heading, *rows)}) == 1
    assert {one.node for one in found.slow} <= {"here", "there"}
    assert [
        [node.name for node in group]
        for group in probe.in_turn(pair.cluster.nodes, {"here": ["there"], "there": ["here"]})
    ] == [["here"], ["there"]]
    assert len([*probe.in_turn(pair.cluster.nodes, {"here": [], "there": []})]) == 1


def test_who_is_slow() -> None:
    rates = {"a": 100.0, "b": 96.0, "c": 74.0, "d": 101.0}
    found = probe.Probed({"processor": rates, "sends": dict.fromkeys(rates, 5.0)})
    found.slow = probe.slow(found.figures)
    assert [(one.node, one.what, one.part) for one in found.slow] == [("c", "processor", 0.74)]
    (said,) = probe.words(found)
    assert said.startswith("c is slower than the others, whose rate is 1: processor 0.74.")
    found.busy = {"a": 7.25}
    assert [*probe.words(found)][1].startswith("other work makes hosts look slow: a (7.2 processes a core).")
    assert probe.slow({"disk": {"a": 2.0}}) == []
    assert [*probe.words(probe.Probed({"processor": {"a": 1.0}}))] == ["there is one host, and none to compare it with"]


def test_what_cannot_be_measured_is_said(pair: Remote) -> None:
    with pytest.raises(RemoteError, match="nothing to measure by the name colour: processor, memory, disk"):
        pair.call(pair.cluster.head, Probe("colour", 0.1))
    with pair.stream(pair.cluster.head, Receive("127.0.0.9", 0.1)) as receiving:
        assert 29400 <= next(iter(receiving)).port < 29500
