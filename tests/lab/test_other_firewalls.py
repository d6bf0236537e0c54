"""Firewalls of the user's own: reported with what to do before anything is changed, and left as they are."""

from collections.abc import Callable

import pytest
from clusters import wait_for
from provisioning import play, teardown, verify
from scans import OURS, all_scanned, listening

from lab.handle import LabHandle

OPENS = {
    "ufw": "sudo ufw allow from {}",
    "firewalld": "sudo firewall-cmd --permanent --zone=trusted --add-source={}",
}


def install(lab: LabHandle, node: str, packages: str) -> None:
    """Debian packages, from the repositories."""
    command = f"DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends {packages}"
    lab.ssh(node, f"sudo apt-get update -qq && sudo {command}", timeout=600)


def others_rules(lab: LabHandle, node: str) -> list[str]:
    """All rules of a host but those of Regatta's table, without what they counted, sorted."""
    tables = f"\n{lab.ssh(node, 'sudo nft -s list ruleset').stdout}".split("\ntable ")
    kept = [table for table in tables if not table.startswith("inet regatta ")]
    return sorted(line.strip() for table in kept for line in table.splitlines() if line.strip() not in ("", "}"))


@pytest.mark.whole
@pytest.mark.timeout(1800)
def test_docker_ufw_and_firewalld(make_lab: Callable[..., LabHandle]) -> None:
    lab = make_lab(nodes=3)
    docker, ufw, firewalld = lab.nodes[:3]
    for node, packages in ((docker, "docker.io iptables"), (ufw, "ufw"), (firewalld, "netbase firewalld")):
        install(lab, node, f"nftables {packages}")
    lab.ssh(ufw, "sudo ufw allow 22 && sudo ufw --force enable")
    lab.ssh(firewalld, "sudo systemctl restart firewalld")
    wait_for(lambda: lab.ssh(firewalld, "sudo firewall-cmd --state", check=False).returncode == 0)
    assert "DOCKER" in "".join(others_rules(lab, docker))

    refused = play(lab, "check", good=False)
    for node, name in ((ufw, "ufw"), (firewalld, "firewalld")):
        others = sorted(lab.addresses[other] for other in lab.nodes if other != node)
        assert f"{node}: {name} is active there and drops what {', '.join(others)} send(s)" in refused
        for address in others:
            command = OPENS[name].format(address)
            assert command in refused
            lab.ssh(node, command)
    lab.ssh(firewalld, "sudo firewall-cmd --reload")
    assert f"{docker}: " not in refused

    before = {node: others_rules(lab, node) for node in lab.nodes}
    ssh_alone = {node: {"tcp": {22}, "udp": set()} for node in lab.nodes}
    play(lab, "provision")
    assert {node: others_rules(lab, node) for node in lab.nodes} == before
    verify(lab)
    assert all_scanned(lab) == ssh_alone

    lab.ssh(docker, "sudo systemctl restart docker")
    lab.ssh(ufw, "sudo ufw reload")
    lab.ssh(firewalld, "sudo firewall-cmd --reload")
    assert all_scanned(lab) == ssh_alone
    lab.off(*lab.nodes)
    lab.on(*lab.nodes)
    wait_for(lambda: all(listening(lab, node) >= OURS for node in lab.nodes), 180)
    verify(lab)
    assert all_scanned(lab) == ssh_alone
    teardown(lab)
    assert {node: others_rules(lab, node) for node in lab.nodes} == before
