"""Whether a cluster can carry a plan: cores and memory, looked at before anything is started."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from regatta.errors import PlanError
from regatta.experiments.plans import Point
from regatta.frameworks import api, plan, registry
from regatta.hosts import shared_cores
from regatta.hosts.cluster import Cluster, Node
from regatta.hosts.remote import Remote
from regatta.run import placement
from regatta_protocol.operations.launch import Inspect

MOST_RANKS_A_CORE = 16


@dataclass(frozen=True)
class Host:
    """A node's resources: cores, and memory in bytes (None: unknown); `facts`: all that it has told of itself."""

    cores: int
    ram_bytes: int | None
    facts: Mapping[str, Any] = field(default_factory=dict)


def hosts(remote: Remote) -> dict[str, Host]:
    """Ask every node. NodesError names those that do not answer."""
    answers = remote.everywhere(remote.cluster.nodes, Inspect(), step="asking the nodes what they have")
    return {name: _host(answer.facts) for name, answer in answers.items()}


def _host(facts: Mapping[str, Any]) -> Host:
    return Host(int(facts["cores"]), facts["ram_bytes"], facts)


def halves(cluster: Cluster, found: Mapping[str, Host], duet: Sequence[str]) -> dict[str, Host]:
    """Each node's half for one of the two runs of a duet. PlanError where they cannot be kept apart."""
    small = [node.name for node in cluster.workers if found[node.name].cores < 2]
    served = [name for name in duet if registry.of_run(name).served(cluster)]
    if small:
        raise PlanError(f"--duet: {', '.join(small)} have one core, which has no halves: leave --duet out")
    if served:
        raise PlanError(
            f"--duet: {' and '.join(served)} would work in a service, which has all cores: leave --duet out"
        )
    return {
        name: Host(max(1, host.cores // 2), host.ram_bytes // 2 if host.ram_bytes else None, host.facts)
        for name, host in found.items()
    }


def check(cluster: Cluster, found: Mapping[str, Host], points: Sequence[Point]) -> list[str]:
    """Warnings about ranks that share cores. PlanError names every point that a node has not the memory for."""
    faults: list[str] = []
    warnings: dict[str, None] = {}
    cores = {name: host.cores for name, host in found.items()}
    for point in points:
        if point.workers > MOST_RANKS_A_CORE * sum(cores[node.name] for node in cluster.workers):
            total = sum(cores[node.name] for node in cluster.workers)
            faults.append(f"{point.name}: {point.workers} workers on {total} core(s): take fewer workers")
            continue
        ranks = placement.spread(point.workers, cluster.workers, cores)
        warnings |= dict.fromkeys(placement.crowded(ranks, cores))
        for framework in point.frameworks:
            placed = placement.placed(registry.of_run(framework), point.workers, cluster, cores)
            faults += _lacking(point, framework, _counts(placed), cluster.head, found)
    if faults:
        raise PlanError("the cluster cannot carry the plan:\n  " + "\n  ".join(dict.fromkeys(faults)))
    return list(warnings)


def cores_shared(cluster: Cluster, found: Mapping[str, Host], point: Point) -> tuple[str, ...]:
    """The frameworks of a point under which some rank shares its core: there is no verdict on scaling."""
    cores = {name: host.cores for name, host in found.items()}
    facts = {name: host.facts for name, host in found.items()}

    def shared(framework: str) -> bool:
        counts = _counts(placement.placed(registry.of_run(framework), point.workers, cluster, cores))
        return any(shared_cores.sharing(facts, counts).values()) or any(counts[name] > cores[name] for name in counts)

    return tuple(framework for framework in point.frameworks if shared(framework))


def need(point: Point, framework: str, ranks: int, *, head: bool) -> int:
    """Bytes that a node needs for so many ranks of a point: what the plan says of a rank, else an estimate."""
    if point.memory_mb is not None:
        return int(point.memory_mb * api.MIB) * ranks
    takes = registry.of_run(framework)
    own = takes.rank_bytes * ranks + (takes.driver_bytes if head else 0)
    return own + int(point.of.card.estimate.bytes * (point.size or 0))


def _counts(ranks: Sequence[plan.Rank]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for rank in ranks:
        counts[rank.node.name] = counts.get(rank.node.name, 0) + 1
    return counts


def _lacking(
    point: Point, framework: str, counts: Mapping[str, int], head: Node, found: Mapping[str, Host]
) -> list[str]:
    lacking = []
    for name, ranks in counts.items():
        wanted, has = need(point, framework, ranks, head=name == head.name), found[name].ram_bytes
        if has is not None and wanted > has:
            source = "memory_mb" if point.memory_mb is not None else "by estimate; memory_mb says otherwise"
            lacking.append(
                f"{point.name}: {framework} with {ranks} rank(s) on {name} needs {wanted / 1e9:.1f} GB ({source}), "
                f"and it has {has / 1e9:.1f} GB: fewer workers or a smaller size"
            )
    return lacking
