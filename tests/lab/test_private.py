"""Hosts that only the head reaches, none of which has a way out: the whole way, in the order of this file."""

import hashlib
import os
import random
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath

import pytest
import typed_json
from clusters import Cluster, finish, read_until, sums, traffic, wait_for
from offline import offline
from provisioning import PROJECT, left, logged, play, provision_again, teardown, verify, without_archives
from waiting import WAITS, Waiting

from lab.handle import LabHandle, read_lab
from regatta import paths
from regatta.hosts import cluster, inventories

pytestmark = [pytest.mark.whole, pytest.mark.timeout(1800)]
ONCE = 1.5
"""The number of times a thing may cross the way to the head: once, and what goes along with it."""


@pytest.fixture(scope="module")
def hosts(make_lab: Callable[..., LabHandle]) -> LabHandle:
    """Three fresh hosts. `$REGATTA_TEST_PRIVATE_LAB` names such a lab to use instead."""
    if name := os.environ.get("REGATTA_TEST_PRIVATE_LAB"):
        return read_lab(name)
    return make_lab(nodes=3, egress=False, topology="private")


@pytest.fixture(scope="module")
def arrived(hosts: LabHandle) -> dict[str, int]:
    """The hosts are provisioned; how much each got meanwhile, in bytes."""
    variables = hosts.inventory / "group_vars/all.yml"
    variables.parent.mkdir(exist_ok=True)
    variables.write_text("hdfs_checkpoint_period_s: 8\n")
    before = {node: traffic(hosts, node, "rx") for node in hosts.nodes}
    play(hosts, "provision")
    return {node: traffic(hosts, node, "rx") - before[node] for node in hosts.nodes}


@pytest.fixture
def private(hosts: LabHandle, arrived: dict[str, int]) -> Cluster:
    """The cluster."""
    return Cluster(hosts)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder of a person's own."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "waits.py").write_text(WAITS)
    return folder


def test_only_the_head_is_reached(hosts: LabHandle) -> None:
    nodes = inventories.load(str(hosts.inventory)).nodes
    assert [node.cluster_address == node.host for node in nodes] == [False, True, True]
    for node in nodes:
        with pytest.raises(OSError):
            socket.create_connection((node.cluster_address, 22), timeout=2)
    here = f"{hosts.addresses['node1'].rpartition('.')[0]}.1"
    try:
        hosts.ssh("node2", f"sudo ip route add {here} dev host0")
        assert hosts.ssh("node2", f"timeout 2 bash -c ': </dev/tcp/{here}/22'", check=False).returncode == 124
    finally:
        hosts.ssh("node2", f"sudo ip route del {here} dev host0", check=False)
    assert "default" not in "".join(hosts.ssh(node, "ip route").stdout for node in hosts.nodes)


def test_what_all_hosts_need_crosses_once(arrived: dict[str, int]) -> None:
    print({node: f"{count / 1e6:.1f} MB" for node, count in arrived.items()})
    assert arrived["node2"] > 100e6
    assert arrived["node1"] < ONCE * max(arrived["node2"], arrived["node3"])


def test_a_release_crosses_once(private: Cluster, project: Path) -> None:
    (project / "model.bin").write_bytes(secrets.token_bytes(12_000_000))
    before = traffic(private.lab, "node1", "rx")
    said = private.regatta(project, "sync").stdout
    assert "sent to node1, node2, node3; proven on 3 node(s)" in said
    assert 12e6 < traffic(private.lab, "node1", "rx") - before < ONCE * 12e6
    content = (project / "model.bin").read_bytes()
    assert sums(private.lab, "/opt/regatta/current/model.bin") == {hashlib.sha256(content).hexdigest()}
    assert "already on every node" in private.regatta(project, "sync").stdout


def test_input_of_a_run_crosses_once(private: Cluster, tmp_path: Path) -> None:
    graph, dice = tmp_path / "edges.txt", random.Random(secrets.randbits(64))
    graph.write_text("".join(f"{dice.randrange(10**8)} {dice.randrange(10**8)}\n" for _ in range(500_000)))
    private.fab("sync")
    before = traffic(private.lab, "node1", "rx")
    said = private.fab(
        "run-ppr", "--graph", str(graph), "--framework", "torch", "--workers", "3", results=tmp_path / "r"
    )
    assert "torch" in said.stdout
    assert traffic(private.lab, "node1", "rx") - before < ONCE * graph.stat().st_size


def test_verify_proves_it(private: Cluster) -> None:
    verify(private.lab)


def test_both_frameworks_agree(private: Cluster, tmp_path: Path) -> None:
    said = private.fab("run-ppr", "--workers", "3", results=tmp_path / "results").stdout
    assert "answers of 3 runs are equal" in said


