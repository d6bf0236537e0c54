"""HDFS as a person uses it: data tasks, runs that read from it, and what happens to both when things break."""

import gzip
import hashlib
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from clusters import Cluster, finish, read_until, wait_for

MEGABYTE = 10**6
FIRST_BLOCK_MB = 170
"""Room for one block of 128 MB, and not for the rest of a file of 200."""
HDFS = "sudo -u hdfs env HADOOP_CONF_DIR=/etc/regatta/hadoop /opt/regatta/hadoop/bin/hdfs"
GROWING = """
import json, urllib.error, urllib.request
url = "http://node1:9870/webhdfs/v1/.regatta/incoming?op=LISTSTATUS&user.name=hdfs"
try:
    print(len(json.load(urllib.request.urlopen(url, timeout=10))["FileStatuses"]["FileStatus"]))
except urllib.error.HTTPError as error:
    if error.code != 404:
        raise
    print(0)
"""
SLOW_READER = """
import hashlib, sys, time
from workloads.common import storage
digest = hashlib.sha256()
with storage.open(sys.argv[1]) as file:
    while block := file.read(1 << 20):
        digest.update(block)
        print("read", flush=True)
        time.sleep(0.04)
print("sum", digest.hexdigest(), flush=True)
"""


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """200 MB that no compression makes smaller."""
    path = tmp_path_factory.mktemp("data") / "big.bin"
    with path.open("wb") as file:
        for _ in range(200):
            file.write(os.urandom(MEGABYTE))
    return path


@pytest.fixture(scope="module")
def home(cluster: Cluster) -> Iterator[str]:
    """A folder of HDFS for this module."""
    cluster.fab("up")
    yield "/test-data"
    cluster.fab("data-rm", "/test-data", "--recursive", "--yes", check=False)


def one_message(cluster: Cluster, *words: str) -> str:
    """Return what a command that must fail says: one message, no traceback, nothing else."""
    done = cluster.fab(*words, check=False)
    assert done.returncode, done.stdout
    assert "Traceback" not in done.stdout
    found = [line for line in done.stdout.splitlines() if line.startswith("error: ")]
    assert len(found) == 1, done.stdout
    return found[0]


def names(cluster: Cluster, folder: str) -> list[str]:
    """Paths below a folder of HDFS."""
    return re.findall(r"(/\S*)$", cluster.fab("data-ls", folder, "--recursive").stdout, re.MULTILINE)


def nothing_half(cluster: Cluster) -> bool:
    """Whether no half file is left anywhere: files grow in one folder, and it is empty or not there."""
    return cluster.lab.ssh("node1", f"python3 - <<'END'\n{GROWING}\nEND").stdout.strip() == "0"


def full_copies(cluster: Cluster) -> bool:
    """Whether three DataNodes are live and no block lacks a copy."""
    said = cluster.fab("hdfs-status", check=False).stdout
    return "3 live, 0 dead" in said and ", 0 with too few copies" in said


def everywhere(cluster: Cluster, command: str) -> None:
    """A shell command on every node at the same time."""
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda node: cluster.lab.ssh(node, command), cluster.lab.nodes))


def same(one: Path, other: Path) -> bool:
    return sha256(one) == sha256(other)


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.first
def test_put_and_get(cluster: Cluster, home: str, big: Path, tmp_path: Path) -> None:
    cluster.fab("data-put", str(big), f"{home}/big.bin")
    assert "is there already" in one_message(cluster, "data-put", str(big), f"{home}/big.bin")
    (tmp_path / "back.part").write_text("a person's own")
    cluster.fab("data-get", f"hdfs://{home}/big.bin", str(tmp_path / "back"))
    assert same(big, tmp_path / "back")
    assert (tmp_path / "back.part").read_text() == "a person's own"
    assert "is there already" in one_message(cluster, "data-get", f"{home}/big.bin", str(tmp_path / "back"))
    cluster.fab("data-get", f"{home}/big.bin", str(tmp_path), "--force")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["back", "back.part", "big.bin"]
    assert nothing_half(cluster)


