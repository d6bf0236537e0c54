"""Local ports that lead to services on the nodes' loopback addresses, through SSH.

Fabric's connections end with this process and leave no program behind. Fabric accepts any host key by default; here
only the keys pinned in the inventory's known_hosts are accepted.
"""

import contextlib
import logging
import select
import shlex
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from typing import NoReturn

import paramiko
from fabric import Config, Connection

from regatta.errors import AuthenticationError, RemoteError, UnreachableError
from regatta.hosts import hostkeys, routes, sshconfig
from regatta.hosts.cluster import Cluster, Node

ANSWER_SECONDS = 5.0

logging.getLogger("paramiko").setLevel(logging.CRITICAL)  # its errors reach us as exceptions


class RefuseUnknown(paramiko.MissingHostKeyPolicy):
    """Refuses a host whose key is not pinned."""

    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:
        """See paramiko.MissingHostKeyPolicy."""
        raise paramiko.SSHException(f"the host key of {hostname} is not pinned")


class StrictConnection(Connection):  # type: ignore[misc]
    """A Fabric connection that trusts only the inventory's known_hosts."""

    def __init__(self, cluster: Cluster, node: Node) -> None:
        options: dict[str, object] = {"timeout": 10, "banner_timeout": 15, "auth_timeout": 15}
        if node.key_file:
            options |= {"key_filename": node.key_file, "look_for_keys": False, "allow_agent": False}
        super().__init__(
            host=node.host,
            user=node.user,
            port=node.port or 22,
            gateway=proxy_command(cluster, node),
            connect_kwargs=options,
            config=Config(lazy=True),
        )
        self.client.set_missing_host_key_policy(RefuseUnknown())
        known = cluster.folder / "known_hosts"
        if known.exists():
            self.client.load_host_keys(str(known))


def proxy_command(cluster: Cluster, node: Node) -> str | None:
    """The command that reaches a node behind a jump host (`-J host` or `-o ProxyJump/ProxyCommand`); else None."""
    kind, command = routes.proxy_option(node) or ("", "")
    if kind == "command":
        return command
    if (jump := routes.jump(node)) is None:
        return None
    config = sshconfig.write(cluster.folder, cluster.everybody, accept_new=False)
    words = ["ssh", "-F", str(config), *(["-J", jump.before] if jump.before else [])]
    words += ["-p", str(jump.port)] if jump.port else []
    target = f"{jump.user}@{jump.host}" if jump.user else jump.host
    return f"{shlex.join([*words, '-W'])} %h:%p {shlex.quote(target)}"


def connect(cluster: Cluster, node: Node) -> StrictConnection:
    """Open a connection. Raises HostKeyError, AuthenticationError or UnreachableError."""
    connection = StrictConnection(cluster, node)
    try:
        connection.open()
    except paramiko.BadHostKeyException as error:
        keys = [hostkeys.shown(key.get_name(), key.fingerprint) for key in (error.key, error.expected_key)]
        raise hostkeys.changed(node.name, node.host, *keys) from None
    except paramiko.AuthenticationException:
        raise AuthenticationError(node.name, f"{node.host} {node.refusal}") from None
    except paramiko.SSHException as error:
        if "not pinned" in str(error):
            raise hostkeys.unknown(node.name, node.host) from None
        raise UnreachableError(node.name, f"{node.host}: {error}") from None
    except (OSError, EOFError) as error:
        raise UnreachableError(node.name, f"{node.host} does not answer ({error})") from None
    return connection


def free_local_port(preferred: int = 0) -> int:
    """A TCP port of 127.0.0.1 that nothing listens on now: the preferred one where it is free."""
    for port in (preferred, 0):
        with socket.socket() as sock, contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(("127.0.0.1", port))
            return int(sock.getsockname()[1])
    raise OSError("no free port on 127.0.0.1")


