"""From bare hosts to a cluster, proven, and back; and everything that may be wrong with the hosts."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from clusters import Cluster
from provisioning import (
    PROJECT,
    changed,
    check,
    command,
    left,
    play,
    provision,
    provision_again,
    state,
    teardown,
    verify,
)

from lab.handle import LabHandle
from regatta.hosts import inventories
from regatta.hosts.lease import Lease
from regatta.hosts.remote import Remote
from regatta.provisioning import secrets

HDFS_DATA = "/var/lib/regatta-hdfs"
SHARED_DATA = "/var/lib/regatta-shared"
FAKE_PYTHON = "/usr/lib/python3/dist-packages/fake.pth"
pytestmark = pytest.mark.timeout(2400)


@pytest.fixture(scope="module")
def hosts(make_lab: Callable[..., LabHandle]) -> Iterator[LabHandle]:
    """Three bare hosts without a way to the internet, which stay bare."""
    made = make_lab(nodes=3, egress=False)
    yield made
    made.down()


@pytest.fixture(scope="module")
def single(make_lab: Callable[..., LabHandle]) -> Iterator[LabHandle]:
    """One bare host without a way to the internet; HDFS and monitoring are not its matter."""
    made = make_lab(nodes=1, egress=False)
    (made.inventory / "group_vars").mkdir()
    (made.inventory / "group_vars/all.yml").write_text("hdfs_enabled: false\nmonitoring_enabled: false\n")
    yield made
    made.down()


@pytest.mark.provisioning
def test_all_problems_of_all_hosts_in_one_report(hosts: LabHandle) -> None:
    one, two, three = hosts.nodes
    fake = 'import platform; platform.python_version = lambda: "3.12.1"'
    hosts.ssh(two, f"echo '{fake}' | sudo tee {FAKE_PYTHON}")
    hosts.ssh(one, "sudo systemd-run --unit squatter python3 -m http.server 6379")
    hosts.off(three)
    try:
        said = play(hosts, "provision", "-e", "python_env_room_mb=99000000", good=False)
    finally:
        hosts.on(three)
        hosts.ssh(two, f"sudo rm {FAKE_PYTHON}")
        hosts.ssh(one, "sudo systemctl stop squatter")
    flat = " ".join(said.split())
    assert "Nothing was changed" in flat
    assert f"{three}: ubuntu@{hosts.addresses[three]} does not answer" in flat
    assert f"{one} has 3.11" in flat or f"{two} has 3.12" in flat
    assert "needs 99001000: free some there, or lower preflight_min_root_mb" in flat
    assert "port 6379" in flat and "squatter.service" in flat
    assert left(hosts) == {}


@pytest.mark.provisioning
def test_a_changed_host_key_is_refused(hosts: LabHandle) -> None:
    hosts.rebuild(hosts.nodes[2], keep_known_hosts=True)
    flat = " ".join(play(hosts, "provision", good=False).split())
    assert f"{hosts.nodes[2]}: the host key of" in flat
    assert "is not the pinned one" in flat
    said = play(hosts, "forget", "--node", hosts.nodes[2], "--yes")
    assert said.count("SHA256:") == 2 and "its new key is pinned" in said


@pytest.mark.provisioning
def test_no_sudo_and_a_refused_key(hosts: LabHandle) -> None:
    for node in hosts.nodes:
        hosts.ssh(node, "sudo useradd -m guest && sudo cp -r ~ubuntu/.ssh ~guest/ && sudo chown -R guest: ~guest/.ssh")
    inventory = hosts.inventory / "hosts.yml"
    whole = inventory.read_text()
    try:
        inventory.write_text(whole.replace("ansible_user: ubuntu", "ansible_user: guest"))
        flat = " ".join(play(hosts, "provision", good=False).split())
        assert f"{', '.join(hosts.nodes)}: user guest may not use sudo" in flat
        inventory.write_text(whole.replace("ansible_user: ubuntu", "ansible_user: games"))
        assert "refuses our key" in " ".join(play(hosts, "provision", good=False).split())
    finally:
        inventory.write_text(whole)
    assert left(hosts) == {}


@pytest.mark.provisioning
def test_check_changes_nothing_on_bare_hosts(hosts: LabHandle) -> None:
    said = json.loads(play(hosts, "check", "--json"))
    changed = {host for one in said["changes"] for host in one["hosts"]}
    assert said["works"] and changed == {*hosts.nodes} and (said["ends"], said["problems"]) == ([], [])
    assert left(hosts) == {}


@pytest.mark.first
@pytest.mark.provisioning
def test_life_of_a_cluster(cluster: Cluster, tmp_path: Path) -> None:
    """Bare hosts were provisioned when the lab was kept, and have booted since. A second checkout, which has the
    inventory without its secrets, takes them from the hosts, and waits while another one works on the cluster.
    """
    lab = cluster.lab
    second = replace(lab, inventory=tmp_path / lab.inventory.name)
    shutil.copytree(lab.inventory, second.inventory, ignore=shutil.ignore_patterns(*secrets.names(), "*.pub"))
    with Lease(Remote(inventories.load(str(lab.inventory))), "fab bench long"):
        said = play(second, "provision", good=False)
        assert "is in use: fab bench long" in said and secrets.held(second.inventory) == {}
    provision_again(second)
    assert secrets.held(second.inventory) == secrets.held(lab.inventory)
    check(lab)
    assert set(changed(lab).values()) == {0}
    verify(lab)


@pytest.mark.first
def test_what_is_open_to_whom(cluster: Cluster) -> None:
    hosts = cluster.lab
    one, two, _ = hosts.nodes
    program = f"import urllib.request as u; print(u.urlopen('http://{hosts.addresses[one]}:8265', timeout=2).status)"
    refused = hosts.ssh(two, f'python3 -c "{program}"', check=False)
    assert refused.returncode != 0, "the dashboard answers outside of the head"
    for folder in ("/var/lib/regatta", "/etc/regatta/mesh"):
        keys = hosts.ssh(one, f"sudo cat {folder}/.ssh/authorized_keys").stdout
        there = {name for name, address in hosts.addresses.items() if address in keys}
        assert keys.startswith('from="') and ',restrict,command="' in keys and there == set(hosts.nodes) - {one}
    paths = "/etc/regatta/ray_token /var/lib/regatta /var/lib/regatta/.ssh/id_ed25519 /etc/regatta/mesh/id_ed25519"
    owned = hosts.ssh(two, f"sudo stat -c '%a %U %G' {paths}").stdout
    assert owned.splitlines() == ["640 root regatta", "750 root regatta", "640 root regatta", "600 root root"]


@pytest.mark.whole
def test_a_host_rebuilt_comes_back(cluster: Cluster) -> None:
    hosts = cluster.lab
    three = hosts.nodes[2]
    hosts.rebuild(three, keep_known_hosts=True)
    play(hosts, "rebuild", "--node", three, "--yes")
    verify(hosts)


@pytest.mark.whole
def test_a_damaged_environment_is_put_right(cluster: Cluster) -> None:
    hosts = cluster.lab
    two = hosts.nodes[1]
    before = state(hosts, two)
    hosts.ssh(
        two, "sudo rm /opt/regatta/env/regatta-env.json /etc/regatta/node.json && sudo rm -r /var/lib/regatta/.ssh"
    )
    provision(hosts)
    assert state(hosts, two) == before


@pytest.mark.first
@pytest.mark.last
@pytest.mark.provisioning
def test_teardown_destroys_data_when_told(cluster: Cluster) -> None:
    hosts = cluster.lab
    play(hosts, "teardown", "--data", "destroy", "--confirm", hosts.inventory.name)
    assert left(hosts) == {}
    assert not (hosts.inventory / "secrets/ray_token").exists()
    for node in hosts.nodes:
        assert hosts.ssh(node, f"ls -d {HDFS_DATA} {SHARED_DATA}", check=False).stdout == ""


@pytest.mark.provisioning
def test_teardown_of_a_bare_host(single: LabHandle) -> None:
    teardown(single)
    assert set(changed(single).values()) == {0}


@pytest.mark.provisioning
def test_a_disk_that_fills_leaves_nothing(single: LabHandle) -> None:
    (node,) = single.nodes
    single.ssh(node, "sudo mkdir /opt/regatta && sudo mount -t tmpfs -o size=700m none /opt/regatta")
    said = play(single, "provision", "-e", "preflight_min_root_mb=1", good=False)
    assert "no space left" in said
    listed = single.ssh(node, "sudo ls -A /opt/regatta").stdout.split()
    single.ssh(node, "sudo umount /opt/regatta && sudo rmdir /opt/regatta")
    assert listed == ["releases"]


def interrupted(lab: LabHandle) -> None:
    """A provision that gets Ctrl-C while a node unpacks, which continues there; another may not run at the same time.

    Ansible names a task when its first result is there, so the line is waited for that comes before the unpacking.
    """
    process = subprocess.Popen(
        command(lab, "provision", "--verbose"),
        cwd=PROJECT,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if "Copy the packed environment" in line:
            break
    time.sleep(1)
    assert "is in use" in play(lab, "provision", good=False)
    os.kill(process.pid, signal.SIGINT)
    process.stdout.read()
    assert process.wait(30) == 130


@pytest.mark.whole
def test_killed_half_way_and_started_again(single: LabHandle) -> None:
    (node,) = single.nodes
    interrupted(single)
    provision(single)
    first = state(single, node)
    single.ssh(node, "sudo rm /opt/regatta/env/regatta-env.json")
    interrupted(single)
    teardown(single)
    assert left(single) == {}
    provision(single)
    assert state(single, node) == first
