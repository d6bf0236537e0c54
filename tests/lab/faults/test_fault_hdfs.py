"""HDFS's daemons die while all ranks read from it."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters import Cluster, read_until
from faulty import command, new_name, nothing_left, strike, whole
from telling import Teller

TORCH_IN_CI = pytest.mark.parametrize("framework", ["torch", pytest.param("ray", marks=pytest.mark.whole)])
MEGABYTES = 120


@pytest.fixture(scope="module")
def stored(struck: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A file in HDFS: its address and SHA-256."""
    path = tmp_path_factory.mktemp("stored") / "stored.bin"
    path.write_bytes(os.urandom(MEGABYTES * 10**6))
    struck.fab("data-put", str(path), "/test-faults/stored.bin", "--force")
    yield "hdfs:///test-faults/stored.bin", hashlib.sha256(path.read_bytes()).hexdigest()
    struck.fab("data-rm", "/test-faults", "--recursive", "--yes")


@pytest.mark.first
@TORCH_IN_CI
@pytest.mark.parametrize(
    ("daemon", "node", "unit"),
    [
        pytest.param("DataNode", "node2", "datanode", marks=pytest.mark.whole),
        ("NameNode", "node1", "namenode"),
    ],
    ids=["datanode", "namenode"],
)
def test_a_daemon_of_hdfs_is_killed(
    struck: Cluster,
    project: Path,
    tell: Teller,
    stored: tuple[str, str],
    framework: str,
    daemon: str,
    node: str,
    unit: str,
) -> None:
    tell.begin("hdfs", f"the {daemon} gets SIGKILL while all ranks read", framework)
    address, sum_of_it = stored
    name = new_name()
    process = struck.background(project, *command(framework, "read", name, address))
    reading: set[str] = set()
    while len(reading) < 3:
        reading.add(read_until(process, " reads").splitlines()[-1].partition(" reads")[0])
    told = strike(process, lambda: struck.lab.ssh(node, f"sudo systemctl kill -s KILL regatta-hdfs-{unit}"))
    assert told.code == 0, told.said
    assert told.said.count(f"sum {sum_of_it}") >= 3, told.said
    tell.end("continues, and ends with the right answer; the daemon comes back by itself")
    nothing_left(struck, project)
    whole(struck)
