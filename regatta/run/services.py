"""The cluster's services (HDFS, and those that take the runs of frameworks): start, stop, ask."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from regatta.errors import (
    AuthenticationError,
    HostKeyError,
    LaunchError,
    NodesError,
    PrivilegeError,
    RegattaError,
    RemoteError,
    UnknownHostKeyError,
    UnreachableError,
)
from regatta.frameworks import registry
from regatta.frameworks.api import Framework
from regatta.hosts.cluster import Cluster, Node
from regatta.hosts.remote import Remote
from regatta.program import about_hosts, hint
from regatta.services import parts
from regatta_protocol.decoding import encode
from regatta_protocol.operations.hdfs import AskHdfs
from regatta_protocol.operations.launch import Inspect
from regatta_protocol.operations.services import Act, AskMonitoring, AskStatus
from regatta_protocol.run import Listed

TROUBLES: dict[type[RemoteError], str] = {
    UnknownHostKeyError: "KEY NOT PINNED",
    HostKeyError: "KEY CHANGED",
    AuthenticationError: "LOGIN REFUSED",
    PrivilegeError: "NO SUDO",
    UnreachableError: "NO ANSWER",
}
"""The words of `fab status` for a node that could not be asked; the first that fits."""
START_SECONDS = 90.0
READY_SECONDS = 60.0


@dataclass(frozen=True)
class NodeStatus:
    """One node as `fab status` shows it; `runs` as the catalogue takes them, `error` where it could not be asked.

    `told`: what it has said to frameworks. `trouble`: the error in one or two words, see `TROUBLES`.
    """

    node: Node
    facts: dict[str, Any]
    units: dict[str, str]
    runs: tuple[Listed, ...] = ()
    told: dict[str, Any] = field(default_factory=dict)
    error: str | None = None
    trouble: str = ""


def served(cluster: Cluster) -> tuple[Framework, ...]:
    """A framework for each service of the cluster that takes runs: of those that it takes, the first of `every`."""
    found: dict[str, Framework] = {}
    for framework in registry.every():
        if framework.served(cluster):
            found.setdefault(framework.service, framework)
    return tuple(found.values())


def foreign(cluster: Cluster) -> list[str]:
    """A line for each framework whose runs go to a service that is not Regatta's."""
    found: dict[str, None] = {}
    for framework in registry.every():
        if address := framework.foreign(cluster):
            found[f"{framework.service}: runs go to {address}, which is not of this cluster"] = None
    return list(found)


def every() -> dict[str, tuple[str, ...]]:
    """The units of all services that runs need, by what people call the service, also of those that no cluster has."""
    found = {part.title: part.units for part in parts.every() if part.starts}
    for framework in registry.every():
        if framework.service:
            found.setdefault(framework.service, framework.units)
    return found


def framework_units(cluster: Cluster) -> tuple[str, ...]:
    """The units of these services."""
    return tuple(dict.fromkeys(unit for framework in served(cluster) for unit in framework.units))


def _units(cluster: Cluster) -> tuple[str, ...]:
    """The units that `up` starts: those of parts, and of services that frameworks outside of Regatta bring."""
    return tuple(dict.fromkeys((*parts.units(), *framework_units(cluster))))


def act(remote: Remote, action: str) -> dict[str, dict[str, str]]:
    """`start` or `stop` the services; unit states by node.

    Starting, what starts together (HDFS) and the head come first; stopping, the head comes last. Raises NodesError, and
    LaunchError where no service is installed or one does not reach the wanted state.
    """
    head, everybody = remote.cluster.head, remote.cluster.nodes
    others = tuple(node for node in everybody if node.name != head.name)
    every, together = _units(remote.cluster), parts.units([parts.TOGETHER])
    states: dict[str, dict[str, str]] = {}
    if action == "start":
        _act(remote, everybody, action, lambda node: every if node.name == head.name else together)
    for group in [(head,), others] if action == "start" else [others, (head,)]:
        states |= _act(remote, group, action, lambda _: every)
    for name, units in states.items():
        if not units:
            raise LaunchError(f"{name}: no service is installed there: run '{about_hosts('provision')}'")
    return states


