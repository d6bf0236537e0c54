"""What strangers can reach: this machine is in the hosts' network and no member of the cluster."""

import socket
from concurrent.futures import ThreadPoolExecutor

from clusters import Cluster, wait_for

PATIENCE_SECONDS = 3.0
OURS = {22, 6380, 9100, 9101, 9864, 9866, 9867}
"""Ports of every member's SSH, Ray, metrics and HDFS."""


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
