"""What strangers can reach: this machine is in the hosts' network and no member of the cluster."""

import os
import re
import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from xml.etree import ElementTree

import pytest
from clusters import Cluster, wait_for
from waiting import Waiting

PATIENCE_SECONDS = 3.0
OURS = {22, 6380, 9100, 9101, 9864, 9866, 9867}
"""Ports of every member's SSH, Ray, metrics and HDFS."""
USUAL_UDP = (
    "53,67-69,111,123,137-138,161-162,443,500,514,520,631,1194,1434,1645,1701,1812,1900,2049,4500,5353,5355,51820"
)
MOST_EXPOSED = 4.0


def listening(cluster: Cluster, node: str) -> set[int]:
    """TCP ports of a node that something listens on at an address which others could reach."""
    found = (line.split()[3].rpartition(":") for line in cluster.lab.ssh(node, "ss -H -ltn").stdout.splitlines())
    return {int(port) for address, _, port in found if not address.startswith(("127.", "[::1]"))}


def answering(address: str, ports: set[int]) -> set[int]:
    """Those of a host's TCP ports that accept a connection from here."""

    def one(port: int) -> bool:
        try:
            socket.create_connection((address, port), PATIENCE_SECONDS).close()
        except OSError:
            return False
        return True

    with ThreadPoolExecutor(len(ports)) as pool:
        return {port for port, answers in zip(ports, pool.map(one, ports), strict=True) if answers}


def test_a_stranger_reaches_ssh_alone(cluster: Cluster) -> None:
    for node, address in cluster.lab.addresses.items():
        ports = listening(cluster, node)
        assert ports >= OURS
        assert answering(address, ports) == {22}


def scanned(address: str) -> dict[str, set[int]]:
    """Ports of a host by protocol that nmap finds open: all of TCP, the usual ones of UDP."""
    ports = ["-sS", "-sU", "-p", f"T:1-65535,U:{USUAL_UDP}"]
    haste = ["-T5", "--min-rate", "10000", "--max-retries", "1", "--host-timeout", "120s"]
    root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    command = [*root, "nmap", "-n", "-Pn", *ports, *haste, "-oX", "-", address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=True)
    found: dict[str, set[int]] = {"tcp": set(), "udp": set()}
    host = ElementTree.fromstring(done.stdout).find("host")
    assert host is not None and host.get("timedout") != "true", done.stdout[-2000:]
    for port in host.iter("port"):
        state = port.find("state")
        if state is not None and state.get("state") == "open":
            found[str(port.get("protocol"))].add(int(str(port.get("portid"))))
    return found


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
        assert {unit: level for unit, level in found.items() if float(level) > MOST_EXPOSED} == {}


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
    lab.off("node3")
    lab.on("node3")
    wait_for(lambda: listening(cluster, "node3") >= OURS, 120)
    assert answering(address, listening(cluster, "node3")) == {22}
