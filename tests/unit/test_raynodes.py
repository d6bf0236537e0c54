"""Which nodes are in Ray: a raylet that is gone does not count, however long Ray lists it."""

import subprocess
import time
from pathlib import Path

import pytest

from regatta.frameworks.ray.node import service
from regatta.frameworks.ray.nodes import present, unsettled
from regatta.frameworks.ray.state import RayNode
from regatta.hosts import cluster, inventories
from regatta.node.problem import Problem

HOSTS = """\
head: {hosts: {one: {cluster_address: 10.0.0.1}}}
workers: {hosts: {one: , two: {cluster_address: 10.0.0.2}}}
"""
HEAD, OLD, NEW = RayNode("10.0.0.1", "head"), RayNode("10.0.0.2", "old"), RayNode("10.0.0.2", "new")


@pytest.fixture
def nodes(tmp_path: Path) -> tuple[cluster.Node, ...]:
    (tmp_path / "pair").mkdir()
    (tmp_path / "pair/hosts.yml").write_text(HOSTS)
    return inventories.load(str(tmp_path / "pair")).nodes


@pytest.mark.parametrize(
    ("listed", "own", "there", "waited_for"),
    [
        ([HEAD, NEW], "new", ["10.0.0.1", "10.0.0.2"], []),
        ([HEAD, OLD], "new", ["10.0.0.1"], ["two"]),
        ([HEAD, OLD], None, ["10.0.0.1"], ["two"]),
        ([HEAD, OLD, NEW], "new", ["10.0.0.1", "10.0.0.2"], ["two"]),
        ([HEAD], "new", ["10.0.0.1"], ["two"]),
    ],
)
def test_a_node_is_there_by_the_raylet_that_it_has_now(
    nodes: tuple[cluster.Node, ...], listed: list[RayNode], own: str | None, there: list[str], waited_for: list[str]
) -> None:
    said = {"one": "head", "two": own}
    assert present(listed, nodes, said) == there
    assert unsettled(listed, nodes, said) == waited_for


def test_a_node_that_does_not_answer_is_believed_to_be_there(nodes: tuple[cluster.Node, ...]) -> None:
    assert present([HEAD, OLD], nodes, {"one": "head"}) == ["10.0.0.1", "10.0.0.2"]


def test_the_id_is_that_of_the_raylet_that_runs(tmp_path: Path) -> None:
    program = tmp_path / "raylet"
    program.write_text("#!/bin/bash\nread -r line\n")
    program.chmod(0o755)
    place, session = {"state": str(tmp_path), "root": "/r", "python": "/p"}, f"--session_dir={tmp_path}/ray/session_1"
    assert service.node_id(place) is None
    with pytest.raises(Problem, match="Ray does not run here"):
        service.join(place)
    words = [session, "--node_id=c073", "--gcs-address=10.0.0.1:6379"]
    process = subprocess.Popen([str(program), *words], stdin=subprocess.PIPE)
    try:
        end = time.monotonic() + 10
        while service.node_id(place) is None and time.monotonic() < end:
            time.sleep(0.01)
        assert service.node_id(place) == "c073" and service.daemons(place) == {"raylet": process.pid}
        assert service.join(place) == ({"RAY_ADDRESS": "10.0.0.1:6379"}, {"gcs": "10.0.0.1:6379", "python": "/p"})
    finally:
        process.kill()
        process.wait()
