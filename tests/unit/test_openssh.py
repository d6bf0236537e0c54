"""OpenSSH is the truth about hosts: aliases, ways, logins, and what is wrong with them."""

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sshserver import Server, cluster_of, keypair, node_of, server

from regatta.errors import AuthenticationError, RemoteError
from regatta.hosts import hostkeys, openssh, sshconfig
from regatta.hosts.cluster import Cluster
from regatta.hosts.connection import Connection
from regatta.hosts.remote import Remote
from regatta.provisioning import access
from regatta.tasks import nodes


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Server]:
    with server(tmp_path) as made:
        yield made


@pytest.fixture
def cluster(sshd: Server, tmp_path: Path) -> Iterator[Cluster]:
    made = cluster_of(tmp_path, node_of(sshd, tmp_path))
    yield made
    Remote(made).close()


def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Make this a person's own configuration."""
    (tmp_path / "own").write_text(text)
    monkeypatch.setenv("REGATTA_SSH_CONFIG", str(tmp_path / "own"))


@pytest.mark.parametrize(
    ("name", "host", "expected"),
    [
        ("gpu1", "gpu1", {"hostname": "192.0.2.7", "user": "ann", "port": "2200", "proxyjump": "gate"}),
        ("n1", "gpu1", {"hostname": "192.0.2.7", "user": "ann", "port": "2200", "proxyjump": "gate"}),
        ("n1", "192.0.2.9", {"hostname": "192.0.2.9", "port": "22"}),
        ("n1", "2001:db8::7", {"hostname": "2001:db8::7", "user": "eve"}),
    ],
)
def test_an_alias_leads_where_a_persons_ssh_goes(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, host: str, expected: dict[str, str]
) -> None:
    own(tmp_path, monkeypatch, "Host gpu1\n HostName 192.0.2.7\n User ann\n Port 2200\n ProxyJump gate\n")
    with (tmp_path / "own").open("a") as file:
        file.write("Host 2001:db8::*\n User eve\n")
    node = replace(cluster.head, name=name, host=host, port=None, user=None, key_file=None)
    config = sshconfig.write(tmp_path, [node], accept_new=False)
    found = openssh.settings(config, node)
    assert expected.items() <= found.items() and found["userknownhostsfile"] == str(tmp_path / "known_hosts")


