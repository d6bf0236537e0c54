"""An SSH server on a port of 127.0.0.1, for the real ssh: commands, forwards, and what a server may refuse."""

import contextlib
import os
import select
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import paramiko
from paramiko.common import (
    AUTH_FAILED,
    AUTH_SUCCESSFUL,
    OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED,
    OPEN_FAILED_CONNECT_FAILED,
    OPEN_SUCCEEDED,
)

from regatta.hosts.cluster import Cluster, Node


def keypair(path: Path, passphrase: str = "", kind: str = "ed25519") -> Path:
    """Make a key of a person's."""
    words = ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", "", "-f", str(path)]
    subprocess.run(words, check=True)
    return path


class _Session(paramiko.ServerInterface):
    def __init__(self, server: "Server") -> None:
        self.server = server
        self.targets: dict[int, tuple[str, int]] = {}

    def get_allowed_auths(self, username: str) -> str:
        return self.server.methods

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        known = key.get_base64() in self.server.accepts
        return AUTH_SUCCESSFUL if known else AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        self.server.commands.append(command.decode())
        self.server.start(_execute, channel, command.decode(), self.server.path)
        return True

    def check_channel_direct_tcpip_request(self, chanid: int, origin: object, destination: tuple[str, int]) -> int:
        if not self.server.forwards:
            return OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED
        try:
            far = socket.create_connection(destination, 5)
        except OSError:
            return OPEN_FAILED_CONNECT_FAILED
        self.server.waiting[chanid] = far
        return OPEN_SUCCEEDED


def _execute(channel: paramiko.Channel, command: str, path: str) -> None:
    env = {**os.environ, "PATH": f"{path}:{os.environ['PATH']}"} if path else None
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(["/bin/sh", "-c", command], bufsize=0, env=env, start_new_session=True, **pipes) as process:  # type: ignore[call-overload]

        def give() -> None:
            with contextlib.suppress(OSError):
                while data := channel.recv(1 << 15):
                    process.stdin.write(data)
            with contextlib.suppress(OSError):
                process.stdin.close()
            while not channel.closed and process.poll() is None:  # the client may have closed its input, and wait
                time.sleep(0.02)
            if channel.closed:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)

        def complain() -> None:
            with contextlib.suppress(OSError):
                while data := process.stderr.read(1 << 15):
                    channel.sendall_stderr(data)

        others = [threading.Thread(target=give, daemon=True), threading.Thread(target=complain, daemon=True)]
        for one in others:
            one.start()
        with contextlib.suppress(OSError):
            while data := process.stdout.read(1 << 15):
                channel.sendall(data)
        code = process.wait()
        others[1].join()
        with contextlib.suppress(OSError, EOFError):
            channel.send_exit_status(code if code >= 0 else 255)
        channel.close()
        others[0].join()


def _pump(channel: paramiko.Channel, far: socket.socket) -> None:
    with contextlib.suppress(OSError), far, contextlib.closing(channel):
        ends: dict[Any, Any] = {far: channel, channel: far}
        while True:
            for ready in select.select(list(ends), [], [], 5)[0]:
                data = ready.recv(1 << 15)
                if not data:
                    return
                ends[ready].sendall(data)


class Server:
    """The server; `accepts` has the public keys (base64) that may log in, `commands` what was run."""

    def __init__(self, folder: Path, port: int = 0) -> None:
        self.host_key = paramiko.Ed25519Key(filename=str(keypair(folder / "host_key")))
        self.accepts: set[str] = set()
        self.methods, self.forwards, self.path = "publickey", True, ""
        self.types_refused: list[str] = []
        self.commands: list[str] = []
        self.waiting: dict[int, socket.socket] = {}
        self._socket = socket.create_server(("127.0.0.1", port))
        self.port = int(self._socket.getsockname()[1])
        self._threads: list[threading.Thread] = []
        self._transports: list[paramiko.Transport] = []
        self._open = True

    def accept_key(self, key: Path) -> None:
        """Let this key log in."""
        self.accepts.add(key.with_name(f"{key.name}.pub").read_text().split()[1])

    def start(self, work: object, *arguments: object) -> None:
        """Do this in a thread that the end waits for."""
        thread = threading.Thread(target=work, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def drop(self) -> None:
        """End all connections."""
        for transport in self._transports:
            transport.close()

    def _listen(self) -> None:
        while self._open:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            self.start(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        transport = paramiko.Transport(client, disabled_algorithms={"pubkeys": self.types_refused})
        self._transports.append(transport)
        transport.add_server_key(self.host_key)
        session = _Session(self)
        try:
            transport.start_server(server=session)
            while self._open and transport.is_active():
                channel = transport.accept(0.2)
                if channel is not None and (far := self.waiting.pop(channel.get_id(), None)):
                    self.start(_pump, channel, far)
        except (paramiko.SSHException, EOFError, OSError):
            pass
        finally:
            transport.close()

    def __enter__(self) -> "Server":
        self.start(self._listen)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open = False
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self.drop()
        for thread in self._threads:
            thread.join(10)


@contextlib.contextmanager
def server(folder: Path) -> Iterator[Server]:
    """A server whose host key is pinned in `folder`/known_hosts, and which `folder`/key may log in to."""
    with Server(folder) as made:
        made.accept_key(keypair(folder / "key"))
        pin = f"[127.0.0.1]:{made.port} ssh-ed25519 {made.host_key.get_base64()}\n"
        (folder / "known_hosts").write_text(pin)
        yield made


def cluster_of(folder: Path, *nodes: Node) -> Cluster:
    """A cluster of these nodes."""
    return Cluster("mine", folder, nodes, nodes, nodes[0])


def node_of(made: Server, folder: Path) -> Node:
    """The server as a node."""
    key, user = str(folder / "key"), "ann"
    return Node(
        "n1", "127.0.0.1", "127.0.0.1", False, made.port, user, key, (), "/opt/regatta", "/var/lib/regatta", "python"
    )