def test_status_top_logs_and_cancel(private: Cluster, tmp_path: Path) -> None:
    told = typed_json.read("status", private.fab("status", "--json").stdout)
    assert sorted(told.members["ray"]) == sorted(node.cluster_address for node in nodes(private))
    with Waiting(private, tmp_path / "waits") as run:
        seen = {one.node: one for one in typed_json.read("top", private.fab("top", "--json").stdout)}
        assert [[r["id"] for r in seen[node].sample["runs"]] for node in private.lab.nodes] == [[run]] * 3
        assert "all have met" in private.fab("logs", run).stdout
        private.fab("cancel", run)
        wait_for(lambda: private.nothing_runs(run))
    assert re.search(rf"^{run}\s+cancelled", private.fab("runs").stdout, re.M)


def test_data_through_the_head(private: Cluster, tmp_path: Path) -> None:
    sent, back = tmp_path / "sent.bin", tmp_path / "back.bin"
    sent.write_bytes(secrets.token_bytes(5_000_000))
    before = traffic(private.lab, "node1", "rx")
    private.fab("data-put", str(sent), "/tmp/", "--force")
    assert traffic(private.lab, "node1", "rx") - before < ONCE * 5e6
    private.fab("data-get", "/tmp/sent.bin", str(back))
    assert back.read_bytes() == sent.read_bytes()
    assert "3 live, 0 dead" in private.fab("hdfs-status").stdout


def test_dashboard_through_the_head(private: Cluster, project: Path) -> None:
    process = private.background(project, "dashboard")
    try:
        found = re.findall(r"http://127\.0\.0\.1:\d+/", read_until(process, "Prometheus:"))
        for address, page in zip(found, ("", "jmx?qry=java.lang:type=Runtime", "-/ready"), strict=True):
            with urllib.request.urlopen(address + page, timeout=30) as answer:
                assert answer.status == 200
    finally:
        os.killpg(process.pid, signal.SIGINT)
        finish(process, 20)


def test_a_lost_host_is_named_and_comes_back(private: Cluster, project: Path) -> None:
    process = private.background(project, "torchrun", "--workers", "3", "waits.py")
    read_until(process, "all have met")
    private.lab.off("node3")
    said = finish(process, 120)
    assert process.returncode not in (0, None)
    assert "node3" in said
    private.lab.on("node3")
    wait_for(lambda: private.fab("status", check=False).returncode == 0, 120)
    assert "already on every node" in private.regatta(project, "sync").stdout


