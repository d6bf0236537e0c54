"""The cluster's services (HDFS, Ray's head and workers): start, stop, ask."""

import time
from dataclasses import dataclass
from typing import Any

from regatta import launch
from regatta.cluster import Node
from regatta.errors import LaunchError, NodesError, RegattaError
from regatta.remote import Remote

UNITS = (
    "regatta-hdfs-namenode.service",
    "regatta-hdfs-datanode.service",
    "regatta-hdfs-checkpoint.service",
    "regatta-ray-head.service",
    "regatta-ray-worker.service",
)
START_SECONDS = 90.0
READY_SECONDS = 60.0


@dataclass(frozen=True)
class NodeStatus:
    """One node as `fab status` shows it; `error` where it could not be asked."""

    node: Node
    facts: dict[str, Any]
    units: dict[str, str]
    error: str | None = None


def act(remote: Remote, action: str) -> dict[str, dict[str, str]]:
    """`start` or `stop` the services, head first when starting and last when stopping; unit states by node.

    Raises NodesError, and LaunchError where no service is installed or one does not reach the wanted state.
    """
    cluster = remote.cluster
    others = [node for node in cluster.nodes if node.name != cluster.head.name]
    order = [[cluster.head], others] if action == "start" else [others, [cluster.head]]
    states: dict[str, dict[str, str]] = {}
    wanted = "active" if action == "start" else "inactive"
    for group in order:
        asked = remote.everywhere(
            group,
            "services",
            args=lambda _: {"action": action, "units": UNITS},
            timeout=START_SECONDS,
            step="starting services" if action == "start" else "stopping services",
        )
        for name, answer in asked.items():
            if not answer["units"]:
                raise LaunchError(f"{name}: no service is installed there: run 'make provision'")
            states[name] = {unit: value["state"] for unit, value in answer["units"].items()}
            if any(state not in (wanted, "failed" if action == "stop" else wanted) for state in states[name].values()):
                raise LaunchError(
                    f"{name}: {', '.join(f'{u} is {s}' for u, s in states[name].items())}. {answer['message']} "
                    f"See 'journalctl -u {next(iter(states[name]))}' there."
                )
    return states


def wait_until_joined(remote: Remote) -> int:
    """Wait until Ray's head lists every node of the cluster as alive; returns their number."""
    expected = {node.cluster_address for node in remote.cluster.nodes}
    end = time.monotonic() + READY_SECONDS
    with launch.job_api(remote) as api:
        while True:
            try:
                missing = expected - set(api.alive())
            except RegattaError:
                missing = expected
                if time.monotonic() > end:
                    raise
            if not missing:
                return len(expected)
            if time.monotonic() > end:
                names = [node.name for node in remote.cluster.nodes if node.cluster_address in missing]
                raise LaunchError(f"{', '.join(names)} did not join Ray within {READY_SECONDS:g} s; see 'fab status'")
            time.sleep(0.3)


def wait_for_hdfs(remote: Remote) -> int | None:
    """Wait until every DataNode is live and HDFS takes writes; returns their number, None where there is no HDFS."""
    end = time.monotonic() + READY_SECONDS
    while True:
        found = remote.call(remote.cluster.head, "hdfs.state")
        if not found["installed"]:
            return None
        missing = set(found["expected"]) - set(found["live"])
        if not missing and not found["safe_mode"]:
            return len(found["expected"])
        if time.monotonic() > end:
            names = ", ".join(n.name for n in remote.cluster.nodes if n.cluster_address in missing)
            why = found.get("problem") or (f"no live DataNode on {names}" if missing else found["safe_mode"])
            raise LaunchError(f"HDFS is not ready after {READY_SECONDS:g} s: {why}; see 'fab hdfs-status'")
        time.sleep(0.2)


def status(remote: Remote) -> list[NodeStatus]:
    """Every node's facts and unit states, asked at the same time; nodes that do not answer say why."""

    def ask(node: Node) -> NodeStatus:
        facts = remote.call(node, "hello", timeout=15)["facts"]
        units = {}
        if not node.local:
            answer = remote.call(node, "services", timeout=15, action="status", units=UNITS)
            units = {unit: value["state"] for unit, value in answer["units"].items()}
        return NodeStatus(node, facts, units)

    done, failed = remote.gather(remote.cluster.nodes, ask)
    return [
        done.get(node.name) or NodeStatus(node, {}, {}, _reason(failed[node.name])) for node in remote.cluster.nodes
    ]


def ray_alive(remote: Remote) -> list[str] | str:
    """Addresses that Ray's head lists as alive, or the reason why it cannot be asked."""
    try:
        with launch.job_api(remote) as api:
            return api.alive()
    except (RegattaError, NodesError) as error:
        return str(error)


def _reason(error: Exception) -> str:
    return str(getattr(error, "reason", error))
