"""Whether every way to a host works that provisioning and runs will use, before anything is changed there."""

import socket
from collections.abc import Mapping

from regatta.errors import RemoteError
from regatta.hosts import inventories, openssh, tunnels
from regatta.hosts.cluster import Cluster, Node
from regatta.hosts.remote import Remote, run_once

_SECONDS = 40
_NO_FORWARDS = (
    "its sshd forwards no ports, and requests to services go that way: allow it there (AllowTcpForwarding yes in "
    "/etc/ssh/sshd_config)"
)


def check(inventory: str, ports: Mapping[str, int]) -> list[str]:
    """Log in to these hosts as all commands do; `ports` are those of their sshd. Returns a line for each problem."""
    chosen = inventories.load(inventory)
    remote = Remote(chosen)

    def every(node: Node) -> None:
        _request(remote, node)
        _forward(chosen, node, ports[node.name])

    _, failed = remote.gather([node for node in chosen.nodes if node.name in ports], every)
    remote.close()
    return [str(error) if isinstance(error, RemoteError) else f"{name}: {error}" for name, error in failed.items()]


def _request(remote: Remote, node: Node) -> None:
    """Start a program by sudo over a login of its own. RemoteError."""
    command, first = remote.as_root(node, ["true"])
    words = openssh.words(remote.config, node, openssh.ALONE)
    whole = [*words, "--", openssh.destination(node), command]
    run_once(remote.config, node, whole, _SECONDS, f"no login within {_SECONDS} s", first)


def _forward(cluster: Cluster, node: Node, port: int) -> None:
    """Reach a port of the host's loopback address, where its sshd answers. RemoteError."""
    with tunnels.tunnel(cluster, node, port) as path, socket.socket(socket.AF_UNIX) as client:
        client.settimeout(_SECONDS)
        try:
            client.connect(str(path))
            answered = client.recv(1)
        except OSError:
            answered = b""
    if not answered:
        raise RemoteError(node.name, _NO_FORWARDS)
