"""Whether a cluster can carry a plan: cores and memory, looked at before anything is started."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
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


def available(
    cluster: Cluster, found: Mapping[str, Host], points: Sequence[Point]
) -> tuple[tuple[Point, ...], list[str]]:
    """The points with the frameworks that the cluster can run, and a sentence for each other one.

    A point is left out if nothing is left that is compared with its single process. PlanError: no point is left.
    """
    names = dict.fromkeys(name for point in points for name in point.frameworks)
    lacking = {name: why for name in names if (why := registry.find(name).available(cluster))}
    said = [f"{name} is left out: {cluster.name} cannot run it: {why}" for name, why in lacking.items()]
    cores = sum(found[node.name].cores for node in cluster.workers)
    kept = []
    for point in points:
        frameworks = map(registry.find, point.frameworks)
        few = [one.name for one in frameworks if point.workers > cores and one.own_cores and one.served(cluster)]
        said += [
            f"{point.name}: {name} is left out: it starts at most one worker a core, and {cluster.name} has {cores}"
            for name in few
        ]
        there = tuple(name for name in point.frameworks if name not in {*lacking, *few})
        if there == point.frameworks or any(not registry.find(name).single for name in there):
            kept.append(replace(point, frameworks=there))
    if not kept:
        raise PlanError("; ".join(said))
    return tuple(kept), said


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