def test_a_folder_there_and_back(cluster: Cluster, home: str, tmp_path: Path) -> None:
    source = tmp_path / "tree"
    (source / "deep" / "deeper").mkdir(parents=True)
    (source / "empty").write_bytes(b"")
    (source / "deep" / "a b.txt").write_text("ä\n")
    (source / "deep" / "deeper" / "c.gz").write_bytes(gzip.compress(b"c" * 1000))
    cluster.fab("data-put", str(source), f"{home}/trees/")
    assert f"{home}/trees/tree/deep/deeper/c.gz" in names(cluster, home)
    assert "is there already" in one_message(cluster, "data-put", str(source), f"{home}/trees")
    (tmp_path / "file").mkdir()
    (tmp_path / "file" / "tree").write_text("not a folder")
    assert "is a folder" in one_message(cluster, "data-put", str(tmp_path / "file/tree"), f"{home}/trees", "--force")
    cluster.fab("data-put", str(source), f"{home}/trees/", "--force")
    cluster.fab("data-get", f"{home}/trees/tree", str(tmp_path / "back"))
    for path in source.rglob("*"):
        other = tmp_path / "back" / path.relative_to(source)
        assert path.is_dir() or other.read_bytes() == path.read_bytes()
    assert "--recursive" in one_message(cluster, "data-rm", f"{home}/trees", "--yes")
    cluster.fab("data-rm", f"{home}/trees", "--recursive", "--yes")
    assert not [name for name in names(cluster, home) if "trees" in name]


def test_a_put_that_is_interrupted_leaves_nothing(cluster: Cluster, home: str, big: Path) -> None:
    for number in (signal.SIGINT, signal.SIGKILL):
        going = cluster.fab_background("data-put", str(big), f"{home}/half.bin")
        wait_for(lambda: not nothing_half(cluster))
        os.killpg(going.pid, number)
        assert "Traceback" not in finish(going)
        assert going.returncode
        wait_for(lambda: nothing_half(cluster))
        assert f"{home}/half.bin" not in names(cluster, home)


def test_generated_data_is_the_same_for_a_seed(cluster: Cluster, home: str, tmp_path: Path) -> None:
    for name in ("one", "two"):
        cluster.fab("data-gen", "graph", "--size", "300000", "--seed", "7", "--to", f"{home}/{name}.txt.gz")
        cluster.fab("data-get", f"{home}/{name}.txt.gz", str(tmp_path / name))
    assert same(tmp_path / "one", tmp_path / "two")
    lines = gzip.decompress((tmp_path / "one").read_bytes()).splitlines()
    assert len(lines) == 300_001


def test_a_run_reads_its_graph_from_hdfs(cluster: Cluster, home: str, tmp_path: Path) -> None:
    graph = f"hdfs://{home}/small.txt.gz"
    cluster.fab("data-gen", "graph", "--size", "200000", "--to", graph)
    done = cluster.fab("run-ppr", "--graph", graph, "--workers", "4", "--count", "4", results=tmp_path)
    assert "The answers of 3 runs are equal" in done.stdout
    words = ("run-ppr", "--framework", "torch", "--workers", "4", "--graph", graph)
    cluster.fab(*words, results=tmp_path)
    assert "prepared graph from an earlier run" in cluster.fab(*words, results=tmp_path).stdout
    cluster.fab("data-gen", "graph", "--size", "200000", "--seed", "1", "--to", graph, "--force")
    assert "prepared graph from an earlier run" not in cluster.fab(*words, results=tmp_path).stdout


def test_a_record_has_the_checksum_of_a_folder_in_hdfs(cluster: Cluster, home: str, tmp_path: Path) -> None:
    """The same files stored again have the same one; one byte more, and data are other ones."""
    folder, found = tmp_path / "sky", []
    (folder / "south").mkdir(parents=True)
    (folder / "one.csv").write_text("u,g,class\n" + "19.1,18.2,STAR\n20.4,19.9,GALAXY\n" * 20)
    (folder / "south/notes.csv").write_text("nothing\n")
    for number, more in enumerate(("", "", "\n")):
        with (folder / "south/notes.csv").open("a") as notes:
            notes.write(more)
        cluster.fab("data-put", str(folder), f"{home}/sky{number}")
        words = ("--framework", "single", "--label", "class", "--epochs", "1")
        cluster.fab(
            "run", "stars", *words, "--data", f"hdfs://{home}/sky{number}", results=tmp_path / "kept", check=False
        )
        (newest, *_) = sorted((tmp_path / "kept").glob("*.json"), key=lambda path: -path.stat().st_mtime)
        given = json.loads(newest.read_text())["identity"]["parameters"]
        found.append((given["data_bytes"], given["data_checksum"]))
    assert found[0] == found[1] and found[2][0] == found[0][0] + 1 and found[2][1] != found[0][1]
    assert found[0][1].startswith("SHA-256 of 2 checksums:")


