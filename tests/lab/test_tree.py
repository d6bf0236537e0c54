"""Hosts pass on to each other what is large; here three are already many."""

import hashlib
import secrets
from pathlib import Path

import pytest
from clusters import Cluster
from provisioning import play, verify


@pytest.fixture(autouse=True)
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGATTA_TREE_NODES", "1")


def sent(cluster: Cluster, node: str) -> int:
    """Bytes that a host has sent."""
    return int(cluster.lab.ssh(node, "cat /sys/class/net/host0/statistics/tx_bytes").stdout)


def test_a_large_release(cluster: Cluster, tmp_path: Path) -> None:
    project, content = tmp_path / "project", secrets.token_bytes(20_000_000)
    project.mkdir()
    (project / "model.bin").write_bytes(content)
    before = sent(cluster, "node1")
    said = cluster.regatta(project, "sync").stdout
    assert "sent to node1, node2, node3; proven on 3 node(s)" in said and "long way" not in said
    assert sent(cluster, "node1") - before > 2 * len(content)
    for node in cluster.lab.nodes:
        found = cluster.lab.ssh(node, "sha256sum /opt/regatta/current/model.bin").stdout.split()[0]
        assert found == hashlib.sha256(content).hexdigest()


@pytest.mark.whole
@pytest.mark.timeout(1200)
def test_archives_of_provisioning(cluster: Cluster) -> None:
    lab = cluster.lab
    environment = lab.ssh("node1", "readlink /opt/regatta/env").stdout.strip()
    for node in ("node2", "node3"):
        lab.ssh(
            node, f"sudo rm -r /opt/regatta/hadoop /opt/regatta/hadoop-* /opt/regatta/env /opt/regatta/{environment}"
        )
    before = sent(cluster, "node2")
    said = play(lab, "provision")
    assert "long way" not in said
    assert sent(cluster, "node2") - before > 500e6
    assert "".join(lab.ssh(node, "sudo ls -A /opt/regatta/.relay", check=False).stdout for node in lab.nodes) == ""
    verify(lab)
