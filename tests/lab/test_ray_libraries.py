"""Ray Serve and RLlib on hosts, as their examples have them: what they bring comes as a layer, and nothing is left."""

import contextlib
import json
import secrets
import shutil
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters import Cluster, finish, read_until, record, wait_for

from regatta.paths import PROJECT

pytestmark = [pytest.mark.lab, pytest.mark.whole]  # layers, and a minute of load

SESSION = secrets.token_hex(2)


@contextlib.contextmanager
def through(cluster: Cluster, node: str) -> Iterator[int]:
    """A local port that leads to the model on the loopback of a node, as a person opens it."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    ssh = ["ssh", "-F", cluster.lab.inventory / "ssh_config", "-o", "ControlPath=none", "-N"]
    process = subprocess.Popen([*ssh, "-L", f"{port}:127.0.0.1:29480", node])

    def there() -> bool:
        with socket.socket() as sock:
            return sock.connect_ex(("127.0.0.1", port)) == 0

    try:
        wait_for(there)
        yield port
    finally:
        process.terminate()
        process.wait()


def test_a_model_is_served_by_two_nodes_through_tunnels(cluster: Cluster, tmp_path: Path) -> None:
    """One process and two replicas have one answer; a replica that is killed under load comes back."""
    folder, run = tmp_path / "serve", f"serve-{SESSION}"
    shutil.copytree(PROJECT / "examples/serve", folder)
    words = ["--nodes=node1,node2", "--workers=2", "--seconds=10"]
    said = cluster.regatta(folder, "run", "serve", "--framework=single,ray", *words).stdout
    assert "answers of 2 runs" in said, said
    process = cluster.background(
        folder, "run", "serve", "--framework=ray", *words, "--kill", "--hold=60", f"--name={run}"
    )
    log = read_until(process, "serving at 127.0.0.1:29480")
    assert "as many replicas as before answer again" in log, log
    hosts = set()
    body = json.dumps([0] * 64).encode()
    for node in ("node1", "node2"):
        told = cluster.lab.ssh(node, "ss -Hltn 'sport = :29480'").stdout.splitlines()
        assert [line.split()[3] for line in told] == ["127.0.0.1:29480"], told
        with through(cluster, node) as port:
            for _ in range(20):
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/", data=body, timeout=10) as answer:
                    hosts.add(json.load(answer)["host"])
    assert hosts == {"node1", "node2"}
    cluster.fab("cancel", run)
    finish(process)
    wait_for(lambda: cluster.nothing_runs(run), 60)
    answer = record(tmp_path / "results", run)["answer"]
    assert answer["requests_a_second"] > 0


def test_an_agent_learns_on_the_cluster_and_in_one_process(cluster: Cluster, tmp_path: Path) -> None:
    folder = tmp_path / "rllib"
    shutil.copytree(PROJECT / "examples/rllib", folder)
    words = ["--framework=single,ray", "--nodes=node1,node2", "--workers=2"]
    said = cluster.regatta(folder, "run", "cartpole", *words).stdout
    assert "answers of 2 runs" in said, said
    for name in ("single", "ray"):
        assert record(tmp_path / "results", f"cartpole-{name}-")["answer"]["learned"] is True
