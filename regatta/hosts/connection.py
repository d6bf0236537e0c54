"""A Fabric connection to a node, for a person's own tasks: OpenSSH logs in, with all that a person's ssh can."""

import contextlib
import shlex
from collections.abc import Iterator
from typing import Any, cast

import paramiko
from fabric import Config
from fabric import Connection as FabricConnection
from invoke.runners import Local

from regatta.hosts import openssh
from regatta.hosts.cluster import Node
from regatta.hosts.overssh import Process
from regatta.hosts.remote import Remote
from regatta.hosts.tunnels import Tunnels


class _OverSsh(Local):
    """Runs commands on the other side by ssh."""

    def start(self, command: str, shell: str, env: dict[str, Any]) -> None:
        """See invoke.runners.Runner."""
        super().start(shlex.join([*self.context.ssh, "--", self.context.destination, command]), shell, env)


class Connection(FabricConnection):  # type: ignore[misc]
    """Fabric's connection to a node: `run`, `sudo`, `put`, `get` and `forward_local`."""

    def __init__(self, remote: Remote, node: Node) -> None:
        super().__init__(host=node.host, user=node.user, port=node.port or 22, config=Config(lazy=True))
        self._set(ssh=remote.ssh(node), destination=openssh.destination(node), _cluster=remote.cluster, _node=node)
        self._set(_files=None)

    @property
    def is_connected(self) -> bool:
        """See fabric.Connection: ssh connects when it is needed."""
        return True

    def open(self) -> None:
        """See fabric.Connection."""

    def _remote_runner(self) -> Local:
        return _OverSsh(context=self)

    def sftp(self) -> paramiko.SFTPClient:
        """See fabric.Connection: SFTP over a subsystem of ssh."""
        if self._files is None:
            way = Process(shlex.join([*self.ssh, "-s", "--", self.destination, "sftp"]))
            self._set(_way=way, _files=paramiko.SFTPClient(cast(paramiko.Channel, way)))
        return cast(paramiko.SFTPClient, self._files)

    def close(self) -> None:
        """See fabric.Connection."""
        if self._files is not None:
            self._files.close()
            self._way.end()
            self._set(_files=None)

    @contextlib.contextmanager
    def forward_local(
        self,
        local_port: int,
        remote_port: int | None = None,
        remote_host: str = "127.0.0.1",
        local_host: str = "127.0.0.1",
    ) -> Iterator[None]:
        """See fabric.Connection; the port here is one of 127.0.0.1."""
        with Tunnels(self._cluster, self._node) as tunnels:
            tunnels.open(remote_port or local_port, host=remote_host, local_port=local_port)
            yield