def _act(
    remote: Remote, nodes: Sequence[Node], action: str, units: Callable[[Node], Sequence[str]]
) -> dict[str, dict[str, str]]:
    asked = remote.everywhere(
        nodes,
        lambda node: Act(action, tuple(units(node))),
        timeout=START_SECONDS,
        step="starting services" if action == "start" else "stopping services",
    )
    wanted = ("active",) if action == "start" else ("inactive", "failed")
    states: dict[str, dict[str, str]] = {}
    for name, answer in asked.items():
        states[name] = {unit: value.state for unit, value in answer.units.items()}
        if wrong := {unit: state for unit, state in states[name].items() if state not in wanted}:
            raise LaunchError(
                f"{name}: {', '.join(f'{unit} is {state}' for unit, state in wrong.items())}. {answer.message} "
                f"See 'journalctl -u {next(iter(wrong))}' there."
            )
    return states


def wait_until_joined(remote: Remote, framework: Framework) -> int:
    """Wait until a framework's service answers and every node of the cluster is its member; returns their number."""
    end, nodes = time.monotonic() + READY_SECONDS, remote.cluster.nodes
    asked = Inspect(facts_wanted=False, asks=dict(framework.asks(remote.cluster)))
    with framework.open(remote) as service:
        while True:
            try:
                seen = service.look()
                answers = remote.everywhere(nodes, asked, step=f"asking for {framework.service}")
                told = {name: answer.told for name, answer in answers.items()}
                service.wait(nodes, seen, told, lambda text: None)
                return len(nodes)
            except RegattaError:
                if time.monotonic() > end:
                    raise
            time.sleep(0.3)


def wait_for_hdfs(remote: Remote) -> int | None:
    """Wait until every DataNode is live and HDFS takes writes; returns their number, None where there is no HDFS."""
    end = time.monotonic() + READY_SECONDS
    while True:
        found = remote.call(remote.cluster.head, AskHdfs())
        if not found.installed:
            return None
        used = {node.cluster_address for node in remote.cluster.nodes}
        missing = (set(found.expected) & used) - set(found.live)
        if not missing and not found.safe_mode:
            return len(found.expected)
        if time.monotonic() > end:
            names = ", ".join(n.name for n in remote.cluster.nodes if n.cluster_address in missing)
            why = found.problem or (f"no live DataNode on {names}" if missing else found.safe_mode)
            raise LaunchError(f"HDFS is not ready after {READY_SECONDS:g} s: {why}; see '{hint('hdfs-status')}'")
        time.sleep(0.2)


def status(remote: Remote) -> list[NodeStatus]:
    """Every node's facts and unit states, asked at the same time; nodes that do not answer say why."""
    every, packages = _units(remote.cluster), registry.packages()
    asks = {
        name: value for framework in served(remote.cluster) for name, value in framework.asks(remote.cluster).items()
    }

    def ask(node: Node) -> NodeStatus:
        there = () if node.local else every
        answer = remote.call(node, AskStatus(there, asks, packages), timeout=15)
        units = {unit: value.state for unit, value in answer.units.items()}
        return NodeStatus(node, answer.facts, units, answer.runs, answer.told)

    done, failed = remote.gather(remote.cluster.nodes, ask)
    return [
        done.get(node.name)
        or NodeStatus(node, {}, {}, error=_reason(failed[node.name]), trouble=trouble(failed[node.name]))
        for node in remote.cluster.nodes
    ]


def unready(nodes: Sequence[NodeStatus]) -> tuple[list[str], list[str]]:
    """Sentences about nodes that do not answer, and one about those that have no unit of Regatta."""
    silent = [f"{item.node.name}: {item.error}" for item in nodes if item.error]
    bare = [item.node.name for item in nodes if not (item.error or item.units or item.node.local)]
    todo = f"{', '.join(bare)}: not fully provisioned; run '{about_hosts('provision')}'"
    return silent, [todo] if bare else []


def monitoring(remote: Remote) -> dict[str, Any]:
    """Return what the head's Prometheus reaches, see `regatta.node.monitoring`; empty where the head does not
    answer.
    """
    try:
        return dict(encode(remote.call(remote.cluster.head, AskMonitoring(), timeout=15)))
    except RegattaError:
        return {}


def members(remote: Remote, framework: Framework, asked: Sequence[NodeStatus]) -> list[str] | str:
    """Addresses of the nodes that are members of a framework's service, or the reason why it cannot be asked."""
    answers = {item.node.name: item.told for item in asked if not item.error}
    try:
        with framework.open(remote) as service:
            return service.members(remote.cluster.nodes, answers)
    except (RegattaError, NodesError) as error:
        return str(error)


def trouble(error: Exception) -> str:
    """Why a node could not be asked, in one or two words."""
    return next((word for kind, word in TROUBLES.items() if isinstance(error, kind)), "FAILED")


def _reason(error: Exception) -> str:
    return str(getattr(error, "reason", error))
