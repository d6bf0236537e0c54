"""Two people with one cluster: a second one joins, both provision, and neither harms the other."""

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from clusters import Cluster, latest, read_until
from people import REGATTA, Person, account, fingerprint
from provisioning import play, said

from lab.handle import LabHandle
from regatta.hosts import hostkeys
from regatta.provisioning import secrets


@pytest.fixture
def people(cluster: Cluster, tmp_path: Path) -> "tuple[LabHandle, Callable[..., Person]]":
    play(cluster.lab, "provision")
    return cluster.lab, lambda name, **how: account(cluster.lab, name, tmp_path / name, **how)


@pytest.mark.whole
def test_a_second_person_joins_and_both_provision(people: "tuple[LabHandle, Callable[..., Person]]") -> None:
    lab, person = people
    head, other = lab.nodes[0], lab.nodes[-1]
    ann = person("ann")
    first = secrets.held(lab.inventory)
    shown = ("--fingerprint", fingerprint(lab, head))

    assert "no terminal to ask on" in ann.joins(head, good=False)
    assert "another host may answer" in ann.joins(head, "--fingerprint", "SHA256:nope", good=False)
    wrong = ann.joins(other, "--fingerprint", fingerprint(lab, other), good=False)
    assert f"not its head, which is {lab.addresses[head]}" in wrong
    address, own = lab.addresses[head], ann.home / "known_hosts"
    (ann.home / "ssh_config").write_text(f"Host *\n    UserKnownHostsFile {own}\n")
    (strange,) = hostkeys.find(lab.inventory / "known_hosts", (lab.addresses[other],))[:1]
    own.write_text(f"{address} {strange.kind} {strange.key}\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGATTA_SSH_CONFIG", str(ann.home / "ssh_config"))
        changed = ann.joins(head, *shown, good=False)
    assert "your ssh knows ED25519" in changed and f"ssh-keygen -R '{address}'" in changed
    assert "may not use sudo" in person("guest", sudo=False).joins(head, *shown, good=False)
    assert not [*(ann.home / "inventory").iterdir()]

    assert f"{len(lab.nodes)} host(s), head {head}" in ann.joins(head, *shown)
    assert secrets.held(ann.copy) == first and (ann.copy / "secrets/mesh_key").stat().st_mode & 0o77 == 0
    assert "is there already" in ann.joins(head, *shown, good=False)
    ann.types("provision", "--inventory", lab.name)
    play(lab, "provision")
    assert "0 changed, 0 failed" in ann.types("provision", "--inventory", lab.name)

    # The first person changes a variable: the second one's copy is older, and changes nothing.
    variables = lab.inventory / "group_vars/all.yml"
    before = variables.read_text()
    try:
        variables.write_text(f"{before}\nfirewall_open_ports: [8999]\n")
        play(lab, "provision")
        for command in ("check", "provision"):
            refused = ann.types(command, "--inventory", lab.name, good=False)
            assert "+firewall_open_ports: [8999]" in refused and "regatta pull" in refused
        assert "add --yes" in ann.types("pull", "--inventory", lab.name, good=False)
        assert "brought up to date" in ann.types("pull", "--inventory", lab.name, "--yes")
        assert (ann.copy / "group_vars/all.yml~").read_text() == before
        assert "is up to date" in ann.types("pull", "--inventory", lab.name)
        assert "0 changed, 0 failed" in ann.types("provision", "--inventory", lab.name)
    finally:
        variables.write_text(before)
    play(lab, "provision")
    assert re.search(
        r'"replaced": \[.*firewall_open_ports', ann.types("pull", "--inventory", lab.name, "--yes", "--json")
    )

    # The second person rotates: the first one's checkout has old secrets, and does not bring them back.
    ann.types("rotate-secrets", "--inventory", lab.name)
    new = secrets.held(ann.copy)
    assert new["ray_token"] != first["ray_token"]
    assert "regatta pull" in " ".join(play(lab, "provision", good=False).split())
    assert lab.ssh(head, "sudo cat /etc/regatta/ray_token").stdout == new["ray_token"]
    said([REGATTA, "pull", "--inventory", str(lab.inventory), "--yes"], ann.home, dict(os.environ))
    assert secrets.held(lab.inventory) == new
    play(lab, "provision")


