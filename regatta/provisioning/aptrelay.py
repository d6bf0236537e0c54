"""Package proxies on the relays of a cluster, while provisioning runs; see `regatta.node.aptrelay`."""

import contextlib
import ipaddress
import json
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path

from regatta.hosts import routes
from regatta.hosts.cluster import Cluster, Node

PORT = 28143
UPSTREAM = 28144
_LEAVE_SECONDS = 5.0
_BOOT = "import sys;exec(sys.stdin.buffer.read(int(sys.argv[1])))"
_LOADER = """
import json, sys, types
sources, wanted = json.loads({sources!r}), json.loads({wanted!r})
for name, source in sources:
    for parent in (name.partition(".")[0], name.rpartition(".")[0], name):
        sys.modules.setdefault(parent, types.ModuleType(parent))
    setattr(sys.modules[name.rpartition(".")[0]], name.rpartition(".")[2], sys.modules[name])
    exec(compile(source, name, "exec"), sys.modules[name].__dict__)
sys.modules["regatta.node.aptrelay"].main(**wanted)
"""


def proxies(cluster: Cluster) -> dict[str, str]:
    """The proxy of each relay and of each node that has one, by the node's name."""
    found = {node.name: relay for relay, served in _served(cluster) for node in served}
    return {name: f"http://{_bracketed(relay.cluster_address)}:{PORT}" for name, relay in found.items()}


def _served(cluster: Cluster) -> list[tuple[Node, list[Node]]]:
    """Each relay, and whom it serves: itself, as what it has fetched the others get as well, and those behind it."""
    behind = [(relay, [n for n in cluster.nodes if routes.relay(cluster, n) == relay]) for relay in cluster.nodes]
    return [(relay, [relay, *nodes]) for relay, nodes in behind if nodes]


@contextmanager
def serving(cluster: Cluster, config: Path, socket: Path) -> Iterator[None]:
    """Run a proxy on every relay that leads to the controller's one at `socket`.

    Nobody waits for them: a node whose relay does not answer uses the controller's proxy over its own connection.
    """
    with contextlib.ExitStack() as stack:
        for relay, served in _served(cluster):
            stack.enter_context(_one(relay, served, config, socket))
        yield


@contextmanager
def _one(relay: Node, served: list[Node], config: Path, socket: Path) -> Iterator[None]:
    payload = program(relay, served).encode()
    options = ["-o", "ControlPath=none", "-o", "ExitOnForwardFailure=yes", "-R", f"127.0.0.1:{UPSTREAM}:{socket}"]
    remote = shlex.join(["/usr/bin/python3", "-ISuc", _BOOT, str(len(payload))])
    process = subprocess.Popen(
        ["ssh", "-F", str(config), "-T", *options, *relay.ssh_args, "--", relay.name, remote],
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


def program(relay: Node, served: list[Node], port: int = PORT, upstream: int = UPSTREAM) -> str:
    """What the relay runs."""
    folder = resources.files("regatta.node")
    names = ("siteproxy", "aptcache", "aptrelay")
    sources = [(f"regatta.node.{name}", folder.joinpath(f"{name}.py").read_text()) for name in names]
    members = [node.cluster_address for node in served]
    wanted = {"address": relay.cluster_address, "port": port, "upstream": upstream, "members": members}
    return _LOADER.format(sources=json.dumps(sources), wanted=json.dumps(wanted))


def _bracketed(address: str) -> str:
    return f"[{address}]" if ipaddress.ip_address(address).version == 6 else address
