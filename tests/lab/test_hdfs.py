"""HDFS on hosts of a lab: what it holds outlives everything but a disk, and a disk's loss where there are copies."""

import json
import re
import time
from typing import Any

import pytest
from clusters import Cluster, wait_for
from provisioning import changed, left, play, provision, provision_again, teardown

from lab.handle import LabHandle

pytestmark = pytest.mark.timeout(2400)
DATA = "/var/lib/regatta-hdfs"
FILES = {"big": 40_000_000, "small": 1000}


@pytest.fixture(scope="module")
def hosts(cluster: Cluster) -> LabHandle:
    """The shared hosts."""
    cluster.fab("up")
    return cluster.lab


@pytest.fixture(scope="module")
def sums(hosts: LabHandle) -> str:
    """Files are put into HDFS; returns their SHA-256."""
    make = "; ".join(f"head -c {size} /dev/urandom > /tmp/held/{name}" for name, size in FILES.items())
    found = hosts.ssh(hosts.nodes[0], f"mkdir -p /tmp/held; {make}; cd /tmp/held && sha256sum *").stdout
    dfs(hosts, "-put -f /tmp/held /")
    return found


def dfs(hosts: LabHandle, words: str, node: int = 0) -> str:
    """`hdfs dfs WORDS` on a node as the user regatta."""
    command = f"cd /tmp; sudo -u regatta /opt/regatta/hadoop/bin/hdfs dfs {words}"
    return hosts.ssh(hosts.nodes[node], command, timeout=180).stdout


def intact(hosts: LabHandle, sums: str, node: int = -1) -> bool:
    """Whether every file reads back as it was written."""
    hosts.ssh(hosts.nodes[node], "sudo rm -rf /tmp/back")
    dfs(hosts, "-get /held /tmp/back", node)
    return hosts.ssh(hosts.nodes[node], "cd /tmp/back && sha256sum *").stdout == sums


def systemctl(hosts: LabHandle, node: int, words: str) -> str:
    return hosts.ssh(hosts.nodes[node], f"sudo systemctl {words}", check=False).stdout.strip()


def bean(hosts: LabHandle, name: str) -> dict[str, Any]:
    """Figures of the NameNode; empty while it does not answer."""
    url = f"http://{hosts.addresses[hosts.nodes[0]]}:9870/jmx?qry=Hadoop:service=NameNode,name={name}"
    program = f"import urllib.request as u; print(u.urlopen('{url}', timeout=5).read().decode())"
    said = hosts.ssh(hosts.nodes[0], f'python3 -c "{program}"', check=False).stdout
    return dict((json.loads(said or "{}").get("beans") or [{}])[0])


def live(hosts: LabHandle) -> int:
    """Return how many DataNodes are live, none while in safe mode."""
    info = bean(hosts, "NameNodeInfo")
    return len(json.loads(info["LiveNodes"])) if info and not info["Safemode"] else 0


@pytest.mark.provisioning
@pytest.mark.whole
def test_ready_and_idempotent(hosts: LabHandle, sums: str) -> None:
    provision_again(hosts)
    said = play(hosts, "verify")
    assert "HDFS: 3 DataNode(s) live, a file written and read back" in said
    assert f"second copy of the metadata on {hosts.nodes[1]}" in said
    listed = dfs(hosts, "-ls -d / /tmp /held/big")
    assert re.search(r"drwxr-xr-x\s+- regatta regatta .* /$", listed, re.M)
    assert re.search(r"drwxrwxrwt .* /tmp$", listed, re.M)
    assert re.search(r"-rw-r--r--\s+3 regatta regatta\s+40000000 .* /held/big$", listed, re.M)
    assert intact(hosts, sums)


def test_ports_and_hardening(hosts: LabHandle) -> None:
    one = hosts.nodes[0]
    for port in (8020, 9870, 9864, 9866, 9867):
        lines = hosts.ssh(one, f"ss -H -ltn 'sport = :{port}'").stdout.splitlines()
        assert [line.split()[3] for line in lines] == [f"{hosts.addresses[one]}:{port}"]
    score = hosts.ssh(one, "systemd-analyze security --no-pager regatta-hdfs-namenode | tail -1", check=False).stdout
    assert "UNSAFE" not in score


@pytest.mark.whole  # test_down_status_up stops and starts all services
def test_stopped_and_started(hosts: LabHandle, sums: str) -> None:
    cluster = Cluster(hosts)
    assert "services are down" in cluster.fab("down").stdout
    assert "hdfs-namenode, hdfs-datanode, ray-head inactive" in cluster.fab("status", check=False).stdout
    assert "HDFS is up on 3 node(s)" in cluster.fab("up").stdout
    assert intact(hosts, sums)


