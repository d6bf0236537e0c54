"""Hosts as a person reaches them: aliases behind a jump host, an agent, IPv6, and sudo that asks for a password."""

import contextlib
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from clusters import Cluster, read_until, wait_for

from regatta.provisioning import access

WORD = "plum7-of-sudo"
KEPT = "/root/sudoers.before"
PREFIX = "fd98:79::"
RULES = "for rules in $(grep -rl ubuntu /etc/sudoers.d); do sed -i 's/NOPASSWD: *//' $rules; done"
RAY = "import ray\nray.init()\nprint('sum', sum(ray.get([ray.remote(lambda: 3).remote() for _ in range(2)])))\n"


@dataclass(frozen=True)
class Person:
    """A person's own way to the hosts: an inventory of aliases, and the environment of a shell."""

    cluster: Cluster
    inventory: Path
    key: Path
    shell: dict[str, str]

    def regatta(self, folder: Path, *words: str, **changes: str) -> "subprocess.CompletedProcess[str]":
        """`regatta WORDS`; all output in one text."""
        return subprocess.run(
            ["regatta", *words],
            cwd=folder,
            env=self.shell | {"REGATTA_RESULTS": str(folder.parent / "results")} | changes,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )

    def leave(self) -> None:
        """End the connections that are kept."""
        for host in ("gpu1", "gpu2", f"{PREFIX}3"):
            subprocess.run(["ssh", "-F", self.inventory / "ssh_config", "-O", "exit", host], check=False)


@contextlib.contextmanager
def agent_with(key: Path, place: Path) -> "Iterator[subprocess.Popen[bytes]]":
    """An ssh-agent with a key whose passphrase is "a phrase"."""
    phrase = place.with_name("phrase")
    phrase.write_text("#!/bin/sh\necho a phrase\n")
    phrase.chmod(0o700)
    with subprocess.Popen(["ssh-agent", "-D", "-a", str(place)], stdout=subprocess.DEVNULL) as running:
        try:
            wait_for(place.exists)
            asking = {"SSH_ASKPASS": str(phrase), "SSH_ASKPASS_REQUIRE": "force", "SSH_AUTH_SOCK": str(place)}
            subprocess.run(["ssh-add", "-q", str(key)], env=os.environ | asking, check=True)
            yield running
        finally:
            running.terminate()


def as_root(cluster: Cluster, node: str, command: str) -> None:
    cluster.lab.ssh(node, f"echo {WORD} | sudo -S -p '' sh -c {shlex.quote(command)}")


@pytest.fixture(scope="module")
def person(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    """node1 and node3 are behind node2, node3 by IPv6; the key has a passphrase; node2 and node3 ask for a password."""
    folder = tmp_path_factory.mktemp("person")
    key, agent = folder / "key", folder / "agent"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "a phrase", "-C", "person", "-f", key], check=True)
    public = key.with_suffix(".pub").read_text().strip()
    lab = cluster.lab
    with agent_with(key, agent):
        try:
            for number, node in enumerate(lab.nodes, 1):
                lab.ssh(node, f"echo '{public}' >> ~/.ssh/authorized_keys")
                as_root(cluster, node, f"ip -6 addr add {PREFIX}{number}/64 dev host0 nodad")
            for node in lab.nodes[1:]:
                as_root(cluster, node, f"cp -a /etc/sudoers.d {KEPT}; echo ubuntu:{WORD} | chpasswd; {RULES}")
            yield Person(cluster, _inventory(cluster, folder, key), key, _shell(cluster, folder, agent))
        finally:
            for number, node in enumerate(lab.nodes, 1):
                lab.ssh(node, "sed -i '/ person$/d' ~/.ssh/authorized_keys")
                as_root(cluster, node, f"ip -6 addr del {PREFIX}{number}/64 dev host0")
            for node in lab.nodes[1:]:
                as_root(cluster, node, f"cp -a {KEPT}/. /etc/sudoers.d/; rm -r {KEPT}; usermod -p '*' ubuntu")


def _inventory(cluster: Cluster, folder: Path, key: Path) -> Path:
    lab, place = cluster.lab, folder / "inventory"
    shutil.copytree(lab.inventory / "secrets", place / "secrets")
    known = (lab.inventory / "known_hosts").read_text()
    for number, node in enumerate(lab.nodes, 1):
        known = known.replace(f"{lab.addresses[node]},", f"{PREFIX}{number},{lab.addresses[node]},")
    (place / "known_hosts").write_text(known)
    shutil.copytree(lab.inventory / "group_vars", place / "group_vars")
    downloads = [line for line in (lab.inventory / "hosts.yml").read_text().splitlines() if "hdfs_tarball" in line]
    hosts = zip(lab.nodes, ("gpu1", "gpu2", f"{PREFIX}3"), strict=True)
    lines = [f"    {node}: {{cluster_address: {lab.addresses[node]}, ansible_host: '{name}'}}" for node, name in hosts]
    members = "{node1: , node2: , node3: }"
    groups = f"  children:\n    head: {{hosts: {{node1: }}}}\n    workers: {{hosts: {members}}}\n"
    text = "\n".join(["all:", "  vars:", *downloads, "  hosts:", *lines, groups])
    (place / "hosts.yml").write_text(text)
    own = f"Host gpu1 {PREFIX}*\n  ProxyJump gpu2\nHost gpu1\n  HostName {lab.addresses['node1']}\n"
    own += f"Host gpu2\n  HostName {lab.addresses['node2']}\n  LocalForward 9 127.0.0.1:9\nHost gpu* {PREFIX}*\n"
    own += f"  User ubuntu\n  IdentityFile {key}\n  IdentitiesOnly yes\n  RequestTTY force\n"
    (folder / "ssh_config").write_text(own)
    return place


