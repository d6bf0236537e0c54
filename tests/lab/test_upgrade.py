"""A cluster that the last Regatta without layouts has provisioned is carried over: data, runs and records stay."""

import json
import os
import re
import shlex
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

import pytest
from attack import VICTIM, Attack
from clusters import BIN, Cluster, finish, read_until
from provisioning import left, provision_again, said, teardown, verify

from lab.handle import LabHandle
from lab.model import PROJECT

pytestmark = [pytest.mark.whole, pytest.mark.timeout(3600)]

OLD = "46c72b4b46f254466146ccdbdab53046d5ff8f38"
STATE = "/var/lib/regatta"
PACKAGES = "packages"
"""The folder of what it imports, and this environment has no more."""
GOES_ON = """\
import os, pathlib, time
import torch.distributed as dist
dist.init_process_group("gloo")
print("all have met", flush=True)
end = time.monotonic() + 3000
while not pathlib.Path("go").exists():
    assert time.monotonic() < end
    time.sleep(0.5)
pathlib.Path(os.environ["REGATTA_SCRATCH"], "written").write_text("late")
pathlib.Path("result").write_text(str(dist.get_rank()))
dist.barrier()
print("rank", dist.get_rank(), "has ended well", flush=True)
"""
BESIDE = """
import os, pathlib
from regatta.hosts import inventories
from regatta.provisioning import playbook
path = inventories.choose(os.environ["REGATTA_INVENTORY"])
raise SystemExit(playbook.play("provision", path, inventories.load(str(path)), []))
"""
"""Provisioning as it is where a run begins after the check that none is in progress."""
PLANT = f"""
cd {STATE}; mkdir ray_results; echo kept > ray_results/kept; echo evil > .bashrc; ln -s {VICTIM}/shadow bench.lock
ln -s {VICTIM} home; ln -s {VICTIM} runs/evil; mkfifo "runs/a
b"; rm .ssh/config; ln -s {VICTIM}/shadow .ssh/config; mkdir -p .cache/regatta/prepared/form
"""


