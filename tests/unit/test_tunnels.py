"""Tunnels by the real ssh, to a server on this machine."""

import contextlib
import os
import socket
import stat
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sshserver import Server, cluster_of, keypair, node_of, server

from regatta.errors import AuthenticationError, HostKeyError, RemoteError, UnreachableError
from regatta.hosts import tunnels
from regatta.hosts.cluster import Cluster


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Server]:
    with server(tmp_path) as made:
        yield made


@pytest.fixture
def cluster(sshd: Server, tmp_path: Path) -> Cluster:
    return cluster_of(tmp_path, node_of(sshd, tmp_path))


@pytest.fixture
def service() -> Iterator[int]:
    """A port at which something says hello."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    with listening.accept()[0] as client:
                        client.sendall(b"hello")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield int(listening.getsockname()[1])
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


def heard(family: int, address: str | tuple[str, int]) -> bytes:
    with socket.socket(family) as client:
        client.settimeout(10)
        client.connect(address)
        return client.recv(9)


def test_a_program_has_a_socket_that_no_other_account_opens(cluster: Cluster, service: int) -> None:
    with tunnels.tunnel(cluster, cluster.head, service) as path:
        assert heard(socket.AF_UNIX, str(path)) == b"hello"
        for place in (path, path.parent):
            info = place.lstat()
            assert info.st_uid == os.getuid() and not stat.S_IMODE(info.st_mode) & 0o077
    assert not path.exists()


def test_ports_stay_the_same_over_a_lost_connection_which_is_told_once(
    cluster: Cluster, service: int, sshd: Server
) -> None:
    said: list[str] = []
    with tunnels.Tunnels(cluster, cluster.head) as opened:
        port = opened.open(service)
        assert heard(socket.AF_INET, ("127.0.0.1", port)) == b"hello"
        sshd.drop()
        rounds = 0

        def each() -> None:
            nonlocal rounds
            rounds += 1
            if said and said[-1].startswith("connected"):
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            opened.keep(0.05, said.append, each)
        assert heard(socket.AF_INET, ("127.0.0.1", port)) == b"hello"
    assert [line for line in said if "again" in line][-1] == "connected to n1 again" and len(said) <= 2


def test_what_nothing_listens_at_is_closed_and_prints_nothing(
    cluster: Cluster, capfd: pytest.CaptureFixture[str]
) -> None:
    with tunnels.Tunnels(cluster, cluster.head) as opened:
        with contextlib.suppress(ConnectionResetError):
            assert heard(socket.AF_INET, ("127.0.0.1", opened.open(tunnels.free_local_port()))) == b""
        assert opened.alive()
    assert capfd.readouterr().err == ""


def test_a_port_that_is_taken_here(cluster: Cluster, service: int) -> None:
    with (
        tunnels.Tunnels(cluster, cluster.head) as opened,
        pytest.raises(RemoteError, match=f"port {service}.*another port"),
    ):
        opened.open(1, local_port=service)


def test_an_alias_of_a_persons_own_configuration(
    cluster: Cluster, sshd: Server, service: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own"
    own.write_text(
        f"Host gpu1\n  HostName 127.0.0.1\n  Port {sshd.port}\n  User ann\n  IdentityFile {tmp_path / 'key'}\n"
        f"  LocalForward {service} 127.0.0.1:1\n  RequestTTY force\n  RemoteCommand tmux\n"
    )
    monkeypatch.setenv("REGATTA_SSH_CONFIG", str(own))
    for name in ("gpu1", "n1"):
        node = replace(cluster.head, name=name, host="gpu1", port=None, user=None, key_file=None)
        with tunnels.tunnel(cluster_of(tmp_path, node), node, service) as path:
            assert heard(socket.AF_UNIX, str(path)) == b"hello"


def test_no_login(cluster: Cluster, sshd: Server, tmp_path: Path) -> None:
    sshd.accepts.clear()
    with pytest.raises(AuthenticationError, match=r"n1: .*refuses our key"):
        tunnels.Tunnels(cluster, cluster.head)
    other = keypair(tmp_path / "other").with_suffix(".pub").read_text()
    (tmp_path / "known_hosts").write_text(f"[127.0.0.1]:{sshd.port} {other}")
    with pytest.raises(HostKeyError, match="not the pinned one"):
        tunnels.Tunnels(cluster, cluster.head)
    with pytest.raises(UnreachableError, match="does not answer"):
        tunnels.Tunnels(cluster, replace(cluster.head, port=tunnels.free_local_port()))
