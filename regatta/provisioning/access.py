"""Access to hosts, in the words that every command has: why it is refused, and whether all ways work that runs use."""

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regatta.errors import RemoteError
from regatta.hosts import inventories, openssh, tunnels
from regatta.hosts.cluster import Cluster, Node
from regatta.hosts.remote import Remote, explain, run_once
from regatta.node import layout

_SECONDS = 40
_NO_FORWARDS = (
    "its sshd forwards no ports, and requests to services go that way: allow it there (AllowTcpForwarding yes in "
    "/etc/ssh/sshd_config)"
)


def reasons(unclear: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """A message for each host.

    `unclear[host]`: `layout`, the number that the host has; or `said`, what ssh has said, and `host`, `user`, `key` and
    `folder`: where, as whom and with which file Ansible logs in, and where the SSH configuration is.
    """
    return {
        host: layout.differs(what["layout"]) if "layout" in what else _refusal(host, what)
        for host, what in unclear.items()
    }


def _refusal(host: str, what: Mapping[str, Any]) -> str:
    config = Path(what.get("folder") or "", "ssh_config.provision")
    return str(explain(_node(host, what), 255, what["said"], config if config.is_file() else None))


def _node(host: str, login: Mapping[str, Any]) -> Node:
    return Node(
        name=host,
        host=str(login.get("host") or host),
        cluster_address="",
        local=False,
        port=None,
        user=login.get("user") or None,
        key_file=login.get("key") or None,
        ssh_args=(),
        root="",
        state="",
        python="",
    )


def problems(inventory: str, ports: Mapping[str, int]) -> list[str]:
    """Log in to these hosts as all commands do, before anything is changed there; `ports` are those of their sshd.

    Returns a line for each problem.
    """
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


def new_login(inventory: str, host: str) -> None:
    """Log in over a new connection, while sshd has settings on trial. Raises RemoteError."""
    chosen = inventories.load(inventory)
    node = chosen.node(host)
    remote = Remote(chosen, options=openssh.ALONE)
    command = [*remote.ssh(node), "--", openssh.destination(node), "true"]
    try:
        run_once(remote.config, node, command, _SECONDS, f"no answer within {_SECONDS} s")
    except RemoteError as error:
        raise RemoteError(host, _kept(error.reason)) from None


def _kept(reason: str) -> str:
    return (
        f"with the hardened sshd a new login fails ({reason}). Its old settings come back within two minutes. "
        "Change what is in the way, or one of ssh_hardening_settings, or set ssh_hardening_enabled: false"
    )