def test_namenode_killed(hosts: LabHandle, sums: str) -> None:
    before = systemctl(hosts, 0, "show -p MainPID --value regatta-hdfs-namenode")
    systemctl(hosts, 0, "kill -s KILL regatta-hdfs-namenode")
    wait_for(lambda: live(hosts) == 3, 60)
    assert systemctl(hosts, 0, "show -p MainPID --value regatta-hdfs-namenode") != before
    assert intact(hosts, sums)


def test_hosts_boot_again(hosts: LabHandle, sums: str) -> None:
    hosts.off(*hosts.nodes)
    hosts.on(*hosts.nodes)
    wait_for(lambda: live(hosts) == 3, 120)
    assert intact(hosts, sums)


@pytest.mark.provisioning
@pytest.mark.whole
def test_metadata_lost_and_restored(hosts: LabHandle, sums: str) -> None:
    assert "--yes" in play(hosts, "hdfs-restore-metadata", good=False)
    refused = play(hosts, "hdfs-restore-metadata", "--yes", good=False)
    assert "has metadata" in refused
    wait_for_checkpoint(hosts)
    systemctl(hosts, 0, "stop regatta-hdfs-namenode")
    hosts.ssh(hosts.nodes[0], f"sudo rm -r {DATA}/name")
    said = " ".join(play(hosts, "provision", good=False).split())
    assert "formatting would lose what is there" in said
    assert f"{hosts.nodes[2]}: " in said and "block(s) of BP-" in said
    assert "regatta hdfs-restore-metadata --inventory " in said
    play(hosts, "hdfs-restore-metadata", "--yes")
    assert intact(hosts, sums)
    provision_again(hosts)


def wait_for_checkpoint(hosts: LabHandle) -> None:
    """Until a copy that began after now is there."""
    newest = f"sudo sh -c 'ls -t {DATA}/checkpoint/current/fsimage_* | head -1'"
    before = hosts.ssh(hosts.nodes[1], newest, check=False).stdout
    wait_for(lambda: hosts.ssh(hosts.nodes[1], newest, check=False).stdout not in ("", before), 60)
    time.sleep(1)


@pytest.mark.whole
@pytest.mark.last
def test_data_are_read_after_a_teardown_and_another_provision(hosts: LabHandle, sums: str) -> None:
    before = hosts.ssh(hosts.nodes[2], "id -u hdfs").stdout.strip()
    teardown(hosts)
    hosts.ssh(hosts.nodes[2], f"sudo useradd --system --uid {before} squatter")
    provision(hosts)
    assert intact(hosts, sums)


@pytest.mark.first
@pytest.mark.last
@pytest.mark.provisioning
def test_teardown_keeps_data_unless_told(hosts: LabHandle, sums: str) -> None:
    refused = play(hosts, "teardown", "--data", "destroy", "--yes", good=False)
    assert f"say --confirm {hosts.inventory.name}" in refused
    teardown(hosts)
    assert left(hosts) == {}
    teardown(hosts)
    assert set(changed(hosts).values()) == {0}
    for node in hosts.nodes:
        blocks = hosts.ssh(node, f"sudo find {DATA}/data/current -name 'blk_*' -size +1000k").stdout
        assert blocks, "every host has a copy of the big file"
        assert hosts.ssh(node, f"sudo find {DATA} ! -uid 0 -o ! -gid 0").stdout == ""


@pytest.mark.whole
def test_a_node_leaves_and_comes_back(hosts: LabHandle, sums: str) -> None:
    three, inventory = hosts.nodes[2], hosts.inventory / "hosts.yml"
    whole = inventory.read_text()
    systemctl(hosts, 2, "stop regatta-hdfs-datanode")
    wait_for(lambda: live(hosts) == 2, 60)
    refused = " ".join(play(hosts, "remove-node", "--node", three, good=False).split())
    assert f"the DataNode of {three} is not live" in refused and "block(s) of BP-" in refused
    systemctl(hosts, 2, "start regatta-hdfs-datanode")
    wait_for(lambda: live(hosts) == 3, 60)
    deep = "/deep" + "/d" * 900
    dfs(hosts, f"-mkdir -p {deep}")
    dfs(hosts, f"-touchz {deep}/file")
    said = play(hosts, "remove-node", "--node", three)
    assert f"{three}: no block needs it any more" in said
    assert hosts.ssh(three, "ls -d /opt/regatta /etc/regatta /var/lib/regatta", check=False).stdout == ""
    inventory.write_text(without(whole, three))
    try:
        provision(hosts)
        assert live(hosts) == 2
        assert bean(hosts, "FSNamesystem")["UnderReplicatedBlocks"] == 0
        assert intact(hosts, sums, node=0)
        assert "has no host" in play(hosts, "add-node", "--node", three, good=False)
    finally:
        inventory.write_text(whole)
    play(hosts, "add-node", "--node", three)
    assert live(hosts) == 3
    assert intact(hosts, sums)


def without(inventory: str, node: str) -> str:
    """The text of a lab's inventory without a node."""
    return re.sub(rf"    {node}:\n(?:      \S.*\n)+", "", inventory).replace(f"        {node}:\n", "")
