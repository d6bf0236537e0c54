"""A tunnel's local port when the connection behind it breaks."""

import contextlib
import socket
import threading
from types import SimpleNamespace
from typing import Any, cast

import paramiko
import pytest

from regatta.hosts import tunnels


class Broken:
    """A channel, and the connection that opens it, whose other end is gone."""

    def __init__(self) -> None:
        self._ends = socket.socketpair()

    def open_channel(self, *_: object, **__: object) -> "Broken":
        return self

    def fileno(self) -> int:
        return self._ends[0].fileno()

    def sendall(self, _data: bytes) -> None:
        raise EOFError

    def close(self) -> None:
        for end in self._ends:
            end.close()


def test_a_broken_connection_is_closed_and_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    server = tunnels._Forwarder(0, cast(paramiko.Transport, Broken()), ("127.0.0.1", 1), lambda: None)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    with server, socket.create_connection(("127.0.0.1", server.server_address[1]), 10) as here:
        here.sendall(b"anybody there?")
        with contextlib.suppress(ConnectionResetError):
            assert here.recv(1) == b""
        server.shutdown()
    assert capfd.readouterr().err == ""


class Renewed(tunnels.Tunnels):
    """Tunnels over a connection that another user of a port has opened again."""

    def __init__(self) -> None:
        self._connection: Any = object()
        self._node: Any = SimpleNamespace(name="node1")
        self.rounds = 0

    def alive(self) -> bool:
        return True

    def each(self) -> None:
        self.rounds += 1
        self._connection = object() if self.rounds == 1 else self._connection
        if self.rounds == 3:
            raise KeyboardInterrupt


def test_a_connection_that_was_made_anew_by_who_uses_a_port_is_told_once() -> None:
    said: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        (made := Renewed()).keep(0, said.append, made.each)
    assert said == ["connected to node1 again"]
