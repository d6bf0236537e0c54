"""The ports that an outsider can reach: this machine is in the hosts' network and no member of the cluster."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters import Cluster, wait_for
from scans import OURS, all_scanned, answering, listening, scanned
from waiting import Waiting

MOST_EXPOSED = 4.0
MOUNTS = "regatta-shared-folder.service"
"""Mounts for the whole host, so that nothing can hide the host from it."""


@pytest.mark.first
def test_a_stranger_reaches_ssh_alone(cluster: Cluster) -> None:
    for node, address in cluster.lab.addresses.items():
        ports = listening(cluster.lab, node)
        assert ports >= OURS
        assert answering(address, ports) == {22}


@pytest.mark.whole
def test_of_all_ports_ssh_alone_answers_before_during_and_after_a_run_and_a_reboot(
    cluster: Cluster, tmp_path: Path
) -> None:
    lab = cluster.lab
    ssh_alone = {node: {"tcp": {22}, "udp": set()} for node in lab.nodes}

    def all_up() -> bool:
        return all(listening(lab, node) >= OURS for node in lab.nodes)

    assert all_up()
    assert all_scanned(lab) == ssh_alone
    with Waiting(cluster, tmp_path / "project"):
        assert all_scanned(lab) == ssh_alone
    assert all_scanned(lab) == ssh_alone
    lab.off(*lab.nodes)
    lab.on(*lab.nodes)
    assert all_scanned(lab) == ssh_alone  # while the services start
    wait_for(all_up, 180)
    assert all_scanned(lab) == ssh_alone


@pytest.fixture(scope="module")
def running(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The id of a run whose ranks have met and wait."""
    with Waiting(cluster, tmp_path_factory.mktemp("strangers") / "project") as run:
        yield run


def test_of_all_ports_ssh_alone_answers_during_a_run(cluster: Cluster, running: str) -> None:
    assert scanned(cluster.lab.addresses["node2"]) == {"tcp": {22}, "udp": set()}


def test_units_are_confined(cluster: Cluster, running: str) -> None:
    for node in ("node1", "node2"):
        listed = cluster.lab.ssh(node, "systemctl list-units --plain --no-legend 'regatta-*.service'").stdout
        units = [line.split()[0] for line in listed.splitlines()]
        assert f"regatta-run-{running}.service" in units and len(units) >= 4
        said = cluster.lab.ssh(node, f"sudo systemd-analyze security --no-pager {' '.join(units)}").stdout
        found = dict(re.findall(r"^(\S+\.service)\s+([\d.]+)", said, re.M))
        assert set(found) == set(units), said
        exposed = {unit for unit, level in found.items() if float(level) > MOST_EXPOSED}
        assert exposed <= {MOUNTS}, said
        mounting = cluster.lab.ssh(node, "ps -C sshfs -o user=", check=False).stdout.split()
        assert {*mounting} <= {"regatta"}, "what speaks to the head has given root's rights up"


def test_ssh_audit_finds_no_failure(cluster: Cluster) -> None:
    command = ["ssh-audit", "--json", cluster.lab.addresses["node3"]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode in (0, 2), done.stdout  # 2: warnings, 3: failures, 1: no connection
    assert "diffie-hellman-group1-sha1" not in done.stdout and "curve25519-sha256" in done.stdout


def test_members_reach_each_other(cluster: Cluster) -> None:
    head = cluster.lab.addresses["node1"]
    program = f"import socket; socket.create_connection(('{head}', 8020), 5); print('reached')"
    assert cluster.lab.ssh("node2", f'python3 -c "{program}"').stdout == "reached\n"


def test_closed_after_a_reboot_and_beside_rules_of_the_user(cluster: Cluster) -> None:
    lab, address = cluster.lab, cluster.lab.addresses["node3"]
    lab.ssh("node3", "sudo nft add table inet mine")
    try:
        lab.ssh("node3", "sudo systemctl restart regatta-firewall")
        assert "table inet mine" in lab.ssh("node3", "sudo nft list tables").stdout
    finally:
        lab.ssh("node3", "sudo nft delete table inet mine")
    lab.ssh("node3", "sudo systemctl restart nftables")  # which empties all rules
    assert "table inet regatta" in lab.ssh("node3", "sudo nft list tables").stdout
    spoiled = "mv firewall.nft away; systemctl restart regatta-firewall; mv away firewall.nft"
    lab.ssh("node3", f"sudo sh -c 'cd /etc/regatta; {spoiled}'", check=False)
    wait_for(lambda: "table inet regatta" in lab.ssh("node3", "sudo nft list tables").stdout)
    lab.off("node3")
    lab.on("node3")
    wait_for(lambda: listening(cluster.lab, "node3") >= OURS, 120)
    assert answering(address, listening(cluster.lab, "node3")) == {22}


def test_without_its_rules_a_host_serves_nobody(cluster: Cluster) -> None:
    lab = cluster.lab

    def state(unit: str) -> str:
        return lab.ssh("node3", f"systemctl show -P ActiveState {unit}").stdout.strip()

    units = ("regatta-ray-worker.service", "regatta-hdfs-datanode.service")
    lab.ssh("node3", f"sudo systemctl stop {' '.join(units)} regatta-firewall")
    try:
        lab.ssh("node3", f"sudo systemctl start --no-block {' '.join(units)}")
        wait_for(lambda: all("has not loaded its rules" in journal(cluster, unit) for unit in units), 30)
        assert "active" not in map(state, units)
        assert listening(lab, "node3") & (OURS - {22, 9100, 9101}) == set()
    finally:
        lab.ssh("node3", "sudo systemctl start regatta-firewall")
    wait_for(lambda: [state(unit) for unit in units] == ["active", "active"], 120)


def journal(cluster: Cluster, unit: str) -> str:
    return cluster.lab.ssh("node3", f"sudo journalctl --no-pager --since -2min -u {unit}").stdout
