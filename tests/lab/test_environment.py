"""Packages that a project needs and the nodes lack: the same on every host, which reach no index themselves."""

import hashlib
import json
import os
import shlex
import sys
import time
from pathlib import Path

import pytest
from clusters import Cluster, own_package

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import wheels

TORCH = """\
import os, subprocess, lacking
said = subprocess.run(["lacking-program"], capture_output=True, text=True).stdout
print("rank", os.environ["RANK"], lacking.__file__, said)
"""
RAY = """\
import lacking, ray, socket
ray.init()
@ray.remote
class Actor:
    def where(self):
        import lacking, shutil
        return socket.gethostname(), lacking.__file__, shutil.which("lacking-program")
actors = [Actor.options(scheduling_strategy="SPREAD", num_cpus=1).remote() for _ in range(3)]
print("driver", lacking.__file__, "actors", sorted(ray.get([actor.where.remote() for actor in actors])))
"""

OWN = """\
import plums, ray
ray.init()
@ray.remote(scheduling_strategy="SPREAD")
def where():
    import importlib.metadata, plums, socket, time
    time.sleep(1)
    return socket.gethostname(), importlib.metadata.version("plums"), plums.__file__.rpartition("/src/")[2]
print("tasks", sorted({*ray.get([where.remote() for _ in range(6)])}))
"""
HIDDEN = """\
import glob, hashlib, os, ray, socket
ray.init()
def look():
    secret = os.environ["SECRET"].encode()
    shown = 0
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            shown += secret in open(path, "rb").read()
        except OSError:
            pass
    return socket.gethostname(), hashlib.sha256(secret).hexdigest()[:8], shown, os.environ["PLAIN"]
@ray.remote
class Actor:
    def look(self):
        return look()
actors = [Actor.options(scheduling_strategy="SPREAD", num_cpus=1).remote() for _ in range(3)]
task = ray.remote(look).options(scheduling_strategy="SPREAD", num_cpus=0)
print("driver", look())
print("actors", sorted(ray.get([actor.look.remote() for actor in actors])))
print("tasks", set(one[1:] for one in ray.get([task.remote() for _ in range(6)])))
"""
JOBS = """
import sys, urllib.request
request = urllib.request.Request("http://127.0.0.1:8265/api/jobs/")
request.add_header("Authorization", "Bearer " + sys.stdin.read().strip())
print(urllib.request.urlopen(request, timeout=10).read().decode())
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project that needs a package which comes only from a folder of this machine."""
    text = "def main():\n    print('the program speaks')\n"
    wheels.make(tmp_path / "wheels", "lacking", f"1.{os.getpid()}", {"lacking.py": text})
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path / "wheels"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "torched.py").write_text(TORCH)
    (folder / "rayed.py").write_text(RAY)
    (folder / "requirements.txt").write_text("lacking\ntorch\nray\n")
    return folder


@pytest.mark.first
def test_packages_of_a_project_reach_ranks_driver_and_actors(cluster: Cluster, project: Path) -> None:
    done = cluster.regatta(project, "torchrun", "--workers", "3", "torched.py")
    assert "environment: 1 package beyond the base (lacking 1." in done.stdout
    key = done.stdout.partition(", layer ")[2][:12]
    for rank in range(3):
        assert f"rank {rank} /opt/regatta/layers/{key}/lacking.py the program speaks" in done.stdout
    for node in cluster.lab.nodes:
        told = cluster.lab.ssh(
            node, f"sudo stat -c '%U %a' /opt/regatta/layers/{key} /opt/regatta/layers/{key}/lacking.py"
        )
        assert told.stdout.split() == ["root", "555", "root", "444"]
        refused = cluster.lab.ssh(node, f"sudo -u regatta touch /opt/regatta/layers/{key}/x", check=False)
        assert refused.returncode
    again = cluster.regatta(project, "rayrun", "rayed.py")
    assert "resolving" not in again.stdout and "putting layer" not in again.stdout
    assert f"driver /opt/regatta/layers/{key}/lacking.py" in again.stdout
    assert again.stdout.count(f"'/opt/regatta/layers/{key}/bin/lacking-program'") == 3
    kept = [json.loads(path.read_text()) for path in (project.parent / "results").glob("*.json")]
    assert {tuple(one["identity"]["parameters"]["packages"]) for one in kept} == {("lacking",)}
    assert f"{key} " in cluster.regatta(project, "environments").stdout


def test_hidden_values_reach_tasks_and_actors_and_no_list_of_jobs(cluster: Cluster, tmp_path: Path) -> None:
    project, file, secret = tmp_path / "project", tmp_path / "mine.env", f"hidden-{os.urandom(8).hex()}"
    project.mkdir()
    (project / "look.py").write_text(HIDDEN)
    file.write_text(f"SECRET={secret}\n")
    file.chmod(0o600)
    words = ["rayrun", "--env", "PLAIN=plain", "--env-file", str(file), "--name", f"hidden-{os.getpid()}", "look.py"]
    began = time.time()
    done = cluster.regatta(project, *words)
    digest = hashlib.sha256(secret.encode()).hexdigest()[:8]
    assert f"driver ('node1', '{digest}', 0, 'plain')" in done.stdout
    actors = [(node, digest, 0, "plain") for node in sorted(cluster.lab.nodes)]
    assert f"actors {actors}" in done.stdout
    assert f"tasks {{('{digest}', 0, 'plain')}}" in done.stdout
    token = cluster.lab.ssh("node1", "sudo cat /etc/regatta/ray_token").stdout.strip()
    jobs = cluster.lab.ssh("node1", f"printf %s {token} | python3 -c {shlex.quote(JOBS)}").stdout
    assert f"hidden-{os.getpid()}" in jobs
    assert secret not in jobs + done.stdout
    for path in (tmp_path / "results").rglob("*"):
        assert path.is_dir() or secret not in path.read_text()
    written = f"find /var/lib/regatta /opt/regatta /tmp /var/log /run -type f -newerct @{began:.0f}"
    look = f"cat >/root/sought; {written} -exec grep -lF -f /root/sought {{}} +; rm /root/sought"
    for node in cluster.lab.nodes:
        found = cluster.lab.ssh(node, f"printf %s {secret} | sudo sh -c {shlex.quote(look)}", check=False)
        assert found.stdout == "", node


@pytest.mark.whole
def test_tasks_have_a_projects_own_package(cluster: Cluster, tmp_path: Path) -> None:
    said = cluster.regatta(own_package(tmp_path / "own", "job.py", OWN), "rayrun", "job.py").stdout
    assert f"tasks {[(node, '1.5', 'plums/__init__.py') for node in sorted(cluster.lab.nodes)]}" in said
