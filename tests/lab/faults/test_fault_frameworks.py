"""A process between a person and the ranks dies: supervisor, torchrun's agent, Ray's daemons."""

from pathlib import Path

import pytest
from clusters import Cluster
from faulty import begin, explained, next_run, nothing_left, strike, whole
from telling import Teller

BOTH = pytest.mark.parametrize("framework", ["torch", "ray"])


@BOTH
@pytest.mark.whole
def test_the_supervisor_is_killed(struck: Cluster, project: Path, tell: Teller, framework: str) -> None:
    node = {"torch": "node2", "ray": "node1"}[framework]
    tell.begin("framework", "the run's supervisor gets SIGKILL (Ray's is on the head)", framework)
    run = begin(struck, project, framework)
    kill = f"sudo pkill -KILL -f '[s]upervisor.py /var/lib/regatta/runs/{run.name}$'"
    told = strike(run.process, lambda: struck.lab.ssh(node, kill))
    explained(told, node, "supervisor")
    tell.end("the run ends everywhere", told.first, told.seconds)
    nothing_left(struck, project)


@pytest.mark.whole
def test_torchruns_agent_is_killed(struck: Cluster, project: Path, tell: Teller) -> None:
    tell.begin("framework", "torchrun's agent gets SIGKILL (`--launcher c10d`)", "torch")
    run = begin(struck, project, "torch", "--launcher", "c10d")
    kill = "sudo pkill -KILL -f '[t]orch.distributed.run'"
    told = strike(run.process, lambda: struck.lab.ssh("node2", kill))
    explained(told, "node2", "killed by SIGKILL")
    tell.end("the run ends everywhere", told.first, told.seconds)
    nothing_left(struck, project)


@pytest.mark.whole
@pytest.mark.parametrize(
    ("daemon", "node", "mark", "said"),
    [
        ("raylet", "node2", "[r]aylet/raylet", "Ray's raylet on node2 died"),
        ("dashboard agent on a worker", "node2", "^[r]ay::DashboardAgent", "raylet on node2 died"),
        ("runtime environment agent on a worker", "node3", "^[r]ay::RuntimeEnvAgent", "raylet on node3 died"),
        ("GCS", "node1", "[g]cs_server", "Ray's gcs_server .*on node1 died"),
    ],
    ids=["raylet", "dashboard-agent", "runtime-env-agent", "gcs"],
)
def test_a_daemon_of_ray_is_killed_in_a_ray_run(
    struck: Cluster, project: Path, tell: Teller, daemon: str, node: str, mark: str, said: str
) -> None:
    tell.begin("framework", f"Ray's {daemon} gets SIGKILL", "ray")
    run = begin(struck, project, "ray")
    told = strike(run.process, lambda: struck.lab.ssh(node, f"sudo pkill -KILL -f '{mark}'"))
    explained(told, node, said)
    tell.end("the run ends; Ray comes back by itself", told.first, told.seconds)
    nothing_left(struck, project)
    whole(struck)
    next_run(struck, project, "ray")


@pytest.mark.whole
def test_daemons_of_ray_are_killed_in_a_torch_run(struck: Cluster, project: Path, tell: Teller) -> None:
    tell.begin("framework", "Ray's raylet and GCS get SIGKILL", "torch")
    run = begin(struck, project, "torch", rounds=100)

    def kill() -> None:
        struck.lab.ssh("node2", "sudo pkill -KILL -f '[r]aylet/raylet'")
        struck.lab.ssh("node1", "sudo pkill -KILL -f '[g]cs_server'")

    told = strike(run.process, kill)
    assert told.code == 0, told.said
    assert "sum 100" in told.said
    tell.end("continues, and ends with the right answer; Ray comes back by itself")
    whole(struck)
