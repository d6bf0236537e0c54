"""Runs that a service of the cluster takes: when it is asked, and what is made of what it says."""

import contextlib
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import typed_json
from invoke.context import Context

from regatta import paths
from regatta.errors import RemoteError
from regatta.frameworks import registry, spec
from regatta.frameworks.api import Framework, JobService, StartedRun
from regatta.frameworks.plan import Plan, Program, Rank
from regatta.frameworks.ray import adapter as ray
from regatta.frameworks.ray.judge import RayJudge
from regatta.frameworks.ray.service import RayService
from regatta.hosts.cluster import Cluster
from regatta.hosts.remote import Remote
from regatta.options.declaration import RunOptions
from regatta.records.store import Store
from regatta.release import sync, tree
from regatta.run import services
from regatta.run.request import Request
from regatta.run.session import Session
from regatta.tasks.namespace import namespace
from regatta.tasks.services import _status_rows
from regatta.terminal.console import Console
from regatta_protocol.operations.runs import FinishRun, StartRun, WatchRun
from regatta_protocol.run import Spec
from regatta_protocol.states import State


class Desk(JobService):
    """Writes down what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def look(self) -> list[str]:
        self.asked.append("look")
        return ["here"]

    def wait(self, nodes: Any, seen: Any, answers: Mapping[str, Mapping[str, Any]], say: Any) -> None:
        self.asked.append(f"wait for {[node.name for node in nodes]}, seen {seen}, {answers['here']['ray_node']}")

    def members(self, nodes: Any, answers: Mapping[str, Mapping[str, Any]]) -> list[str]:
        self.asked.append(f"members among {[node.name for node in nodes]}, {answers['here']['ray_node']}")
        return [node.cluster_address for node in nodes]


class Served(Framework):
    """Plain ranks, which are registered at a service."""

    name = "served"
    service = "Desk"
    units = ("regatta-desk.service",)

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.opened = 0

    def specs(self, plan: Plan, cluster: Cluster) -> dict[str, Spec]:
        return {node.name: spec.python_ranks(plan, node, spec.one_by_one(plan, node)) for node in plan.nodes}

    def served(self, cluster: Cluster) -> bool:
        return True

    def asks(self, cluster: Cluster) -> Mapping[str, str]:
        return {"ray_node": "ray.service.node_id"}

    @contextlib.contextmanager
    def open(self, remote: Remote) -> Iterator[JobService]:
        self.opened += 1
        yield self.desk
        self.desk.asked.append("closed")


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Served:
    made, find = Served(Desk()), registry.find
    monkeypatch.setattr(registry, "find", lambda name: made if name == "served" else find(name))
    monkeypatch.setattr(registry, "of_run", lambda name: made)
    return made


def run(session: Session, source: Path, name: str, text: str) -> None:
    (source / "train.py").write_text(text)
    session.run(Request(Program.script("train.py", []), "served", source, RunOptions(1, name)))


def test_a_service_is_reached_once_and_asked_before_each_run(served: Served, remote: Remote, source: Path) -> None:
    with Console() as console, Session(remote.cluster, console, paths.results_dir()) as session:
        run(session, source, "one", "print('done')")
        run(session, source, "two", "print('done')")
    before = ["look", "wait for ['here'], seen ['here'], None"]
    assert served.desk.asked == [*before, *before, "closed"]
    assert served.opened == 1
    assert Store(paths.results_dir()).find("two").exit.state == "succeeded"


def test_up_and_status_ask_the_service_that_an_adapter_names(
    served: Served, remote: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "names", lambda: ("served",))
    assert services.served(remote.cluster) == (served,)
    assert services.framework_units(remote.cluster) == ("regatta-desk.service",)
    asked = services.status(remote)
    found = services.members(remote, served, asked)
    assert found == ["127.0.0.1"]
    rows = _status_rows(asked, {served.service: found, "Other": "it does not answer"})
    assert dict(zip(*rows, strict=True))["in Desk"] == "yes" and dict(zip(*rows, strict=True))["in Other"] == "-"
    assert services.wait_until_joined(remote, served) == 1
    assert served.desk.asked == [
        "members among ['here'], None", "closed", "look", "wait for ['here'], seen ['here'], None", "closed"
    ]  # fmt: skip


def test_programs_learn_who_is_a_member_of_a_service(
    served: Served, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(registry, "names", lambda: ("served",))
    namespace["status"](Context(), inventory=str(here), json=True)
    assert typed_json.read("status", capsys.readouterr().out).members == {"served": ["127.0.0.1"]}


@pytest.fixture
def judge(remote: Remote) -> RayJudge:
    """Of a Ray run whose head is `here`."""
    service = RayService(remote)
    return RayJudge(StartedRun("r", remote.cluster, remote.cluster.nodes, registry.find("ray"), {0: "here"}, service))


def test_a_run_is_over_when_its_driver_is(judge: RayJudge) -> None:
    assert not judge.over({}) and not judge.over({"elsewhere": time.monotonic()})
    assert judge.over({"here": time.monotonic()})


def test_daemons_that_died_are_rays(judge: RayJudge) -> None:
    assert judge.died("n1", ["gcs", "raylet"]).startswith("Ray's gcs and raylet on n1 died in mid-run (journalctl -u")


def test_a_driver_is_to_join_also_a_ray_of_this_machine_only(remote: Remote) -> None:
    node, program = remote.cluster.head, Program.script("driver.py", [])
    plan = Plan("joins", "ray", program, "r" * 16, (Rank(0, 0, node),), 1, "env")
    (asked,) = ray.private_spec(plan, node).expected
    assert asked == ray.driver_spec(plan, node).expected[0] and "never joined the cluster's Ray" in asked.warning


def test_a_driver_joins_the_service_on_its_node_whose_daemons_are_watched(
    remote: Remote, source: Path, tmp_path: Path
) -> None:
    """By what is sent to a node; instead of Ray's daemon, a process that gives its answers."""
    node = remote.cluster.head
    (source / "driver.py").write_text("import os; print(os.environ['RAY_ADDRESS'])\n")
    synced, program = tree.read(source), Program.script("driver.py", [])
    sync.sync(remote, synced, remote.cluster.nodes)
    made = ray.driver_spec(Plan("joins", "ray", program, synced.release, (Rank(0, 0, node),), 1, "env"), node)
    with pytest.raises(RemoteError, match="Ray does not run here"):
        remote.call(node, StartRun(made.changed(record={})))
    (tmp_path / "raylet").write_text("#!/bin/bash\nread -r line\n")
    (tmp_path / "raylet").chmod(0o755)
    words = [f"--session_dir={node.state}/ray/session_1", "--node_id=c0", "--gcs-address=127.0.0.1:1"]
    with subprocess.Popen([tmp_path / "raylet", *words], stdin=subprocess.PIPE) as daemon:
        remote.call(node, StartRun(made.changed(record={})))
        with remote.stream(node, WatchRun("joins")) as told:
            said = [text for item in told for _, text in item.lines or ()]
        daemon.kill()
    address, warning = said
    assert address == "127.0.0.1:1" and "never joined the cluster's Ray" in warning, "it makes no ray.init()"
    end = remote.call(node, FinishRun("joins", State.LOST, 1))
    assert end.exit and (end.exit.state, end.died) == ("succeeded", ("raylet",))
