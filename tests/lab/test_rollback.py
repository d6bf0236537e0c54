"""Back to an earlier environment and forward again, while a run is in progress."""

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters import Cluster
from waiting import Waiting

EARLIER = "0" * 16
COPY = f"""
cd /opt/regatta && cp -al $(readlink env) env-{EARLIER} && rm env-{EARLIER}/regatta-env.json
sed 's/"hash": *"[^"]*"/"hash": "{EARLIER}"/' env/regatta-env.json > env-{EARLIER}/regatta-env.json
touch -d 2000-01-01 env-{EARLIER}
"""


@pytest.fixture
def earlier(cluster: Cluster) -> Iterator[str]:
    """An earlier environment on every node: the same files by another name."""
    for node in cluster.lab.nodes:
        cluster.lab.ssh(node, f"sudo sh -ec {shlex.quote(COPY)}")
    yield EARLIER
    for node in cluster.lab.nodes:
        cluster.lab.ssh(node, f"sudo rm -rf /opt/regatta/env-{EARLIER}")


def current(cluster: Cluster) -> set[str]:
    """Return where the nodes' links lead."""
    return {cluster.lab.ssh(node, "readlink /opt/regatta/env").stdout.strip() for node in cluster.lab.nodes}


def programs(cluster: Cluster, run: str) -> str:
    """Commands of a run's processes on node2."""
    pids = cluster.processes("node2", f"REGATTA_RUN_ID={run}")
    return "".join(cluster.lab.ssh("node2", f"sudo cat {pid.replace('environ', 'cmdline')}").stdout for pid in pids)


@pytest.mark.whole
def test_rollback_and_forward(cluster: Cluster, earlier: str, tmp_path: Path) -> None:
    (now,) = current(cluster)
    with Waiting(cluster, tmp_path / "project") as run:
        assert f"/opt/regatta/{now}/bin/python" in programs(cluster, run)
        said = cluster.make("rollback").stdout
        assert f"back to {earlier}" in said and "Ray is up on 3 node(s)" in said
        assert current(cluster) == {f"env-{earlier}"}
        assert f"/opt/regatta/{now}/bin/python" in programs(cluster, run)
    before = cluster.lab.ssh("node2", "systemctl show -p MainPID regatta-ray-worker").stdout
    cluster.make("provision")
    assert current(cluster) == {now}
    assert cluster.lab.ssh("node2", "systemctl show -p MainPID regatta-ray-worker").stdout != before
