"""Start a run on all its nodes, or on none."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from regatta.errors import NodesError
from regatta.frameworks import registry
from regatta.frameworks.api import JobService, StartedRun
from regatta.frameworks.plan import Plan
from regatta.hosts.cluster import Cluster, Node
from regatta.hosts.remote import Remote
from regatta.terminal.ctrl_c import interrupts_deferred
from regatta_protocol.operations.runs import StartRun, StopRun
from regatta_protocol.run import Finished

START_TIMEOUT = 150.0
"""A node copies the tree meanwhile; one that is cut off is noticed sooner."""
STOP_TIMEOUT, SERVICE_STOP_TIMEOUT = 8.0, 20.0
"""A service of the cluster first ends what it has started for the run."""


def start(
    remote: Remote,
    plan: Plan,
    service: JobService | None = None,
    keep: Callable[[Node], Mapping[str, object]] = lambda _: {},
) -> StartedRun:
    """Start a run; each node keeps what `keep` gives for its record.

    Raises NodesError; what had been started by then is stopped.
    """
    cluster, framework = remote.cluster, registry.find(plan.framework)
    nodes, asked = framework.nodes(plan, cluster), requests(cluster, plan, keep)
    places = {rank.rank: rank.node.name for rank in plan.ranks}
    handle = StartedRun(plan.run, cluster, nodes, framework, places, service)
    told = list(nodes)
    try:
        started, failed = remote.gather(
            nodes,
            lambda node: remote.call(node, asked[node.name], timeout=START_TIMEOUT),
        )
        told = [node for node in nodes if node.name in started]
        if failed:
            raise NodesError(f"run {plan.run}: start", failed)
    except BaseException as error:
        told = told if isinstance(error, Exception) else list(nodes)  # Ctrl-C: who has started is unknown
        stop_everywhere(remote, handle, told, "the run could not be started on every node")
        raise
    return replace(handle, answers=started)


def requests(cluster: Cluster, plan: Plan, keep: Callable[[Node], Mapping[str, object]]) -> dict[str, StartRun]:
    """What each node of a run is asked, by its name."""
    framework = registry.find(plan.framework)
    specs, hidden = framework.specs(plan, cluster), {**framework.secrets(plan), **plan.hidden}
    return {
        node.name: StartRun(specs[node.name].changed(record=dict(keep(node))), hidden)
        for node in framework.nodes(plan, cluster)
    }


def stop_everywhere(
    remote: Remote, handle: StartedRun, nodes: list[Node], reason: str
) -> tuple[dict[str, Finished], dict[str, Exception]]:
    """Stop a run on the given nodes, whatever is pressed.

    Returns how it ended there, and the nodes that could not be asked, with the cause.
    """
    timeout = STOP_TIMEOUT if handle.service is None else SERVICE_STOP_TIMEOUT
    with interrupts_deferred():
        return remote.gather(nodes, lambda node: remote.call(node, StopRun(handle.run, reason), timeout=timeout))
