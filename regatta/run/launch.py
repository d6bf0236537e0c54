"""Start a run on all its nodes, or on none."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from regatta.errors import LaunchError, NodesError, RegattaError
from regatta.frameworks import rayjob, torchrun
from regatta.frameworks.plan import Plan
from regatta.hosts import tunnels
from regatta.hosts.cluster import Cluster, Node
from regatta.hosts.remote import Remote
from regatta.run.interrupts import undisturbed

STOP_TIMEOUT = 8.0


@dataclass
class Handle:
    """A run that has been started: the nodes it is on, and Ray's job API where Ray runs it.

    `ranks`: the node of each. `strangers`: what the processes that are none of ours had used on each node, see
    `regatta.node.company`.
    """

    run: str
    nodes: tuple[Node, ...]
    framework: str
    api: rayjob.JobApi | None = None
    head: Node | None = None
    started_on: list[Node] = field(default_factory=list)
    interfaces: dict[str, str | None] = field(default_factory=dict)
    strangers: dict[str, dict[str, float]] = field(default_factory=dict)
    ranks: dict[int, str] = field(default_factory=dict)


@contextlib.contextmanager
def job_api(remote: Remote) -> Iterator[rayjob.JobApi]:
    """Ray's job API of the cluster through a tunnel, proven to answer."""
    cluster = remote.cluster
    with tunnels.tunnel(cluster, cluster.head, rayjob.DASHBOARD_PORT) as port:
        api = rayjob.JobApi(port, token(remote), cluster.name)
        yield api


def check_api(port: int, remote: Remote) -> None:
    """Prove that Ray's job API answers at a local port. Raises LaunchError."""
    rayjob.JobApi(port, token(remote), remote.cluster.name).version()


def token(remote: Remote) -> str:
    """Ray's token: the inventory's own copy, else the head's (which only those who are root there can read)."""
    own = remote.cluster.folder / "secrets" / "ray_token"
    if own.is_file():
        return own.read_text().strip()
    return str(remote.call(remote.cluster.head, "secret", name="ray_token")["value"])


def members(cluster: Cluster, plan: Plan) -> tuple[Node, ...]:
    """The nodes of a Ray run: those with ranks, and the head, where the driver runs."""
    found = {node.name: node for node in (cluster.head, *plan.nodes)}
    return tuple(found.values())


def start(
    remote: Remote,
    plan: Plan,
    api: rayjob.JobApi | None = None,
    keep: Callable[[Node], Mapping[str, Any]] = lambda _: {},
) -> Handle:
    """Start a run; each node keeps what `keep` gives for its record.

    Raises LaunchError, NodesError; what had been started by then is stopped.
    """
    cluster = remote.cluster
    if plan.framework == "ray" and not cluster.local:
        nodes = members(cluster, plan)
        specs = {node.name: rayjob.member_spec(plan, node, cluster.head) for node in nodes}
    elif plan.framework == "ray":
        nodes = plan.nodes
        specs = {node.name: rayjob.private_spec(plan, node) for node in nodes}
    else:
        nodes = plan.nodes
        specs = {node.name: torchrun.spec(plan, node) for node in nodes}
    for node in nodes:
        specs[node.name]["record"] = keep(node)
    handle = Handle(plan.run, nodes, plan.framework, api, cluster.head)
    handle.ranks = {rank.rank: rank.node.name for rank in plan.ranks}
    try:
        started, failed = remote.gather(nodes, lambda node: remote.call(node, "run.start", spec=specs[node.name]))
        handle.started_on = [node for node in nodes if node.name in started]
        handle.strangers = {name: answer.get("strangers") or {} for name, answer in started.items()}
        handle.interfaces = {name: answer.get("interface") for name, answer in started.items()}
        if failed:
            raise NodesError(f"run {plan.run}: start", failed)
        if plan.framework == "ray" and not cluster.local:
            if api is None:
                raise LaunchError("a Ray run on a cluster needs Ray's job API")
            api.submit(rayjob.submission(plan, cluster.head))
    except BaseException as error:
        told = handle.started_on if isinstance(error, Exception) else list(nodes)  # Ctrl-C: who has started is unknown
        stop_everywhere(remote, handle, told, "the run could not be started on every node")
        raise
    return handle


def stop_everywhere(
    remote: Remote, handle: Handle, nodes: list[Node], reason: str, *, driver_ended: bool = False
) -> tuple[dict[str, dict[str, Any]], dict[str, Exception]]:
    """Stop a run on the given nodes, whatever is pressed.

    Returns how it ended there, as `run.finish` says it, and the nodes that could not be asked, with the cause. Where
    Ray's driver is known to have ended, Ray has nothing left to stop, and is not asked.
    """
    with undisturbed():
        if handle.api is not None and not driver_ended:
            remote.gather(nodes, lambda node: remote.call(node, "run.mark", timeout=3, run=handle.run, reason=reason))
            with contextlib.suppress(RegattaError):
                handle.api.stop(handle.run)
        return remote.gather(
            nodes, lambda node: remote.call(node, "run.stop", timeout=STOP_TIMEOUT, run=handle.run, reason=reason)
        )