def spoiled(archive: Path, folder: Path) -> Path:
    """A copy with one bit turned, next to what describes the archive."""
    folder.mkdir()
    for path in (archive, archive.with_name(f"{archive.name}.json")):
        if path.exists():
            shutil.copy(path, folder)
    turn(folder / archive.name, archive.stat().st_size // 2)
    return folder / archive.name


def test_a_host_rebuilt_is_provisioned_through_the_head(private: Cluster) -> None:
    private.lab.rebuild("node2", keep_known_hosts=True)
    refused = play(private.lab, "provision", good=False)
    assert "regatta forget --node node2" in " ".join(refused.split())
    play(private.lab, "rebuild", "--node", "node2", "--yes")
    verify(private.lab)
    provision_again(private.lab)


def test_tampered_archives_are_refused_by_hosts_without_them(private: Cluster, tmp_path: Path) -> None:
    lab, cache = private.lab, paths.cache_dir()
    environment = without_archives(lab, "node3")
    tarball = next((cache / "hadoop").glob("*.tar.gz"))
    other = spoiled(tarball, tmp_path / "hadoop")
    said = play(lab, "provision", "-e", f"hdfs_tarball={other}", good=False)
    assert f"{other}: its SHA-512 is" in said
    (tmp_path / "cache").mkdir()
    for path in cache.iterdir():
        (tmp_path / "cache" / path.name).symlink_to(path)
    (tmp_path / "cache/env").unlink()
    spoiled(cache / "env" / f"{environment}.tar.zst", tmp_path / "cache/env")
    said = play(lab, "provision", good=False, REGATTA_CACHE=str(tmp_path / "cache"))
    assert "SHA-256 differs from the controller's" in said
    assert lab.ssh("node3", f"ls -d /opt/regatta/{environment}", check=False).stdout == ""
    assert lab.ssh("node1", "sudo ls -A /opt/regatta/.relay", check=False).stdout == ""
    play(lab, "provision")
    verify(lab)


def test_nothing_stays_on_the_way(private: Cluster) -> None:
    found = private.lab.ssh(
        "node1", "sudo ls -A /opt/regatta/.relay; ls -d /var/tmp/regatta* /tmp/regatta*", check=False
    )
    assert found.stdout == ""


def test_teardown_leaves_nothing(private: Cluster) -> None:
    teardown(private.lab)
    assert left(private.lab) == {}


@pytest.fixture(scope="module")
def needing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's project that needs a package which the nodes lack."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "requirements.txt").write_text("toolz\n")
    (folder / "needs.py").write_text("import os, toolz\nprint('rank', os.environ['RANK'], 'has', toolz.__file__)\n")
    return folder


@pytest.fixture(scope="module")
def bundle(hosts: LabHandle, needing: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A bundle for the hosts and the project, made while the controller has a network."""
    path = tmp_path_factory.mktemp("bundle") / "regatta-bundle.tar"
    said = play(hosts, "bundle", "--out", str(path), "--project", str(needing))
    assert str(path) in said and "SHA-256" in said
    yield path
    path.unlink()


@contextmanager
def tampered(bundle: Path, pattern: str) -> Iterator[str]:
    """The bundle with one bit turned in the first of its files that match; the name of that file."""
    with tarfile.open(bundle) as archive:
        entry = next(entry for entry in archive if PurePath(entry.name).match(pattern))
    place = entry.offset_data + entry.size // 2
    turn(bundle, place)
    try:
        yield entry.name
    finally:
        turn(bundle, place)


@pytest.mark.parametrize("pattern", ["wheels/*/*.whl", "hadoop/*.tar.gz", "*.deb"])
def test_a_tampered_bundle_is_refused_before_anything_is_changed(hosts: LabHandle, bundle: Path, pattern: str) -> None:
    with tampered(bundle, pattern) as name:
        said = play(hosts, "provision", "--bundle", str(bundle), good=False)
    assert f"{name} in it is not the file that was packed" in said
    assert "PLAY" not in said + logged(hosts)


def copied(folder: Path) -> Path:
    """The checkout as a person brings it to another machine: what is in git, and nothing that was made of it."""
    folder.mkdir()
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=PROJECT, capture_output=True, check=True).stdout
    copy = ["rsync", "-a", "--from0", "--files-from=-", f"{PROJECT}/", str(folder)]
    subprocess.run(copy, input=listed, check=True)
    return folder


def test_nothing_is_set_up_from_a_tampered_bundle(bundle: Path, tmp_path: Path) -> None:
    checkout = copied(tmp_path / "checkout")
    with tampered(bundle, "controller/*.whl") as name:
        command = ["make", "setup", f"BUNDLE={bundle}"]
        done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)
    assert done.returncode and f"{name} in it is not the file that was packed" in done.stderr
    assert not (checkout / ".venv").exists()


def test_an_offline_controller_is_set_up_provisions_bare_hosts_and_runs_a_project(
    hosts: LabHandle, bundle: Path, needing: Path, tmp_path: Path
) -> None:
    hosts.rebuild(*hosts.nodes)
    with offline(hosts, copied(tmp_path / "checkout"), tmp_path / "cache") as controller:
        for target in ("deb.debian.org", "192.0.2.1"):
            program = f"import socket; socket.create_connection(('{target}', 80), 5)"
            assert controller.run(sys.executable, "-c", program).returncode == 1
        for words in (["setup", f"BUNDLE={bundle}"], ["provision", f"BUNDLE={bundle}"], ["verify"]):
            done = controller.run("make", f"INVENTORY={hosts.inventory}", *words)
            assert done.returncode == 0, done.stdout[-6000:]
        assert "all-reduce over 3 node(s) is right" in done.stdout
        assert not (tmp_path / "checkout/.venv/bin/ruff").exists()
        regatta = str(tmp_path / "checkout/.venv/bin/regatta")
        run = (regatta, "torchrun", f"--inventory={hosts.inventory}", "--workers=3", "needs.py")
        done = controller.run(*run, cwd=needing, REGATTA_RESULTS=str(tmp_path / "results"))
        assert done.returncode == 0, done.stdout[-6000:]
        for rank in range(3):
            assert f"rank {rank} has /opt/regatta/layers/" in done.stdout


def turn(path: Path, place: int) -> None:
    """Turn one bit of a file."""
    with path.open("r+b") as file:
        file.seek(place)
        (byte,) = file.read(1)
        file.seek(place)
        file.write(bytes([byte ^ 1]))


def nodes(private: Cluster) -> tuple[cluster.Node, ...]:
    """The inventory's hosts."""
    return inventories.load(str(private.lab.inventory)).nodes