def test_the_inventory_comes_before_a_persons_configuration(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own(tmp_path, monkeypatch, "Host gpu1\n HostName 192.0.2.7\n User ann\n Port 2200\n StrictHostKeyChecking no\n")
    node = replace(cluster.head, name="gpu1", host="gpu1", port=22, user="bob", key_file=None)
    found = openssh.settings(sshconfig.write(tmp_path, [node], accept_new=False), node)
    assert (found["user"], found["port"], found["hostname"]) == ("bob", "22", "192.0.2.7")
    assert found["stricthostkeychecking"] == "true"


def test_rsync_takes_an_ipv6_address(cluster: Cluster) -> None:
    assert openssh.for_rsync(replace(cluster.head, host="2001:db8::7")) == "ann@[2001:db8::7]"
    assert openssh.for_rsync(replace(cluster.head, host="2001:db8::7", user=None)) == "[2001:db8::7]"
    assert openssh.for_rsync(cluster.head) == "ann@127.0.0.1"


@pytest.mark.parametrize(
    ("text", "circle"),
    [
        ("Host a\n ProxyJump b\nHost b\n ProxyJump a\n", "a -> b -> a"),
        ("Host a\n ProxyJump me@b:2200\nHost b\n ProxyJump c,d\nHost c\n ProxyJump b\n", "a -> b -> c -> b"),
        ("Host a\n ProxyJump a\n", "jumphost loop via a"),
    ],
)
def test_jump_hosts_in_a_circle_start_nothing(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, circle: str
) -> None:
    own(tmp_path, monkeypatch, text)
    node = replace(cluster.head, host="a", port=None)
    with pytest.raises(RemoteError, match=f"n1: .*{circle}.*your ssh configuration"):
        Remote(cluster_of(tmp_path, node)).ssh(node)


def test_the_key_that_a_host_shows(
    cluster: Cluster, sshd: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sshd.accepts.clear()
    config = sshconfig.write(tmp_path, cluster.nodes, accept_new=False)
    shown = hostkeys.showing(config, cluster.head, [], 10)
    assert shown.text == (tmp_path / "known_hosts").read_text().strip()
    own(tmp_path, monkeypatch, f"Host gpu1\n HostName 127.0.0.1\n Port {sshd.port}\n HostKeyAlias other\n")
    node = replace(cluster.head, name="gpu1", host="gpu1", port=None)
    config = sshconfig.write(tmp_path, [node], accept_new=False)
    assert hostkeys.showing(config, node, [], 10) == replace(shown, names="other")


def test_the_key_behind_a_jump_host(cluster: Cluster, sshd: Server, tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    pins = (tmp_path / "known_hosts").read_text()
    config = sshconfig.write(tmp_path, cluster.nodes, accept_new=False)
    with Server(tmp_path / "inner") as inner:
        node = replace(cluster.head, port=inner.port, ssh_args=("-J", f"ann@127.0.0.1:{sshd.port}"))
        (tmp_path / "known_hosts").write_text("")
        with pytest.raises(RemoteError, match="not pinned"):
            hostkeys.showing(config, node, [], 10)
        (tmp_path / "known_hosts").write_text(pins)
        shown = hostkeys.showing(config, node, [], 10)
    assert (shown.names, shown.key) == (f"[127.0.0.1]:{inner.port}", inner.host_key.get_base64())


def test_connections_of_a_commands_own_share_none_with_others_on_the_way(
    cluster: Cluster, sshd: Server, tmp_path: Path
) -> None:
    """The lease of a command lives on when provisioning ends the connections that it shares with Ansible."""
    (tmp_path / "inner").mkdir()
    with Server(tmp_path / "inner") as inner:
        inner.accepts |= sshd.accepts
        node = replace(cluster.head, port=inner.port, ssh_args=("-J", f"ann@127.0.0.1:{sshd.port}"))
        remote = Remote(cluster_of(tmp_path, node), accept_new=True, alone=True)
        assert nodes.run(remote, node, ["echo", "in"], 20) == (0, "in\n")
    for accept_new in (True, False):
        control = sshconfig.control_prefix(tmp_path, accept_new=accept_new)
        assert [*control.parent.glob(f"{control.name}-*")] == []


def test_commands_and_files_over_a_connection_of_fabric(cluster: Cluster, sshd: Server) -> None:
    remote = Remote(cluster)
    with Connection(remote, cluster.head) as connection:
        done = connection.run("echo oops >&2; exit 3", hide=True, warn=True, in_stream=False)
    assert (done.stderr, done.exited) == ("oops\n", 3)
    assert nodes.run(remote, cluster.head, ["sh", "-c", "echo a; echo b >&2; exit 7"], 20) == (7, "a\nb\n")
    assert nodes.run(remote, cluster.head, ["cat"], 20) == (0, "")
    with pytest.raises(RemoteError, match=r"'sleep' has not ended after 0\.5 s"):
        nodes.run(remote, cluster.head, ["sleep", "60"], 0.5)


def refusal(cluster: Cluster) -> str:
    with pytest.raises(AuthenticationError) as refused:
        nodes.run(Remote(cluster, options=openssh.ALONE), cluster.head, ["true"], 20)
    return str(refused.value)


def test_why_a_host_lets_nobody_in(
    cluster: Cluster, sshd: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    sshd.accepts.clear()
    assert "n1: ann@127.0.0.1 refuses our key: check ansible_user" in refusal(cluster)
    own(tmp_path, monkeypatch, "Host 127.*\n User bob\n")
    assert "ansible_user (ann) of the inventory goes before User (bob) of your ssh" in refusal(cluster)
    sshd.methods = "password"
    assert "accepts no keys, only password" in refusal(cluster)
    sshd.methods = "publickey"
    locked = keypair(tmp_path / "locked", "a phrase")
    node = replace(cluster.head, key_file=str(locked))
    told = refusal(cluster_of(tmp_path, node))
    assert f"{locked} has a passphrase, and there is no ssh-agent" in told and f"ssh-add {locked}" in told
    monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "gone"))
    assert f"the ssh-agent at {tmp_path / 'gone'} (SSH_AUTH_SOCK) does not answer" in refusal(
        cluster_of(tmp_path, node)
    )


def test_a_type_of_key_that_a_host_refuses_is_a_cause_that_is_said(
    cluster: Cluster, sshd: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ssh says it only with -v, and then so do we."""
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    key = keypair(tmp_path / "rsa", kind="rsa")
    sshd.accept_key(key)
    node = replace(cluster.head, key_file=str(key))
    assert nodes.run(Remote(cluster_of(tmp_path, node), options=openssh.ALONE), node, ["true"], 20)[0] == 0
    sshd.types_refused = ["rsa-sha2-256", "rsa-sha2-512", "ssh-rsa"]
    assert "whether it accepts keys of this type" in refusal(cluster_of(tmp_path, node))
    aloud = replace(node, ssh_args=("-v",))
    assert "accepts no key of this type: make one of another" in refusal(cluster_of(tmp_path, aloud))


def test_a_jump_host_that_takes_only_passwords_is_named(
    cluster: Cluster, sshd: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also over connections that are shared: there ssh leaves out what the jump host has said."""
    sshd.methods = "password"
    sshd.accepts.clear()
    node = replace(cluster.head, host="192.0.2.9", port=22, ssh_args=("-J", f"gus@127.0.0.1:{sshd.port}"))
    assert "the jump host gus@127.0.0.1 accepts no keys, only password" in refusal(cluster_of(tmp_path, node))
    remote = Remote(cluster_of(tmp_path, node))
    with pytest.raises(AuthenticationError, match=r"the jump host gus@127\.0\.0\.1 accepts no keys, only password"):
        nodes.run(remote, node, ["true"], 20)
    told = {"said": "kex_exchange_identification: Connection closed by remote host", "folder": str(tmp_path)}
    own(tmp_path, monkeypatch, f"Host 192.0.2.9\n ProxyJump gus@127.0.0.1:{sshd.port}\n")
    sshconfig.write(tmp_path, [replace(node, ssh_args=())], accept_new=True)
    (said,) = access.reasons({"n1": {**told, "host": "192.0.2.9"}}).values()
    assert "the jump host gus@127.0.0.1 accepts no keys, only password" in said


def test_a_key_with_a_passphrase_in_an_agent(
    cluster: Cluster, sshd: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked = keypair(tmp_path / "locked", "a phrase")
    sshd.accepts.clear()
    sshd.accept_key(locked)
    place = tmp_path / "agent"
    with subprocess.Popen(["ssh-agent", "-D", "-a", str(place)], stdout=subprocess.DEVNULL) as agent:
        try:
            phrase = tmp_path / "phrase"
            phrase.write_text("#!/bin/sh\necho a phrase\n")
            phrase.chmod(0o700)
            monkeypatch.setenv("SSH_AUTH_SOCK", str(place))
            asking = {"SSH_ASKPASS": str(phrase), "SSH_ASKPASS_REQUIRE": "force", "SSH_AUTH_SOCK": str(place)}
            while not place.exists():
                pass
            subprocess.run(["ssh-add", "-q", str(locked)], env=asking, check=True, capture_output=True)
            node = replace(cluster.head, key_file=str(locked))
            done = nodes.run(Remote(cluster_of(tmp_path, node), options=openssh.ALONE), node, ["echo", "in"], 20)
            assert done == (0, "in\n")
            monkeypatch.setattr(access.inventories, "load", lambda _: cluster_of(tmp_path, node))
            access.new_login("mine", "n1")
        finally:
            agent.terminate()
