"""Secrets that are rotated while the cluster is up."""

import os
import shlex
import signal
import subprocess
import tarfile
from pathlib import Path

import pytest
from clusters import BIN, Cluster
from provisioning import play
from waiting import Waiting

from lab.model import PROJECT

ASK = """
import sys, urllib.error, urllib.request
request = urllib.request.Request("http://127.0.0.1:8265/api/jobs/")
request.add_header("Authorization", "Bearer " + sys.stdin.read().strip())
try:
    print(urllib.request.urlopen(request, timeout=10).status)
except urllib.error.HTTPError as error:
    print(error.code)
"""


def answer(cluster: Cluster, token: str) -> int:
    """HTTP status of Ray's API on the head for a token."""
    words = f"printf %s {token.strip()} | python3 -c {shlex.quote(ASK)}"
    return int(cluster.lab.ssh("node1", words).stdout)


def enter(cluster: Cluster, key: str) -> int:
    """Exit code of SSH from node2 to node3 with a private key, as root between nodes."""
    ssh = "ssh -n -F /dev/null -i trial -o BatchMode=yes -o IdentitiesOnly=yes regatta-relay@node3"
    script = f"umask 077; cat > trial; {ssh} cat /etc/regatta/node.json; code=$?; rm trial; exit $code"
    words = shlex.join(["sudo", "sh", "-c", f"cd /root; {script}"])
    return cluster.lab.ssh("node2", f"printf '%s' {shlex.quote(key)} | {words}", check=False).returncode


def stopped_half_way(cluster: Cluster) -> None:
    """A rotation that gets Ctrl-C when the new token has reached nodes and Ray has not been started with it."""
    process = subprocess.Popen(
        [BIN / "python", "-m", "regatta.provisioning.commands", "rotate-secrets", "--verbose"],
        cwd=PROJECT,
        env=cluster.environment(),
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        said += line
        if "ray : Write the token and the unit" in line:
            os.kill(process.pid, signal.SIGINT)
            break
    process.stdout.read()
    assert process.wait(60) == 130, said


@pytest.mark.whole
def test_rotation(cluster: Cluster, tmp_path: Path) -> None:
    secrets = cluster.lab.inventory / "secrets"
    old = {name: (secrets / name).read_text() for name in ("ray_token", "cluster_key", "mesh_key")}
    (tmp_path / "kept.txt").write_text("kept\n")
    cluster.fab("data-put", str(tmp_path / "kept.txt"), "/tmp/", "--force")
    with Waiting(cluster, tmp_path / "project") as run:
        refused = cluster.make("rotate-secrets", check=False)
        assert refused.returncode == 1 and f"still running: {run}" in refused.stdout
    assert old == {name: (secrets / name).read_text() for name in old}
    assert answer(cluster, old["ray_token"]) == 200 and enter(cluster, old["mesh_key"]) == 0
    stopped_half_way(cluster)
    half = (secrets / "ray_token").read_text()
    cluster.make("provision")  # ends what was begun: Ray is started with the token that is there
    assert answer(cluster, half) == 200 and answer(cluster, old["ray_token"]) in (401, 403)
    cluster.make("rotate-secrets")
    new = {name: (secrets / name).read_text() for name in old}
    assert len({old["ray_token"], half, new["ray_token"]}) == 3
    assert answer(cluster, new["ray_token"]) == 200
    assert {answer(cluster, token) for token in (old["ray_token"], half)} <= {401, 403}
    assert enter(cluster, old["mesh_key"]) == 255 and enter(cluster, new["mesh_key"]) == 0
    for node in cluster.lab.nodes:
        assert cluster.lab.ssh(node, "sudo cat /etc/regatta/ray_token").stdout == new["ray_token"]
    cluster.fab("data-get", "/tmp/kept.txt", str(tmp_path / "back.txt"))
    assert (tmp_path / "back.txt").read_text() == "kept\n"
    cluster.fab("data-rm", "/tmp/kept.txt", "--yes")


def test_the_support_bundle_holds_no_secret(cluster: Cluster, tmp_path: Path) -> None:
    lab, folder = cluster.lab, cluster.lab.inventory / "secrets"
    held = [path.read_text().strip() for path in folder.iterdir() if path.suffix not in (".pub", ".tar")]
    secrets = [line for text in held for line in text.splitlines() if len(line) >= 16 and "-----" not in line]
    assert len(secrets) >= 5
    planted = 'echo "was $(cat /etc/regatta/ray_token), db_password = planted-secret" > /etc/regatta/planted.conf'
    lab.ssh("node2", f"sudo sh -c {shlex.quote(planted)}")
    try:
        play(lab, "support-bundle", "--out", str(tmp_path))
    finally:
        lab.ssh("node2", "sudo rm /etc/regatta/planted.conf")
    (bundle,) = tmp_path.glob("*.tar.gz")
    assert bundle.stat().st_mode & 0o777 == 0o600
    with tarfile.open(bundle) as archive:
        found = {member.name.partition("/")[2]: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]
    for secret in [*secrets, "planted-secret"]:
        assert [name for name, body in found.items() if secret.encode() in body] == []
    assert found["node2/files/etc/regatta/planted.conf"] == b"was (removed), db_password = (removed)\n"
    assert b"regatta-hdfs-namenode.service" in found["node1/commands/units.txt"]
    assert found["node3/logs/regatta-ray-worker.service.log"]
    assert b"torch" in found["node2/environment.json"] and b"ansible-core" in found["controller/packages.txt"]
    assert b"node1" in found["controller/inventory/hosts.yml"]