def _shell(cluster: Cluster, folder: Path, agent: Path) -> dict[str, str]:
    own = {"REGATTA_INVENTORY": str(folder / "inventory"), "REGATTA_SSH_CONFIG": str(folder / "ssh_config")}
    return cluster.environment() | own | {"SSH_AUTH_SOCK": str(agent), "ANSIBLE_BECOME_PASS": WORD}


def test_programs_run_as_on_other_hosts(person: Person, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "one.py").write_text("import os\nprint('rank', os.environ['RANK'])\n")
    (folder / "two.py").write_text(RAY)
    ran = person.regatta(folder, "torchrun", "--workers", "3", "one.py")
    assert ran.returncode == 0 and all(f"rank {rank}" in ran.stdout for rank in range(3)), ran.stdout
    ran = person.regatta(folder, "rayrun", "--workers", "2", "two.py")
    assert ran.returncode == 0 and "sum 6" in ran.stdout, ran.stdout
    kept = "".join(path.read_text() for path in (tmp_path / "results").rglob("*.json"))
    assert kept and WORD not in kept + ran.stdout
    assert person.regatta(folder, "exec", "cat").returncode == 0


def test_every_way_is_tried_and_the_password_is_asked_for(
    person: Person, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in person.shell.items():
        monkeypatch.setenv(name, value)
    ports = dict.fromkeys(person.cluster.lab.nodes, 22)
    assert access.problems(str(person.inventory), ports) == []
    monkeypatch.setenv("ANSIBLE_BECOME_PASS", "pear")
    wrong = access.problems(str(person.inventory), ports)
    assert len(wrong) == 2 and all("the password for sudo" in line and "is wrong" in line for line in wrong)
    monkeypatch.delenv("ANSIBLE_BECOME_PASS")
    assert all("may not use sudo without a password" in line for line in access.problems(str(person.inventory), ports))
    status = person.regatta(tmp_path, "status", SSH_AUTH_SOCK=str(tmp_path / "gone"))
    assert status.returncode == 1 and "LOGIN REFUSED" in status.stdout, status.stdout


@pytest.mark.whole
def test_an_agent_that_is_gone_in_mid_run(person: Person, tmp_path: Path) -> None:
    folder, place = tmp_path / "project", tmp_path / "agent"
    folder.mkdir()
    (folder / "slow.py").write_text("import time\nprint('begun', flush=True)\ntime.sleep(8)\nprint('after')\n")
    shell = person.shell | {"SSH_AUTH_SOCK": str(place), "REGATTA_RESULTS": str(tmp_path / "results")}
    person.leave()
    with agent_with(person.key, place) as agent:
        words = ["regatta", "torchrun", "--workers", "3", "slow.py"]
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        run = subprocess.Popen(words, cwd=folder, env=shell, text=True, **pipes)  # type: ignore[call-overload]
        said = read_until(run, "begun")
        agent.kill()
        said += run.communicate()[0]
    assert run.returncode == 0 and said.count("after") == 3, said
    person.leave()
    status = person.regatta(tmp_path, "status", SSH_AUTH_SOCK=str(place))
    assert status.returncode == 1 and f"the ssh-agent at {place} (SSH_AUTH_SOCK) does not answer" in status.stdout
    assert f"{person.key} has a passphrase" in status.stdout and f"'ssh-add {person.key}'" in status.stdout


@pytest.mark.whole
@pytest.mark.timeout(1200)
def test_provisioning_takes_the_same_way(person: Person, tmp_path: Path) -> None:
    head, told = person.cluster.lab.nodes[0], "/etc/regatta/cluster.json"
    as_root(person.cluster, head, f"mv {told} /root/")  # as if these hosts were new to all people
    try:
        for command in ("check", "verify"):
            done = person.regatta(tmp_path, command)
            assert done.returncode == 0 and "lease" not in done.stdout, done.stdout
    finally:
        as_root(person.cluster, head, f"mv /root/cluster.json {told}")
    logs = "".join(path.read_text(errors="replace") for path in (person.inventory / ".logs").iterdir())
    assert logs and WORD not in logs
