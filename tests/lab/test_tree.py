"""Hosts pass on to each other what is large; here three are already many."""

import hashlib
import secrets
from pathlib import Path

import pytest
from clusters import Cluster, sums, traffic
from provisioning import play, verify, without_archives


@pytest.fixture(autouse=True)
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGATTA_TREE_NODES", "1")


def test_a_large_release(cluster: Cluster, tmp_path: Path) -> None:
    project, content = tmp_path / "project", secrets.token_bytes(20_000_000)
    project.mkdir()
    (project / "model.bin").write_bytes(content)
    before = traffic(cluster.lab, "node1", "tx")
    said = cluster.regatta(project, "sync").stdout
    assert "sent to node1, node2, node3; proven on 3 node(s)" in said and "long way" not in said
    assert traffic(cluster.lab, "node1", "tx") - before > 2 * len(content)
    assert sums(cluster.lab, "/opt/regatta/current/model.bin") == {hashlib.sha256(content).hexdigest()}


@pytest.mark.whole
@pytest.mark.timeout(1200)
def test_archives_of_provisioning(cluster: Cluster) -> None:
    lab = cluster.lab
    without_archives(lab, "node2", "node3")
    before = traffic(lab, "node2", "tx")
    said = play(lab, "provision")
    assert "long way" not in said
    assert traffic(lab, "node2", "tx") - before > 500e6
    assert "".join(lab.ssh(node, "sudo ls -A /opt/regatta/.relay", check=False).stdout for node in lab.nodes) == ""
    verify(lab)
