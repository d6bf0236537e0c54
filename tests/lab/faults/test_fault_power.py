"""The power of all hosts and of the controller's disk is cut at one instant, in mid-write: what was done is there."""

import json
import os
import random
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from clusters import Cluster, wait_for
from faulty import new_name, whole
from telling import Teller

from lab import cutdisk, ssh
from lab.handle import LabHandle
from lab.model import STATE
from regatta import paths
from regatta.node import manifest
from regatta.records.store import Store

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import wheels

ROUNDS = 3
POINT = "/var/lib/regatta/shared"
PYTHON = "sudo -u regatta env HADOOP_CONF_DIR=/etc/regatta/hadoop /opt/regatta/env/bin/python -uc"
WRITES = """\
import hashlib, itertools, os, sys, time
kind, folder = sys.argv[1:]
if kind == "hdfs":
    from hdfs_native import Client
    create = Client(config_dir="/etc/regatta/hadoop").create
else:
    os.makedirs(folder, exist_ok=True)
    create = lambda path: open(path, "wb")
for number in itertools.count():
    body, path = os.urandom(1 + int.from_bytes(os.urandom(3), "big") % 1_000_000), f"{folder}/{number}"
    with create(path) as file:
        file.write(body)
        if kind == "fsync":
            file.flush()
            os.fsync(file.fileno())
    print(path, hashlib.sha256(body).hexdigest(), flush=True)
    time.sleep(0.02)
"""
READS = """\
import hashlib, json, os, sys
kind, folder = sys.argv[1:]
found = {}
if kind == "hdfs":
    from hdfs_native import Client
    client = Client(config_dir="/etc/regatta/hadoop")
    names = [one.path for one in client.list_status(folder, True) if not one.isdir]
    read = lambda path: client.read(path).read()
else:
    names = [os.path.join(folder, name) for name in os.listdir(folder)]
    read = lambda path: open(path, "rb").read()
for path in names:
    try:
        found[path] = hashlib.sha256(read(path)).hexdigest()
    except Exception as error:
        found[path] = repr(error)
print(json.dumps(found))
"""
TREES = """
import sys
found = {}
for tree in sys.argv[1:]:
    folder, name = os.path.split(tree)
    described = os.path.isdir(tree) and os.path.exists(os.path.join(folder, f".{name}.json"))
    found[tree] = release_id([entry(tree, path) for path in walk(tree)]) if described else ""
print(json.dumps(found))
"""
SCRIPT = "import lacking, os\nprint('rank', os.environ['RANK'], lacking.NUMBER, flush=True)\n"


@pytest.fixture
def on_disks(cluster: Cluster, tmp_path: Path) -> Iterator[cutdisk.Disks]:
    """All that the hosts write to is on disks that can be cut, and so is the folder `controller`; later as it was."""
    if lacking := cutdisk.problems():
        pytest.skip("; ".join(lacking))
    lab = cluster.lab
    (tmp_path / "controller").mkdir()
    folders = [*(STATE / lab.name / node for node in lab.nodes), tmp_path / "controller"]
    lab.stop(*lab.nodes)
    try:
        with cutdisk.Disks(STATE / lab.name / "disks", folders) as disks:
            try:
                lab.on(*lab.nodes)
                yield disks
            finally:
                lab.off(*lab.nodes)
    finally:
        lab.on(*lab.nodes)
        whole(cluster)


class Writer:
    """A program on a node that says of each file when it is written: `done` has path and SHA-256."""

    def __init__(self, lab: LabHandle, node: str, kind: str, folder: str) -> None:
        command = f"{PYTHON} {shlex.quote(WRITES)} {kind} {folder}"
        words = ssh.command(lab.inventory, f"ubuntu@{lab.addresses[node]}", command, user="ubuntu")
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.done: dict[str, str] = {}
        self.thread = threading.Thread(target=self._read)
        self.thread.start()

    def _read(self) -> None:
        assert self.process.stdout
        with self.process.stdout as lines:
            for line in lines:
                if line.endswith("\n"):
                    path, digest = line.split()
                    self.done[path] = digest

    def end(self) -> None:
        """Stop listening to it."""
        self.process.kill()
        self.process.wait()
        self.thread.join()


class Runs:
    """A person who changes the project and runs it, again and again: releases and records that were told of."""

    def __init__(self, cluster: Cluster, project: Path) -> None:
        self.cluster, self.project = cluster, project
        self.releases: list[str] = []
        self.records: list[str] = []
        self.ended = False
        self.thread = threading.Thread(target=self._go_on)
        self.thread.start()

    def _go_on(self) -> None:
        while not self.ended:
            (self.project / "changed").write_bytes(os.urandom(300_000))
            name = new_name()
            code, said = self._said("sync")
            if code == 0:
                self.releases.append(said.partition("release ")[2].partition(":")[0])
            code, said = self._said("torchrun", "--workers", "3", "--name", name, "script.py")
            if code == 0:
                self.records.append(name)

    def _said(self, *words: str) -> tuple[int, str]:
        self.process = self.cluster.background(self.project, *words)
        said = self.process.communicate()[0]
        return self.process.returncode, said

    def end(self) -> None:
        """The person is gone, too."""
        self.ended = True
        while self.thread.is_alive():
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.thread.join(0.2)


