"""Start a run on all its nodes, or on none."""

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from regatta.errors import LaunchError, NodesError, RegattaError
from regatta.frameworks import registry
from regatta.frameworks.api import Handle, JobService
from regatta.frameworks.plan import Plan
from regatta.hosts.cluster import Node
from regatta.hosts.remote import Remote
from regatta.run.interrupts import undisturbed

START_TIMEOUT = 150.0
"""A node copies the tree meanwhile; one that is cut off is noticed sooner."""
STOP_TIMEOUT = 8.0


def start(
    remote: Remote,
    plan: Plan,
    service: JobService | None = None,
    keep: Callable[[Node], Mapping[str, Any]] = lambda _: {},
) -> Handle:
    """Start a run; each node keeps what `keep` gives for its record.

    Raises LaunchError, NodesError; what had been started by then is stopped.
    """
    cluster, framework = remote.cluster, registry.find(plan.framework)
    nodes = framework.nodes(plan, cluster)
    specs = framework.specs(plan, cluster)
    for node in nodes:
        specs[node.name]["record"] = keep(node)
    places = {rank.rank: rank.node.name for rank in plan.ranks}
    handle = Handle(plan.run, cluster, nodes, framework, places, service)
    told, hidden = list(nodes), {**framework.secrets(plan), **plan.hidden}
    try:
        started, failed = remote.gather(
            nodes,
            lambda node: remote.call(node, "run.start", timeout=START_TIMEOUT, spec=specs[node.name], hidden=hidden),
        )
        told = [node for node in nodes if node.name in started]
        if failed:
            raise NodesError(f"run {plan.run}: start", failed)
        if framework.served(cluster):
            if service is None:
                raise LaunchError(f"a run under {plan.framework} on a cluster needs the service that takes it")
            service.submit(plan)
    except BaseException as error:
        told = told if isinstance(error, Exception) else list(nodes)  # Ctrl-C: who has started is unknown
        stop_everywhere(remote, handle, told, "the run could not be started on every node")
        raise
    return replace(handle, answers=started)


def stop_everywhere(
    remote: Remote, handle: Handle, nodes: list[Node], reason: str, *, driver_ended: bool = False
) -> tuple[dict[str, dict[str, Any]], dict[str, Exception]]:
    """Stop a run on the given nodes, whatever is pressed.

    Returns how it ended there, as `run.finish` says it, and the nodes that could not be asked, with the cause. Where
    the driver of a run is known to have ended, the service that took it has nothing left to stop, and is not asked.
    """
    with undisturbed():
        if handle.service is not None and not driver_ended:
            remote.gather(nodes, lambda node: remote.call(node, "run.mark", timeout=3, run=handle.run, reason=reason))
            with contextlib.suppress(RegattaError):
                handle.service.stop(handle.run)
        return remote.gather(
            nodes, lambda node: remote.call(node, "run.stop", timeout=STOP_TIMEOUT, run=handle.run, reason=reason)
        )
