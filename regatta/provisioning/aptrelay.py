"""Package proxies on the relays of a cluster, while provisioning runs; see `regatta.node.aptrelay`."""

import contextlib
import ipaddress
import json
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from regatta.hosts import openssh, routes, sources
from regatta.hosts.cluster import Cluster, Node
from regatta.node import aptcache
from regatta_protocol import sent

PORT = 28143
UPSTREAM = 28144
_LEAVE_SECONDS = 5.0


def proxies(cluster: Cluster, secret: str) -> dict[str, str]:
    """The proxy of each relay and of each node that has one, by the node's name."""
    user = f"{aptcache.USER}:{secret}"
    found = {node.name: relay for relay, served in _served(cluster) for node in served}
    return {name: f"http://{user}@{_bracketed(relay.cluster_address)}:{PORT}" for name, relay in found.items()}


def _served(cluster: Cluster) -> list[tuple[Node, list[Node]]]:
    """Each relay, and whom it serves: itself, as what it has fetched the others get as well, and those behind it."""
    behind = [(relay, [n for n in cluster.nodes if routes.relay(cluster, n) == relay]) for relay in cluster.nodes]
    return [(relay, [relay, *nodes]) for relay, nodes in behind if nodes]


@contextmanager
def serving(cluster: Cluster, config: Path, socket: Path, secret: str) -> Iterator[None]:
    """Run a proxy on every relay that leads to the controller's one at `socket`.

    Nothing waits for them: a node whose relay does not answer uses the controller's proxy over its own connection.
    """
    with contextlib.ExitStack() as stack:
        for relay, served in _served(cluster):
            stack.enter_context(_one(relay, served, config, socket, secret))
        yield


@contextmanager
def _one(relay: Node, served: list[Node], config: Path, socket: Path, secret: str) -> Iterator[None]:
    payload = program(relay, served, secret)
    options = [*openssh.ALONE, "-o", "ExitOnForwardFailure=yes", "-R", f"127.0.0.1:{UPSTREAM}:{socket}"]
    remote = shlex.join(["/usr/bin/python3", "-ISuc", sources.BOOT, str(len(payload))])
    process = subprocess.Popen(
        [*openssh.words(config, relay, [*openssh.FORWARDING, *options]), "--", openssh.destination(relay), remote],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.stdin is not None
    try:
        with contextlib.suppress(OSError):
            process.stdin.write(payload)
            process.stdin.flush()
        yield
    finally:
        with contextlib.suppress(OSError):
            process.stdin.close()
        try:
            process.wait(_LEAVE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def program(relay: Node, served: list[Node], secret: str, port: int = PORT, upstream: int = UPSTREAM) -> bytes:
    """Return what the relay runs."""
    modules = {f"regatta.node.{name}": sources.source(name) for name in ("siteproxy", "aptcache", "aptrelay")}
    members = [node.cluster_address for node in served]
    wanted = {"address": relay.cluster_address, "port": port, "members": members}
    wanted |= {"upstream": upstream, "secret": secret}
    serve = f"from regatta.node import aptrelay\naptrelay.main(**json.loads({json.dumps(wanted)!r}))\n"
    return sent.program(modules, f"import json\n{serve}")


def _bracketed(address: str) -> str:
    return f"[{address}]" if ipaddress.ip_address(address).version == 6 else address