def test_bad_input_is_one_message(cluster: Cluster, home: str, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.write_text("1 2\n")
    cluster.fab("data-put", str(small), f"{home}/file")
    said = {
        ("data-get", f"{home}/gone", str(tmp_path)): "no such file",
        ("data-ls", f"{home}/gone"): "no such file",
        ("data-rm", f"{home}/gone", "--yes"): "no such file",
        ("data-put", str(tmp_path / "gone"), home): "no file or folder",
        ("data-put", str(small), f"{home}/file/below"): "not a folder",
        ("data-put", str(small), "relative"): "no path in HDFS",
        ("data-get", f"{home}/file", str(tmp_path / "no" / "where")): "there is no folder",
        ("data-get", "hdfs://nowhere:8020/x", str(tmp_path)): "no host 'nowhere'",
        ("data-rm", "/", "--yes", "--recursive"): "root cannot be removed",
        ("data-gen", "cats"): "no generator",
        ("run-ppr", "--graph", f"hdfs://{home}/gone"): "no such file",
        ("run-ppr", "--graph", f"hdfs://{home}"): "is a folder",
        ("run", "stars", "--data", f"hdfs://{home}/gone"): "no such file",
        ("run-ppr", "--graph", "hdfs:///x", "--inventory", "inventory/local"): "inventory/local has no HDFS",
        ("hdfs-status", "--inventory", "inventory/local"): "inventory/local has no HDFS",
    }
    for words, part in said.items():
        assert part in one_message(cluster, *words), words
    lab = cluster.lab
    lab.ssh("node1", f"{HDFS} dfs -mkdir /theirs && {HDFS} dfs -chmod 700 /theirs")
    try:
        assert "user regatta may not" in one_message(cluster, "data-put", str(small), "/theirs/x")
        lab.ssh("node1", f"{HDFS} dfsadmin -safemode enter")
        assert "safe mode" in one_message(cluster, "data-put", str(small), f"{home}/safe")
        assert "safe mode:   Safe mode is ON" in cluster.fab("hdfs-status").stdout
    finally:
        lab.ssh("node1", f"{HDFS} dfsadmin -safemode leave; {HDFS} dfs -rm -r /theirs")
    lab.ssh("node1", "sudo mv /etc/regatta/hadoop /etc/regatta/away")
    try:
        assert "make provision" in one_message(cluster, "data-ls", "/")
    finally:
        lab.ssh("node1", "sudo mv /etc/regatta/away /etc/regatta/hadoop")


def test_the_disk_of_every_datanode_becomes_full(cluster: Cluster, home: str, big: Path) -> None:
    """The first block of a file has space, and the second has none."""
    settings, data = "/etc/regatta/hadoop/hdfs-site.xml", "/var/lib/regatta-hdfs/data"
    small_disk = (
        "set -e; sudo systemctl stop regatta-hdfs-datanode; "
        rf"sudo sed -i.kept 's,\(du.reserved</name><value>\)[0-9]*,\10,' {settings}; "
        f"sudo mv {data} {data}.kept; sudo install -d -o hdfs -g hdfs -m 700 {data}; "
        f"used=$(sudo du -sm {data}.kept | cut -f1); "
        f"sudo mount -t tmpfs -o size=$((used + {FIRST_BLOCK_MB}))m,mode=700 none {data}; "
        f"sudo cp -a {data}.kept/. {data}; sudo chown hdfs:hdfs {data}; sudo systemctl start regatta-hdfs-datanode"
    )
    back = (
        f"sudo systemctl stop regatta-hdfs-datanode; sudo umount {data}; "
        f"sudo rmdir {data} && sudo mv {data}.kept {data}; "
        f"sudo mv {settings}.kept {settings}; sudo systemctl start regatta-hdfs-datanode"
    )
    try:
        everywhere(cluster, small_disk)
        wait_for(lambda: "3 live" in cluster.fab("hdfs-status", check=False).stdout)
        assert "space" in one_message(cluster, "data-put", str(big), f"{home}/none.bin")
        assert nothing_half(cluster)
        assert f"{home}/none.bin" not in names(cluster, home)
    finally:
        everywhere(cluster, back)
    wait_for(lambda: full_copies(cluster), 60)


@pytest.mark.whole
def test_a_damaged_copy_is_not_read_and_replaced(cluster: Cluster, home: str, big: Path, tmp_path: Path) -> None:
    cluster.fab("data-put", str(big), f"{home}/damaged.bin", "--force")
    block = re.search(r"blk_\d+", cluster.lab.ssh("node1", f"{HDFS} fsck {home}/damaged.bin -files -blocks").stdout)
    assert block
    find = f"sudo find /var/lib/regatta-hdfs/data -name {block[0]}"
    damage = f'f=$({find}); test -n "$f"; printf damaged | sudo dd of=$f bs=1 seek=5000000 conv=notrunc'
    cluster.lab.ssh("node1", damage)
    cluster.fab("data-get", f"{home}/damaged.bin", str(tmp_path / "back"))
    assert same(big, tmp_path / "back")
    said = cluster.fab("hdfs-repair", "--below", home).stdout
    assert f"1 damaged, replaced ({home}/damaged.bin)" in said
    assert full_copies(cluster)
    said = json.loads(re.search(r"(?ms)^\{.*", cluster.fab("hdfs-repair", "--json").stdout)[0])
    assert said["read"] > 0 and said["replaced"] == {}
    for node in cluster.lab.nodes:
        cluster.lab.ssh(node, f'f=$({find}); test -n "$f"; ! sudo grep -q -a damaged $f')


@pytest.mark.whole
def test_a_datanode_loses_power_during_a_put(cluster: Cluster, home: str, big: Path, tmp_path: Path) -> None:
    going = cluster.fab_background("data-put", str(big), f"{home}/power.bin")
    wait_for(lambda: not nothing_half(cluster))
    cluster.lab.off("node3")
    try:
        said = finish(going, 120)
        assert going.returncode == 0, said
        cluster.fab("data-get", f"{home}/power.bin", str(tmp_path / "back"))
        assert same(big, tmp_path / "back")
    finally:
        cluster.lab.on("node3")
    wait_for(lambda: full_copies(cluster), 120)
    assert nothing_half(cluster)


@pytest.mark.whole
def test_a_datanode_loses_power_while_it_is_read(cluster: Cluster, home: str, big: Path) -> None:
    cluster.fab("data-put", str(big), f"{home}/read.bin", "--force")
    cluster.fab("sync")
    cluster.lab.ssh("node1", "sudo systemctl stop regatta-hdfs-datanode")
    python = "sudo -u regatta env PYTHONPATH=/opt/regatta/current /opt/regatta/env/bin/python"
    program = ["ssh", *ssh_options(cluster), f"{python} - hdfs://{home}/read.bin"]
    going = subprocess.Popen(
        program, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert going.stdin
    going.stdin.write(SLOW_READER)
    going.stdin.close()
    victim = None
    try:
        read_until(going, "read")
        peers = cluster.lab.ssh("node1", "ss -Htn state established dport = :9866").stdout
        victim = next(node for node, address in cluster.lab.addresses.items() if f"{address}:9866" in peers)
        cluster.lab.off(victim)
        began = time.monotonic()
        assert going.stdout
        said = going.stdout.read()
        assert going.wait(10) == 0, said
        assert sha256(big) in said
        assert time.monotonic() - began < 60
    finally:
        going.kill()
        if victim:
            cluster.lab.on(victim)
        cluster.lab.ssh("node1", "sudo systemctl start regatta-hdfs-datanode")
    wait_for(lambda: full_copies(cluster), 120)


@pytest.mark.whole
def test_a_datanode_loses_power_during_a_run(cluster: Cluster, home: str, tmp_path: Path) -> None:
    graph = f"hdfs://{home}/run.txt"
    cluster.fab("data-gen", "graph", "--size", "1000000", "--to", graph)
    expected = cluster.fab("run-ppr", "--graph", graph, "--framework", "single", "--count", "2", results=tmp_path)
    cluster.lab.ssh("node1", "sudo rm -rf ~regatta/.cache/regatta/prepared; sudo systemctl stop regatta-hdfs-datanode")
    going = cluster.fab_background("run-ppr", "--graph", graph, "--framework", "single", "--count", "2")
    try:
        seen = read_until(going, "single process")
        cluster.lab.off("node3")
        said = seen + finish(going, 120)
        assert going.returncode == 0, said
        assert [line for line in said.splitlines() if line.startswith("source ")] == [
            line for line in expected.stdout.splitlines() if line.startswith("source ")
        ]
    finally:
        cluster.lab.on("node3")
        cluster.lab.ssh("node1", "sudo systemctl start regatta-hdfs-datanode")
    wait_for(lambda: full_copies(cluster), 120)


def ssh_options(cluster: Cluster) -> list[str]:
    folder = cluster.lab.inventory
    return [
        "-F",
        str(folder / "ssh_config"),
        "-i",
        str(folder / "secrets/lab_key"),
        f"ubuntu@{cluster.lab.addresses['node1']}",
    ]