class _Forwarder(socketserver.ThreadingTCPServer):
    """Passes each connection to a local port on to an address that the other side reaches, in threads.

    Fabric's own forwarding ends for good when one connection is refused there; here the local one is closed.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(
        self, port: int, transport: paramiko.Transport, target: tuple[str, int], renew: Callable[[], object]
    ) -> None:
        super().__init__(("127.0.0.1", port), _Pump)
        self.transport = transport
        self.target = target
        self._renew = renew

    def channel(self, origin: tuple[str, int]) -> paramiko.Channel:
        """A way to the target, over a new connection where the old one has ended (sshd was restarted there)."""
        try:
            return self.transport.open_channel("direct-tcpip", self.target, origin, timeout=10)
        except (paramiko.SSHException, EOFError, OSError):
            if self.transport.is_active():
                raise
        self._renew()
        return self.transport.open_channel("direct-tcpip", self.target, origin, timeout=10)

    def handle_error(self, _request: object, _client: object) -> None:
        """See socketserver.BaseServer: whoever has connected sees the end; a broken connection is no news to others."""


class _Pump(socketserver.BaseRequestHandler):
    server: _Forwarder

    def handle(self) -> None:
        try:
            channel = self.server.channel(self.client_address)
        except (RemoteError, paramiko.SSHException, EOFError, OSError):
            return
        with contextlib.closing(channel), contextlib.suppress(OSError):
            ends = {self.request: channel, channel: self.request}
            while True:
                for ready in select.select(list(ends), [], [])[0]:
                    data = ready.recv(1 << 16)
                    if not data:
                        return
                    ends[ready].sendall(data)


class Tunnels:
    """Local ports that lead to addresses which a node reaches, over one connection; for use within `with`."""

    def __init__(self, cluster: Cluster, node: Node) -> None:
        self._cluster, self._node = cluster, node
        self._connection = connect(cluster, node)
        self._servers: list[_Forwarder] = []
        self._renewing = threading.Lock()

    def __enter__(self) -> "Tunnels":
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()
        self._connection.close()

    def alive(self) -> bool:
        """Whether the other side answers: a host that has lost its power says nothing of it."""
        try:
            self._connection.transport.open_session(timeout=ANSWER_SECONDS).close()
        except (paramiko.SSHException, EOFError, OSError):
            return False
        return True

    def open(self, remote_port: int, *, host: str = "127.0.0.1", local_port: int = 0) -> int:
        """Lead a local port (0: a free one) to `host:remote_port` as seen from the node; gives its number."""
        try:
            server = _Forwarder(local_port, self._connection.transport, (host, remote_port), self.renew)
        except OSError as error:
            raise RemoteError(
                self._node.name, f"no tunnel from port {local_port} here: choose another port ({error})"
            ) from None
        self._servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        return int(server.server_address[1])

    def renew(self) -> None:
        """Connect again where the connection has ended; the ports stay the same. Raises RemoteError."""
        with self._renewing:
            if self._connection.transport is not None and self._connection.transport.is_active():
                return
            self._connection.close()
            self._connection = connect(self._cluster, self._node)
            for server in self._servers:
                server.transport = self._connection.transport

    def keep(self, seconds: float, say: Callable[[str], None], each: Callable[[], object] = lambda: None) -> NoReturn:
        """Connect again whenever the connection is lost, looking every so many seconds; the ports stay the same.

        `each` is called whenever the connection was found to be there.
        """
        known = self._connection
        while True:
            while self.alive():
                if self._connection is not known:  # by us, or by who has used a port meanwhile
                    known = self._connection
                    say(f"connected to {self._node.name} again")
                each()
                time.sleep(seconds)
            say(f"the connection to {self._node.name} is lost; connecting again")
            self._connection.close()
            while True:
                with contextlib.suppress(RemoteError):
                    self.renew()
                    break
                time.sleep(seconds)


@contextlib.contextmanager
def tunnel(cluster: Cluster, node: Node, remote_port: int) -> Iterator[int]:
    """A local port that leads to `127.0.0.1:remote_port` of a node, for as long as the context is open."""
    with Tunnels(cluster, node) as tunnels:
        yield tunnels.open(remote_port)
