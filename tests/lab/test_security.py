"""What strangers can reach: this machine is in the hosts' network and no member of the cluster."""

import asyncio

from clusters import Cluster, wait_for

PORTS = range(1, 65536)
AT_ONCE = 1000
PATIENCE_SECONDS = 0.5
OURS = (22, 6379, 6380, 6381, 6382, 6383, 6384, 6385, 8020, 8265, 9864, 9866, 9867, 9868, 9870, 10001)


def open_ports(address: str, ports: range | tuple[int, ...]) -> list[int]:
    """TCP ports of a host that accept a connection from here."""

    async def look() -> list[int]:
        gate, found = asyncio.Semaphore(AT_ONCE), []

        async def one(port: int) -> None:
            async with gate:
                try:
                    _, writer = await asyncio.wait_for(asyncio.open_connection(address, port), PATIENCE_SECONDS)
                except (OSError, asyncio.TimeoutError):
                    return
                found.append(port)
                writer.close()

        await asyncio.gather(*(one(port) for port in ports))
        return sorted(found)

    return asyncio.run(look())


def test_a_stranger_reaches_ssh_alone(cluster: Cluster) -> None:
    head, worker = cluster.lab.addresses["node1"], cluster.lab.addresses["node3"]
    listening = cluster.lab.ssh("node1", "ss -H -ltn").stdout
    assert f"{head}:8020" in listening, "HDFS is not there to be reached"
    assert open_ports(head, PORTS) == [22]
    assert open_ports(worker, OURS) == [22]


def test_members_reach_each_other(cluster: Cluster) -> None:
    head = cluster.lab.addresses["node1"]
    program = f"import socket; socket.create_connection(('{head}', 8020), 5); print('reached')"
    assert cluster.lab.ssh("node2", f'python3 -c "{program}"').stdout == "reached\n"


def test_closed_again_after_a_reboot_and_beside_rules_of_the_user(cluster: Cluster) -> None:
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
    assert open_ports(address, OURS) == [22]
    wait_for(lambda: cluster.fab("status", check=False).returncode == 0, 90)
