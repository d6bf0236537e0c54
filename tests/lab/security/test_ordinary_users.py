"""A user with an account on a member, but without sudo: what is open to such a user."""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters import Cluster

PORTS = {8020: "node1", 9870: "node1", 6379: "node1", 10001: "node1", 9864: "node2", 9866: "node3", 6380: "node3"}
KNOCK = """
import json, socket, sys
found = {}
for address, port in json.loads(sys.argv[1]):
    try:
        socket.create_connection((address, port), 5).close()
        found[f"{address}:{port}"] = "open"
    except OSError as error:
        found[f"{address}:{port}"] = type(error).__name__
print(json.dumps(found))
"""


@pytest.fixture
def guest(cluster: Cluster) -> Iterator[str]:
    """An ordinary user of node1 and node2."""
    for node in ("node1", "node2"):
        cluster.lab.ssh(node, "sudo useradd --create-home guest")
    yield "guest"
    for node in ("node1", "node2"):
        cluster.lab.ssh(node, "sudo pkill -KILL -u guest; sudo userdel --remove guest 2>/dev/null", check=False)


def knock(cluster: Cluster, node: str, user: str, ports: list[tuple[str, int]]) -> dict[str, str]:
    """Return what each port says to a user of a node."""
    words = ["sudo", "runuser", "-u", user, "--", "python3", "-c", KNOCK, json.dumps(ports)]
    return dict(json.loads(cluster.lab.ssh(node, shlex.join(words)).stdout))


@pytest.mark.first
def test_ray_and_hdfs_are_closed_to_ordinary_users(cluster: Cluster, guest: str) -> None:
    far = [(cluster.lab.addresses[node], port) for port, node in PORTS.items()]
    near = [("127.0.0.1", 8265), (cluster.lab.addresses["node1"], 8020)]
    for node, ports in (("node2", far), ("node1", near)):
        assert set(knock(cluster, node, guest, ports).values()) == {"ConnectionRefusedError"}
        for user in ("ubuntu", "regatta", "hdfs", "root"):
            assert set(knock(cluster, node, user, ports).values()) == {"open"}


def test_ssh_stays_open_to_them(cluster: Cluster, guest: str) -> None:
    assert set(knock(cluster, "node2", guest, [(cluster.lab.addresses["node1"], 22)]).values()) == {"open"}


def test_secrets_and_runs_are_not_theirs_to_read(cluster: Cluster, guest: str) -> None:
    token = (cluster.lab.inventory / "secrets/ray_token").read_text().strip()
    for path in ("/etc/regatta/ray_token", "/var/lib/regatta/.ssh/id_ed25519", "/var/lib/regatta/runs"):
        refused = cluster.lab.ssh("node2", f"sudo runuser -u {guest} -- ls -l {path}/. {path}", check=False)
        opened = cluster.lab.ssh("node2", f"sudo runuser -u {guest} -- cat {path}", check=False)
        assert refused.returncode and opened.returncode and not opened.stdout
    seen = cluster.lab.ssh(
        "node2", f"sudo runuser -u {guest} -- sh -c 'ps axeww; cat /proc/[0-9]*/environ 2>/dev/null; true'"
    )
    assert "regatta" in seen.stdout and token not in seen.stdout


def test_synced_code_is_not_theirs_to_read(cluster: Cluster, guest: str, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "train.py").write_text("print('synced')\n")
    (project / ".env").write_text("PASSWORD=swordfish\n")
    (project / ".env").chmod(0o600)
    cluster.lab.ssh("node2", "sudo chown root:root /opt/regatta/releases; sudo chmod 755 /opt/regatta/releases")
    assert ".env" in cluster.regatta(project, "sync").stdout
    for node in ("node1", "node2"):
        kept = cluster.lab.ssh(node, "sudo -u regatta ls -A /opt/regatta/current/").stdout.split()
        assert kept == ["train.py"]
        for path in ("releases", "current/", "current/train.py"):
            refused = cluster.lab.ssh(node, f"sudo runuser -u {guest} -- ls /opt/regatta/{path}", check=False)
            assert refused.returncode and "ermission denied" in refused.stdout + refused.stderr
        assert cluster.lab.ssh(node, "sudo -u regatta cat /opt/regatta/current/train.py").stdout == "print('synced')\n"
    (project / ".regattaignore").write_text("!/.env\n")
    cluster.regatta(project, "sync")
    assert "swordfish" in cluster.lab.ssh("node2", "sudo cat /opt/regatta/current/.env").stdout
    opened = cluster.lab.ssh("node2", f"sudo runuser -u {guest} -- cat /opt/regatta/current/.env", check=False)
    assert opened.returncode and "swordfish" not in opened.stdout
