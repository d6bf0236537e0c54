"""TensorFlow over hosts, with and without Ray Train, and torch; its servers are kept from outsiders."""

import re
import secrets
import socket
import time
from pathlib import Path

import pytest
from clusters import Cluster, finish, read_until, record, wait_for

pytestmark = [pytest.mark.lab, pytest.mark.whole]  # TensorFlow is a layer of 600 MB

EVERY = ("single", "torch", "ray", "tensorflow", "ray-tensorflow")
SESSION = secrets.token_hex(2)
OWN = """
import json, os
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()

def step():
    return tf.distribute.get_replica_context().all_reduce("SUM", tf.constant(1.0))

together = tf.function(lambda: strategy.run(step))
print("rank", json.loads(os.environ["TF_CONFIG"])["task"]["index"], "sum", float(together()), flush=True)
"""
CARD = """
[workloads.own]
about = "A program of TensorFlow"
command = "own.py"
frameworks = ["tensorflow"]
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A project with its own program that uses TensorFlow."""
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "own.py").write_text(OWN)
    (folder / "regatta.toml").write_text(CARD)
    return folder


@pytest.mark.parametrize("words", [("--size=1200",), ("--network=pictures", "--size=48", "--batch=8")])
def test_both_libraries_with_and_without_ray_train_have_one_answer(
    cluster: Cluster, tmp_path: Path, words: tuple[str, ...]
) -> None:
    options = [f"--framework={','.join(EVERY)}", "--nodes=node1,node2", "--workers=2", "--epochs=1", *words]
    said = cluster.fab("run-tf-digits", *options, results=tmp_path).stdout
    assert f"answers of {len(EVERY)} runs" in said, said
    found = {name: record(tmp_path, f"tf-digits-{name}-{time.strftime('%m')}") for name in EVERY}
    for name in ("tensorflow", "ray-tensorflow"):
        ranks = [rank for rank in found[name]["ranks"] if rank["rank"] >= 0]
        assert {rank["node"] for rank in ranks} == {"node1", "node2"}
    assert found["torch"]["answer"] == found["ray"]["answer"]
    assert found["tensorflow"]["answer"] == found["ray-tensorflow"]["answer"]


def reached(cluster: Cluster, node: str, account: str, address: str, port: str) -> bool:
    """Whether an account of a node gets a connection to a port."""
    code = f"import socket; socket.create_connection(({address!r}, {port}), 5)"
    return not cluster.lab.ssh(node, f'sudo -u {account} python3 -c "{code}"', check=False).returncode


@pytest.mark.parametrize("framework", ["tensorflow", "ray-tensorflow"])
def test_servers_of_tensorflow_are_kept_from_strangers_and_other_accounts(cluster: Cluster, framework: str) -> None:
    run = f"listens-{framework}-{SESSION}"
    words = [f"--framework={framework}", "--nodes=node1,node2", "--workers=2", "--epochs=200", f"--name={run}"]
    process = cluster.fab_background("run-tf-digits", *words)
    read_until(process, " epochs ")
    try:
        for node in ("node1", "node2"):
            address = cluster.lab.addresses[node]
            lines = cluster.lab.ssh(node, "ss -Hltn 'sport >= :29400 and sport <= :29499'").stdout.splitlines()
            ports = [line.split()[3].rpartition(":")[2] for line in lines]
            assert ports
            for port in ports:
                with pytest.raises(OSError):
                    socket.create_connection((address, int(port)), 3)
                assert reached(cluster, "node1", "regatta", address, port)
                assert not reached(cluster, "node1", "nobody", address, port)
    finally:
        cluster.fab("cancel", run)
        finish(process)
    wait_for(lambda: cluster.nothing_runs(run))


def test_without_a_firewall_tensorflow_is_refused(cluster: Cluster) -> None:
    cluster.lab.ssh("node2", "sudo systemctl stop regatta-firewall.service")
    try:
        refused = cluster.fab("run-tf-digits", "--framework=tensorflow", "--workers=2", check=False)
    finally:
        cluster.lab.ssh("node2", "sudo systemctl start regatta-firewall.service")
    assert refused.returncode == 2
    assert "node2 has no firewall" in refused.stdout


def test_a_program_of_ones_own_and_its_packages(cluster: Cluster, own: Path) -> None:
    run = f"own-{SESSION}"
    cluster.regatta(own, "run", "own", "--nodes=node1,node2", "--workers=3", f"--name={run}")
    assert sorted(re.findall(r"rank (\d) sum 3\.0", cluster.fab("logs", run).stdout)) == ["0", "1", "2"]
    refused = cluster.regatta(own, "run", "own", "--env=TF_CONFIG={}", check=False)
    assert refused.returncode != 0 and "TF_CONFIG" in refused.stdout
    wait_for(lambda: cluster.nothing_runs(run))