class Earlier:
    """The checkout of that Regatta, used on a lab with the programs of this one's environment."""

    def __init__(self, checkout: Path, lab: LabHandle) -> None:
        self.checkout, self.lab = checkout, lab
        where = self.run(sys.executable, "-c", "import regatta, regatta.node.runs as r; print(r.__file__)")
        assert where.startswith(str(checkout)), f"{where} is not of the earlier checkout {checkout}"

    @property
    def environment(self) -> dict[str, str]:
        """That of a person who works in that checkout."""
        paths = f"{self.checkout}:{self.checkout.parent / PACKAGES}"
        own = {"PYTHONPATH": paths, "REGATTA_INVENTORY": str(self.lab.inventory)}
        return {**os.environ, **own, "PATH": f"{BIN}:{os.environ['PATH']}"}

    def run(self, *words: str, folder: Path | None = None) -> str:
        """Return what a command prints, which has to succeed."""
        return said(words, folder or self.checkout, self.environment)

    def background(self, folder: Path, *words: str) -> "subprocess.Popen[str]":
        """`regatta WORDS` in the background."""
        return subprocess.Popen(
            [BIN / "regatta", *words],
            cwd=folder,
            env=self.environment | {"REGATTA_RESULTS": str(folder.parent / "results")},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    known = subprocess.run(["git", "cat-file", "-e", f"{OLD}^{{commit}}"], cwd=PROJECT, check=False)
    assert known.returncode == 0, f"this clone's history lacks {OLD[:7]}: 'git fetch --unshallow' brings it"
    folder = tmp_path_factory.mktemp("earlier")
    with (folder / "tree.tar").open("wb") as file:
        subprocess.run(["git", "archive", OLD], cwd=PROJECT, stdout=file, check=True)
    with tarfile.open(folder / "tree.tar") as archive:
        archive.extractall(folder / "regatta", filter="data")
    lock = re.findall(r"(?m)^([\w.-]+)==(\S+)", (folder / "regatta/requirements/controller.lock").read_text())
    here = {one.name.lower().replace("_", "-") for one in metadata.distributions()}
    words = ["--quiet", "--no-deps", f"--target={folder / PACKAGES}"]
    lacking = [f"{name}=={version}" for name, version in lock if name.lower().replace("_", "-") not in here]
    subprocess.run([sys.executable, "-m", "pip", "install", *words, *lacking], check=True)
    return folder / "regatta"


@pytest.fixture(scope="module")
def hosts(make_lab: Callable[..., LabHandle]) -> Iterator[LabHandle]:
    yield make_lab(nodes=2)


@pytest.fixture(scope="module")
def earlier(checkout: Path, hosts: LabHandle) -> Earlier:
    made = Earlier(checkout, hosts)
    made.run("python", "-m", "regatta.provision", "provision")
    assert "layout" not in layout_file(hosts, "node1")
    return made


def as_root(lab: LabHandle, node: str, script: str) -> str:
    return str(lab.ssh(node, f"sudo sh -c {shlex.quote(script)}").stdout)


def layout_file(lab: LabHandle, node: str) -> dict[str, object]:
    return dict(json.loads(lab.ssh(node, "cat /etc/regatta/node.json").stdout))


def named(lab: LabHandle, node: str, folder: str) -> dict[str, str]:
    """Return what is in a folder, with owner, group and mode of each; root cannot look at the shared folder."""
    found = as_root(lab, node, f"cd {folder} && stat -c '%n %U:%G %a' $(ls -A | grep -vx shared)")
    return dict(line.split(" ", 1) for line in found.splitlines())


def test_all_is_carried_over_beside_a_run(earlier: Earlier, hosts: LabHandle, tmp_path: Path) -> None:
    cluster, project = Cluster(hosts), tmp_path / "project"
    project.mkdir()
    (project / "goes_on.py").write_text(GOES_ON)
    (project / "ends.py").write_text("print('ended')\n")
    (tmp_path / "kept.txt").write_text("kept\n")
    earlier.run("fab", "data-put", str(tmp_path / "kept.txt"), "/tmp/")
    earlier.run(str(BIN / "regatta"), "torchrun", "--workers", "1", "--name", "ended", "ends.py", folder=project)
    going = earlier.background(project, "torchrun", "--workers", "2", "--name", "going", "goes_on.py")
    read_until(going, "all have met")
    releases = {node: as_root(hosts, node, "ls -A /opt/regatta/releases | grep -v lock") for node in hosts.nodes}
    attack = Attack(hosts, ["node1"])
    attack.lay()
    hosts.ssh("node1", f"sudo runuser -u regatta -- sh -c {shlex.quote(PLANT)}")

    words = ("runs-gc", "--before", "0m", "--yes")
    for refused in (cluster.fab(*words, check=False), cluster.make("verify", check=False)):
        assert refused.returncode != 0 and "make provision" in refused.stdout, refused.stdout
    assert named(hosts, "node2", "/var/lib")["regatta"] == "regatta:regatta 750"

    held = cluster.make("provision", check=False)  # HDFS' unit is another one now, and a run might read from HDFS
    assert held.returncode != 0 and "going" in held.stdout and "FORCE=yes" in held.stdout, held.stdout
    assert named(hosts, "node2", "/var/lib")["regatta"] == "regatta:regatta 750"

    carried = subprocess.run(
        [sys.executable, "-c", BESIDE],
        cwd=PROJECT,
        env=cluster.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert carried.returncode == 0, carried.stdout[-6000:]
    assert attack.untouched("node1")
    for node in hosts.nodes:
        found = named(hosts, node, STATE)
        assert found == {
            "runs": "root:regatta 750",
            "data": "root:root 755",
            "home": "regatta:regatta 700",
            "ray": "regatta:regatta 777",
            ".ssh": "root:regatta 750",
        }
        assert named(hosts, node, "/var/lib")["regatta"] == "root:regatta 750"
        assert set(named(hosts, node, f"{STATE}/.ssh").values()) == {"root:regatta 640"}
        assert named(hosts, node, "/etc/regatta")["ray_token"] == "root:regatta 640"
        kept = as_root(hosts, node, "ls -A /opt/regatta/releases")
        assert all(name in kept for name in releases[node].split())
    assert as_root(
        hosts, "node1", f"cat {STATE}/home/ray_results.local/kept; ls {STATE}/home/.cache/regatta/prepared"
    ) == ("kept\nform\n")
    provision_again(hosts)

    listed = cluster.fab("runs").stdout
    assert "ended" in listed and "going" in listed and "evil" not in listed
    for node in hosts.nodes:
        hosts.ssh(node, f"sudo runuser -u regatta -- touch {STATE}/runs/going/work/go")
    said = finish(going, 120)
    assert going.returncode == 0 and said.count("has ended well") == 2, said
    results = {as_root(hosts, node, f"cat {STATE}/runs/going/work/result") for node in hosts.nodes}
    assert results == {"0", "1"}
    assert cluster.nothing_runs("going")

    cluster.fab("data-get", "/tmp/kept.txt", str(tmp_path / "back.txt"))
    assert (tmp_path / "back.txt").read_text() == "kept\n"
    verify(hosts)
    as_root(hosts, "node1", f"rm -r {VICTIM}")


def test_a_newer_cluster_is_left_alone(earlier: Earlier, hosts: LabHandle) -> None:
    cluster = Cluster(hosts)
    as_root(hosts, "node1", """sed -i.was 's/"layout": [0-9]*/"layout": 99/' /etc/regatta/node.json""")
    try:
        before = as_root(hosts, "node1", f"ls -lR {STATE}/runs /etc/regatta")
        for refused in (
            cluster.fab("runs-gc", "--before", "0m", "--yes", check=False),
            cluster.make("provision", check=False),
        ):
            assert refused.returncode != 0 and "node1" in refused.stdout and "update this checkout" in refused.stdout
        assert as_root(hosts, "node1", f"ls -lR {STATE}/runs /etc/regatta") == before
    finally:
        as_root(hosts, "node1", "mv /etc/regatta/node.json.was /etc/regatta/node.json")


def test_teardown_follows_nothing(earlier: Earlier, hosts: LabHandle) -> None:
    with Attack(hosts, ["node2"]) as attack:
        attack.begin()
        links = f"cd /tmp; ln -s {VICTIM} evil; mkdir evils; ln -s {VICTIM} evils/evil; mkfifo '/dev/shm/a b'"
        hosts.ssh("node2", f"sudo runuser -u regatta -- sh -c {shlex.quote(links)}")
        teardown(hosts)
        assert attack.untouched("node2")
    assert left(hosts) == {}
