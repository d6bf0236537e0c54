"""sudo with a password: where it comes from, and that only sudo reads it."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from invoke.context import Context
from sshserver import Server, cluster_of, node_of, server

from regatta.errors import InventoryError, PrivilegeError, UsageError
from regatta.hosts import inventories, rsync, sources, sudo
from regatta.hosts.cluster import Cluster
from regatta.hosts.remote import Remote
from regatta.provisioning import commands
from regatta.provisioning.flags import Options
from regatta.tasks import common
from regatta.tasks.namespace import namespace
from regatta_protocol.operations.runs import ListRuns

WORD = "plum 7$x'\"%s\\n"
ASKS = """\
#!/bin/sh
asked=0
while [ $# -gt 0 ]; do case $1 in -S) asked=1;; -p) shift;; -n|-k|-H) ;; -u) shift;; *) break;; esac; shift; done
[ $asked = 1 ] || { echo 'sudo: a password is required' >&2; exit 1; }
IFS= read -r given
[ "$given" = "$(cat "$(dirname "$0")/word")" ] || { echo 'sudo: 1 incorrect password attempt' >&2; exit 1; }
exec "$@"
"""
ASKS_NOT = ASKS.replace("IFS= read", 'exec "$@"\nIFS= read').replace("[ $asked = 1 ]", "true")


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Server]:
    with server(tmp_path) as made:
        made.path = str(tmp_path / "bin")
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "word").write_text(WORD)
        yield made


@pytest.fixture
def cluster(sshd: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    for name in (*sudo.ENVIRONMENT, sudo.ASK):
        monkeypatch.delenv(name, raising=False)
    made = cluster_of(tmp_path, replace(node_of(sshd, tmp_path), become=WORD))
    yield made
    Remote(made).close()


def started(cluster: Cluster, said: bytes) -> bytes:
    """The input of `cat`, started by sudo on the node."""
    remote, node = Remote(cluster), cluster.head
    command, first = remote.as_root(node, ["cat"])
    words = [*remote.ssh(node), "--", remote.destination(node), command]
    return subprocess.run(words, input=first + said, capture_output=True, check=True).stdout


@pytest.mark.parametrize("program", [ASKS, ASKS_NOT])
def test_the_password_never_becomes_part_of_what_is_sent(cluster: Cluster, sshd: Server, program: str) -> None:
    stands_in = Path(sshd.path, "sudo")
    stands_in.write_text(program)
    stands_in.chmod(0o700)
    assert started(cluster, b"a request\n\0more") == b"a request\n\0more"
    (cluster.folder / "from").mkdir()
    (cluster.folder / "from" / "file").write_bytes(bytes(range(256)) * 4000)
    rsync.rsync(Remote(cluster), cluster.head, cluster.folder / "from", ["file"], str(cluster.folder / "to"))
    assert (cluster.folder / "to" / "file").read_bytes() == bytes(range(256)) * 4000
    assert not any("plum" in command for command in sshd.commands)
    assert "plum" not in repr(cluster)


def test_a_wrong_one_is_tried_once_and_nothing_else_is_sent(cluster: Cluster, sshd: Server) -> None:
    Path(sshd.path, "sudo").write_text(ASKS)
    Path(sshd.path, "sudo").chmod(0o700)
    wrong = cluster_of(cluster.folder, replace(cluster.head, become="pear"))
    with pytest.raises(PrivilegeError, match=r"n1: the password for sudo of ann@127\.0\.0\.1 is wrong"):
        started(wrong, b"a request")
    assert len(sshd.commands) == 1
    none = cluster_of(cluster.folder, replace(cluster.head, become=None))
    with pytest.raises(subprocess.CalledProcessError) as refused:
        started(none, b"")
    assert b"a password is required" in refused.value.stderr


def test_it_comes_from_the_inventory_before_the_environment(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    own, plain = cluster.head, replace(cluster.head, become=None)
    assert (sudo.password(own), sudo.password(plain)) == (WORD, None)
    monkeypatch.setenv("ANSIBLE_BECOME_PASS", "pear")
    assert (sudo.password(own), sudo.password(plain)) == (WORD, "pear")
    monkeypatch.delenv("ANSIBLE_BECOME_PASS")
    monkeypatch.setenv(sudo.ASK, "true")
    with Path("/dev/null").open() as nobody, pytest.raises(UsageError, match="only on a terminal"):
        monkeypatch.setattr("sys.stdin", nobody)
        sudo.password(plain)


def test_every_command_that_asks_hosts_can_ask_for_it_and_does_so_once(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    @common.task()
    def look(c: object, inventory: str | None = None) -> list[str | None]:
        return [sudo.password(replace(cluster.head, become=None)) for _ in range(2)]

    def answer(question: str) -> str:
        asked.append(question)
        return "figs9"

    monkeypatch.setattr(sudo, "_typed", [])
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr(sudo.getpass, "getpass", answer)
    assert look(Context()) == [None, None] and asked == []
    assert look(Context(), ask_become_pass=True) == look(Context()) == ["figs9"] * 2 and len(asked) == 1
    for command in namespace.to_contexts():
        assert ("--inventory" in command.flags) == ("-K" in command.flags), command.name


def inventory(folder: Path, variables: str) -> Path:
    folder.mkdir()
    hosts = "head: {hosts: {n1: }}\nworkers: {hosts: {n1: }}\nall:\n  vars:\n    cluster_address: 10.0.0.1\n"
    (folder / "hosts.yml").write_text(f"{hosts}{variables}")
    return folder


def test_a_vault_and_a_variable_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "opens").write_text("a phrase\n")
    monkeypatch.setenv("ANSIBLE_VAULT_PASSWORD_FILE", str(tmp_path / "opens"))
    program = Path(sys.executable).parent / "ansible-vault"
    locked = subprocess.run(
        [program, "encrypt_string", "plum7", "--name", "    ansible_become_password"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.replace("\n  ", "\n      ")
    place = str(inventory(tmp_path / "vault", locked))
    for _ in range(2):  # the second time from the copy that is kept
        assert sudo.password(inventories.load(place).head) == "plum7"
    monkeypatch.setenv("MINE", "pear8")
    place = str(inventory(tmp_path / "env", "    ansible_become_pass: \"{{ lookup('env', 'MINE') }}\"\n"))
    assert sudo.password(inventories.load(place).head) == "pear8"
    place = str(inventory(tmp_path / "clear", "    ansible_become_password: figs9\n"))
    assert sudo.password(inventories.load(place).head) == "figs9"
    kept = "".join(path.read_text() for path in (tmp_path / "cache").rglob("*.json"))
    assert kept and not [word for word in ("plum7", "pear8", "figs9") if word in kept]


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ("ansible_ssh_common_args: -o StrictHostKeyChecking=no", "SSH option StrictHostKeyChecking"),
        ("ansible_ssh_extra_args: -4qostricthostkeychecking=off", "SSH option stricthostkeychecking"),
        ('ansible_ssh_common_args: -o "UserKnownHostsFile /dev/null" -J x', "SSH option UserKnownHostsFile"),
        ("ansible_ssh_common_args: -J gate -F none", "SSH option -F none.*REGATTA_SSH_CONFIG"),
        ("ansible_ssh_args: -C", "ansible_ssh_args: write ansible_ssh_common_args"),
        ("ansible_host_key_checking: false", "ansible_host_key_checking: .*pinned"),
        ("ansible_ssh_host: 10.0.0.1", "write ansible_host"),
        ("ansible_ssh_user: ann", "write ansible_user"),
        ("ansible_ssh_port: 22", "write ansible_port"),
        ("ansible_ssh_pass: x", "ansible_ssh_pass: Regatta logs in with keys"),
        ("ansible_connection: paramiko_ssh", "ansible_connection is paramiko_ssh"),
    ],
)
def test_what_only_one_of_the_two_would_obey_is_refused_by_name(variables: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(InventoryError, match=rf"host n1: .*{said}"):
        name, _, value = variables.partition(": ")
        parsed: object = False if value == "false" else value
        values = {"cluster_address": "10.0.0.1", name: parsed}
        hosts = {"hosts": ["n1"]}
        inventories.build("c", tmp_path, {"_meta": {"hostvars": {"n1": values}}, "head": hosts, "workers": hosts})


def test_options_of_other_kinds_are_the_persons_own(tmp_path: Path) -> None:
    args = "-J me@gate -o Compression=yes -4 -o 'ProxyCommand=ssh -o StrictHostKeyChecking=no -W %h:%p gate'"
    values = {"cluster_address": "10.0.0.1", "ansible_ssh_common_args": args}
    hosts = {"hosts": ["n1"]}
    inventories.build("c", tmp_path, {"_meta": {"hostvars": {"n1": values}}, "head": hosts, "workers": hosts})


@pytest.mark.parametrize("words", [["-u", "ann"], ["--ssh-common-args=-C"], ["-e", "ansible_user=ann"]])
def test_how_to_log_in_is_said_in_the_inventory(here: Path, words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="say in the inventory how to log in"):
        commands.run("provision", Options(str(here), extra=words))
    monkeypatch.setenv("ANSIBLE_HOST_KEY_CHECKING", "False")
    with pytest.raises(UsageError, match="ANSIBLE_HOST_KEY_CHECKING is set"):
        commands.run("provision", Options(str(here)))


def test_a_login_without_sudo_asks_only_the_gate(sshd: Server, tmp_path: Path) -> None:
    node = replace(node_of(sshd, tmp_path), member=True)
    member = cluster_of(tmp_path, node)
    remote = Remote(member)
    assert remote.place(node) == {"gate": sources.identity()}
    assert "--rsync-path=rsync" in rsync.over_ssh(remote, node)
    for refused in (
        lambda: remote.as_root(node, ["true"]),
        lambda: rsync.over_ssh(remote, node, [*rsync.AS_OWNER, "/x"]),
        lambda: commands.refuse_member(member, "provision"),
    ):
        with pytest.raises(PrivilegeError, match="a member's, without sudo"):
            refused()
    with pytest.raises(PrivilegeError, match="is no member of this cluster there"):
        remote.call(node, ListRuns())
    assert sshd.commands[-1].startswith("sudo -n /etc/regatta/gate")
    remote.close()


@pytest.mark.parametrize(("said", "member"), [(True, True), ("yes", True), (False, False), (None, False)])
def test_own_yml_says_that_a_login_is_a_members(tmp_path: Path, said: object, member: bool) -> None:
    told = {"ansible_host": "n1", "cluster_address": "10.0.0.1", **({} if said is None else {"regatta_member": said})}
    groups = {group: {"hosts": ["n1"]} for group in ("head", "workers")}
    made = inventories.build("c", tmp_path, {"_meta": {"hostvars": {"n1": told}}, **groups})
    assert made.head.member is member
