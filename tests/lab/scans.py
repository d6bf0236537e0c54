"""The findings of an outsider: this machine is in the hosts' network and no member of the cluster."""

import os
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from xml.etree import ElementTree

from lab.handle import LabHandle

PATIENCE_SECONDS = 3.0
OURS = {22, 6380, 9100, 9101, 9864, 9866, 9867}
"""Ports of every member's SSH, Ray, metrics and HDFS."""
USUAL_UDP = (
    "53,67-69,111,123,137-138,161-162,443,500,514,520,631,1194,1434,1645,1701,1812,1900,2049,4500,5353,5355,51820"
)


def listening(lab: LabHandle, node: str) -> set[int]:
    """TCP ports of a node that something listens on at an address which others could reach."""
    found = (line.split()[3].rpartition(":") for line in lab.ssh(node, "ss -H -ltn").stdout.splitlines())
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


def all_scanned(lab: LabHandle) -> dict[str, dict[str, set[int]]]:
    """`scanned` of every host, all at once, by its name."""
    with ThreadPoolExecutor(len(lab.nodes)) as pool:
        return dict(zip(lab.nodes, pool.map(scanned, (lab.addresses[node] for node in lab.nodes)), strict=True))
