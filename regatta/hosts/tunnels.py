"""Ways to services on the nodes' loopback addresses: OpenSSH's own forwarding, over a connection of its own.

The connection is a master that this program holds: on the node `cat` answers what it is sent, which shows that the
other side is there, and ends when this program does. A shared master with ControlPersist would end while forwards are
in use.
"""

import contextlib
import itertools
import os
import select
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

from regatta.errors import RemoteError, UnreachableError
from regatta.hosts import openssh, sshconfig
from regatta.hosts.cluster import Cluster, Node
from regatta.hosts.remote import explain
from regatta.paths import runtime_dir

ANSWER_SECONDS = 5.0
LOGIN_SECONDS = 40.0
FORWARD_SECONDS = 10.0
AGAIN_SECONDS = 1.0
_LEAVE_SECONDS = 1.0
_number = itertools.count(1)


def free_local_port(preferred: int = 0) -> int:
    """A TCP port of 127.0.0.1 that nothing listens on now: the preferred one where it is free."""
    for port in (preferred, 0):
        with socket.socket() as sock, contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(("127.0.0.1", port))
            return int(sock.getsockname()[1])
    raise OSError("no free port on 127.0.0.1")


class Master:
    """One connection of OpenSSH to a node, for forwards. Raises RemoteError where there is no login."""

    def __init__(self, cluster: Cluster, node: Node) -> None:
        config = sshconfig.write(cluster.folder, cluster.everybody, accept_new=False)
        self.socket = runtime_dir() / f"t{os.getpid()}-{next(_number)}"
        self._node = node
        openssh.checked(config, node)
        own = ["ControlMaster=yes", f"ControlPath={self.socket}", "ControlPersist=no", "StreamLocalBindUnlink=yes"]
        words = openssh.words(config, node, [word for option in own for word in ("-o", option)])
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 (as long as the process)
        self._process = subprocess.Popen(
            [*words, "--", openssh.destination(node), "exec cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            bufsize=0,
            start_new_session=True,
        )
        if not self.answers(LOGIN_SECONDS):
            error = self._failure()
            self.close()
            raise error

    @property
    def ended(self) -> bool:
        """Whether the connection is lost, as far as this machine knows."""
        return self._process.poll() is not None

    def answers(self, seconds: float = ANSWER_SECONDS) -> bool:
        """Whether the other side answers within this time: a host that has lost its power says nothing of it."""
        assert self._process.stdin and self._process.stdout
        try:
            self._process.stdin.write(b"\n")
            ready = select.select([self._process.stdout], [], [], seconds)[0]
            return bool(ready and self._process.stdout.read(1))
        except (OSError, ValueError):
            return False

    def forward(self, way: str) -> None:
        """Add `LISTEN:HOST:PORT`, as `-L` of ssh takes it. RemoteError says why it cannot be."""
        command = ["ssh", "-F", "none", "-S", str(self.socket), "-O", "forward", "-L", way, "--", "regatta"]
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=FORWARD_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise UnreachableError(self._node.name, f"no forward within {FORWARD_SECONDS:g} s: try again") from None
        if done.returncode:
            raise RemoteError(self._node.name, done.stderr.strip() or "ssh refuses the forward")

    def wait(self) -> None:
        """Wait until the connection has ended."""
        self._process.wait()

    def stop(self) -> None:
        """End the connection; whoever waits for that continues."""
        self._process.terminate()

    def close(self) -> None:
        """End the connection and all that belongs to it here."""
        assert self._process.stdin and self._process.stdout
        self._process.terminate()
        try:
            self._process.wait(_LEAVE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self.socket.unlink(missing_ok=True)
        for file in (self._process.stdin, self._process.stdout, self._said):
            with contextlib.suppress(OSError):
                file.close()

    def _failure(self) -> RemoteError:
        try:
            code = self._process.wait(_LEAVE_SECONDS)
        except subprocess.TimeoutExpired:
            return UnreachableError(self._node.name, f"{self._node.host}: no login within {LOGIN_SECONDS:g} s")
        self._said.seek(0)
        return explain(self._node, code, self._said.read().decode("utf-8", "replace"))


class Tunnels:
    """Ports and sockets of this machine that lead to addresses which a node reaches; for use within `with`.

    A lost connection is made again, with the same ports and sockets, until this ends.
    """

    def __init__(self, cluster: Cluster, node: Node) -> None:
        self._cluster, self._node = cluster, node
        self._ways: list[str] = []
        self._sockets: list[Path] = []
        self._lock, self._closing = threading.Lock(), threading.Event()
        self._master: Master = Master(cluster, node)
        self.connections = 1
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()

    def __enter__(self) -> "Tunnels":
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._master.stop()
        self._watcher.join()
        self._master.close()
        for path in self._sockets:
            path.unlink(missing_ok=True)

    def alive(self) -> bool:
        """Whether the other side answers. A connection on which it does not is ended, and made again."""
        master = self._master
        if not self._lock.acquire(blocking=False):  # it is made again now
            return False
        try:
            if not master.ended and master.answers():
                return True
            master.stop()
        finally:
            self._lock.release()
        return False

    def open(self, remote_port: int, *, host: str = "127.0.0.1", local_port: int = 0) -> int:
        """Lead a local port (0: a free one) to `host:remote_port` as seen from the node; gives its number.

        Every account of this machine can use it: for a program there is `socket`.
        """
        port = local_port or free_local_port()
        try:
            self._add(f"127.0.0.1:{port}:{_bracketed(host)}:{remote_port}")
        except UnreachableError:
            raise
        except RemoteError as error:
            raise RemoteError(
                self._node.name, f"no tunnel from port {port} here: choose another port ({error.reason})"
            ) from None
        return port

    def socket(self, remote_port: int, *, host: str = "127.0.0.1") -> Path:
        """A Unix socket that leads to `host:remote_port` as seen from the node; only this user can open it."""
        path = runtime_dir() / f"u{os.getpid()}-{next(_number)}"
        self._sockets.append(path)
        self._add(f"{path}:{_bracketed(host)}:{remote_port}")
        return path

    def _add(self, way: str) -> None:
        with self._lock:
            self._master.forward(way)
            self._ways.append(way)

    def _watch(self) -> None:
        while not self._closing.is_set():
            self._master.wait()
            if self._closing.is_set():
                return
            with contextlib.suppress(RemoteError):
                self._renew()
                continue
            self._closing.wait(AGAIN_SECONDS)

    def _renew(self) -> None:
        """Connect again; the ports and sockets stay the same. Raises RemoteError."""
        with self._lock:
            new = Master(self._cluster, self._node)
            try:
                for way in self._ways:
                    new.forward(way)
            except RemoteError:
                new.close()
                raise
            self._master.close()
            self._master = new
            self.connections += 1
            if self._closing.is_set():
                new.stop()

    def keep(self, seconds: float, say: Callable[[str], None], each: Callable[[], object] = lambda: None) -> NoReturn:
        """Say when the connection is lost and when it is there again, looking every so many seconds.

        `each` is called whenever the connection was found to be there.
        """
        known, lost = self.connections, False
        while True:
            if self.alive():
                if self.connections != known:
                    known, lost = self.connections, False
                    say(f"connected to {self._node.name} again")
                each()
            elif not lost:
                lost = True
                say(f"the connection to {self._node.name} is lost; connecting again")
            time.sleep(seconds)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


@contextlib.contextmanager
def tunnel(cluster: Cluster, node: Node, remote_port: int) -> Iterator[Path]:
    """A socket that leads to `127.0.0.1:remote_port` of a node, for as long as the context is open."""
    with Tunnels(cluster, node) as tunnels:
        yield tunnels.socket(remote_port)