def made_project(folder: Path, number: int) -> Path:
    """A project that needs a package which the nodes lack, another one each time."""
    version = f"1.{os.getpid()}.{number}"
    wheels.make(Path(os.environ["UV_FIND_LINKS"]), "lacking", version, {"lacking.py": f"NUMBER = {number}\n"})
    project = folder / f"project{number}"
    project.mkdir()
    (project / "script.py").write_text(SCRIPT)
    (project / "requirements.txt").write_text(f"lacking=={version}\n")
    return project


def on_node(lab: LabHandle, node: str, program: str, *words: str, python: str = PYTHON) -> dict[str, str]:
    """Return what a program prints as JSON there."""
    said = lab.ssh(node, f"{python} {shlex.quote(program)} {shlex.join(words)}", timeout=300).stdout
    return dict(json.loads(said))


def trees(lab: LabHandle, node: str, wanted: Iterable[str]) -> dict[str, str]:
    """The hash of each release or layer of a node by its path; empty where it is not there, or not committed."""
    source = Path(manifest.__file__).read_text()
    return on_node(lab, node, source + TREES, *wanted, python="sudo python3 -c")


def layers(lab: LabHandle) -> dict[str, str]:
    """Layers that all nodes have, by their path, with the hash that each must have."""
    listed = [set(lab.ssh(node, "sudo ls /opt/regatta/layers").stdout.split()) for node in lab.nodes]
    known = {key: paths.cache_dir() / "layers" / f"{key}.json" for key in set.intersection(*listed)}
    return {
        f"/opt/regatta/layers/{key}": json.loads(file.read_text())["tree"]
        for key, file in known.items()
        if file.exists()
    }


@dataclass(frozen=True)
class Done:
    """Work that was acknowledged as done: files by how they were written, trees, each with its hash; records."""

    files: dict[str, dict[str, str]]
    trees: dict[str, str]
    records: list[str]


def cut_in_mid_write(cluster: Cluster, disks: cutdisk.Disks, controller: Path, number: int) -> Done:
    """Write everywhere, cut the power, come back; what was done by then."""
    lab = cluster.lab
    _, two, three = lab.nodes
    folders = {kind: f"{'' if kind == 'hdfs' else POINT}/{kind}{number}" for kind in ("hdfs", "fsync", "close")}
    writers = {kind: Writer(lab, two if kind == "fsync" else three, kind, folders[kind]) for kind in folders}
    runs = Runs(cluster, made_project(controller, number))
    try:
        wait_for(lambda: min(len(one.done) for one in writers.values()) > 10 and runs.records and runs.releases, 300)
        committed = layers(lab)
        time.sleep(random.uniform(0, 3))
        files = {kind: dict(one.done) for kind, one in writers.items()}
        done = Done(files, {f"/opt/regatta/releases/{name}": name for name in runs.releases}, list(runs.records))
        disks.cut()
        lab.off(*lab.nodes)
    finally:
        for one in (*writers.values(), runs):
            one.end()
    assert committed
    done.trees.update(committed)
    disks.come_back()
    lab.on(*lab.nodes)
    return done


def lost(lab: LabHandle, done: Done, kind: str, node: str) -> list[str]:
    """Files that were done and are not there, or have another content."""
    folder = str(Path(next(iter(done.files[kind]))).parent)
    found = on_node(lab, node, READS, kind, folder)
    return [path for path, digest in done.files[kind].items() if found.get(path) != digest]


def lost_elsewhere(lab: LabHandle, done: Done, results: Path) -> list[str]:
    """Releases, layers and records that were done and are not there, or not whole."""
    missing = []
    for node in lab.nodes:
        there = trees(lab, node, done.trees)
        missing += [f"{node}: {path}" for path, digest in done.trees.items() if there[path] != digest]
    listed = Store(results).list()
    return [*missing, *sorted({*done.records} - {one.run_id for one in listed.records}), *listed.broken]


@pytest.mark.whole
def test_what_was_done_outlives_a_power_cut_of_all_hosts(
    cluster: Cluster, on_disks: cutdisk.Disks, tell: Teller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell.begin("host", f"the power of all hosts and of the controller is cut in mid-write, {ROUNDS} times", "-")
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path / "wheels"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    controller, lab, closed, gone = tmp_path / "controller", cluster.lab, 0, 0
    for number in range(ROUNDS):
        whole(cluster)
        done = cut_in_mid_write(cluster, on_disks, controller, number)
        whole(cluster)
        said = {kind: len(files) for kind, files in done.files.items()}
        print(f"round {number}: {said}, {len(done.trees)} releases and layers, {len(done.records)} records", flush=True)
        only_closed = lost(lab, done, "close", lab.nodes[2])
        closed, gone = closed + said["close"], gone + len(only_closed)
        missing = lost(lab, done, "hdfs", lab.nodes[0]) + lost(lab, done, "fsync", lab.nodes[2])
        assert [*missing, *lost_elsewhere(lab, done, controller / "results")] == []
    print(f"of {closed} shared files that were closed without fsync {gone} are lost", flush=True)
    tell.end(
        "files of HDFS that were closed, shared files after `fsync`, releases, layers and records are there, whole"
    )