@pytest.mark.whole
def test_a_checkout_with_other_secrets_replaces_none(
    people: "tuple[LabHandle, Callable[..., Person]]", tmp_path: Path
) -> None:
    """It has the inventory, and secrets of its own, and has never met the hosts: it has pinned no key."""
    lab, _ = people
    head = lab.nodes[0]
    lab.ssh(head, "sudo rm /etc/regatta/cluster.json")  # as after a teardown
    play(lab, "provision")
    assert lab.ssh(head, "sudo stat -c '%a %U' /etc/regatta/cluster.json").stdout == "600 root\n"
    second = tmp_path / lab.inventory.name
    shutil.copytree(lab.inventory, second, ignore=shutil.ignore_patterns(*secrets.names(), "known_hosts", ".cluster*"))
    secrets.ensure(second)
    own = secrets.held(second)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        flat = " ".join(said([REGATTA, "provision", "-i", str(second)], tmp_path, dict(os.environ), good=False).split())
    assert "than this checkout, which would bring the old one back" in flat
    assert secrets.held(second) == own
    assert lab.ssh(head, "sudo cat /etc/regatta/ray_token").stdout == secrets.held(lab.inventory)["ray_token"]


@pytest.mark.whole
def test_hosts_of_another_cluster_and_another_key(people: "tuple[LabHandle, Callable[..., Person]]") -> None:
    lab, person = people
    head, other = lab.nodes[0], lab.nodes[-1]
    bob = person("bob")
    bob.joins(head, "--fingerprint", fingerprint(lab, head))
    known = bob.copy / "known_hosts"
    kept = known.read_text()
    (wrong,) = hostkeys.find(known, (lab.addresses[other],))
    known.write_text(f"{lab.addresses[head]} {wrong.kind} {wrong.key}\n")
    assert "is not the pinned one" in bob.types("pull", "--inventory", lab.name, "--yes", good=False)
    known.write_text(kept)

    mine = bob.home / "inventory/fleet"
    mine.mkdir()
    shutil.copy(bob.copy / "known_hosts", mine)
    login = f"ansible_user: bob, ansible_ssh_private_key_file: {bob.home / 'key'}"
    (mine / "hosts.yml").write_text(
        f"all: {{hosts: {{{other}: {{ansible_host: {lab.addresses[other]}, cluster_address: {lab.addresses[other]}, "
        f"{login}}}}}, children: {{head: {{hosts: {{{other}: }}}}, workers: {{hosts: {{{other}: }}}}}}}}\n"
    )
    refused = bob.types("provision", "--inventory", "fleet", good=False)
    assert f"{other} of {lab.name} (head {lab.addresses[head]})" in refused and "regatta join USER@" in refused
    assert secrets.held(mine) == {}


@pytest.mark.whole
def test_a_run_of_another_person_ends_only_when_asked(
    people: "tuple[LabHandle, Callable[..., Person]]", cluster: Cluster, tmp_path: Path
) -> None:
    lab, person = people
    eve, run = person("eve"), f"mine-{os.getpid()}"
    eve.joins(lab.nodes[0], "--fingerprint", fingerprint(lab, lab.nodes[0]))
    project = tmp_path / "project"
    project.mkdir()
    (project / "wait.py").write_text("import time\nprint('begun', flush=True)\ntime.sleep(600)\n")
    process = cluster.background(project, "torchrun", "--workers", "1", "--name", run, "wait.py")
    try:
        read_until(process, "begun")
        one = latest(cluster, project)
        account, _, key = one["owner"].partition(" ")
        shown = subprocess.run(
            ["ssh-keygen", "-lf", str(lab.inventory / "secrets/lab_key.pub")],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        assert account == "ubuntu" and key == shown.split()[1]
        refused = eve.types("cancel", run, "--inventory", lab.name, good=False)
        assert f"end {run}, which ubuntu ({key.removeprefix('SHA256:')[:8]}) has started: add --yes" in refused
        assert process.poll() is None
        assert "cancelled on" in eve.types("cancel", run, "--inventory", lab.name, "--yes")
        process.wait(30)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
            process.wait(30)
    assert cluster.nothing_runs(run)
    assert json.loads((tmp_path / f"results/{run}.json").read_text())["identity"]["owner"] == one["owner"]
