"""Which rank runs on which host: pure functions of the hosts and their cores."""

from collections.abc import Mapping, Sequence

from regatta.errors import UsageError
from regatta.frameworks.api import Framework
from regatta.frameworks.plan import Rank
from regatta.hosts.cluster import Cluster, Node


def placed(framework: Framework, workers: int | None, cluster: Cluster, cores: Mapping[str, int]) -> tuple[Rank, ...]:
    """The ranks of a run under a framework: `workers`, or one a core of its hosts; of a single process always one.

    Hosts without an entry in `cores` get none.
    """
    hosts = [node for node in framework.hosts(cluster) if node.name in cores]
    wanted = workers if workers is not None else sum(cores[node.name] for node in hosts)
    return spread(1 if framework.single else wanted, hosts, cores)


def spread(workers: int, nodes: Sequence[Node], cores: Mapping[str, int]) -> tuple[Rank, ...]:
    """Spread ranks over hosts in proportion to their cores; the ranks of a host are numbered one after the other."""
    if workers < 1:
        raise UsageError(f"--workers must be at least 1, not {workers}")
    count = dict.fromkeys((node.name for node in nodes), 0)
    for _ in range(workers):
        emptiest = min(nodes, key=lambda node: (count[node.name] + 1) / max(1, cores[node.name]))
        count[emptiest.name] += 1
    ranks: list[Rank] = []
    for node in nodes:
        ranks += [Rank(len(ranks) + local, local, node) for local in range(count[node.name])]
    return tuple(ranks)


def threads(ranks: Sequence[Rank], cores: Mapping[str, int], asked: int | None = None) -> int:
    """Threads of each rank: as `asked`, else the cores of the tightest host shared by its ranks, at least one."""
    if asked:
        return asked
    on_host: dict[str, int] = {}
    for rank in ranks:
        on_host[rank.node.name] = on_host.get(rank.node.name, 0) + 1
    return max(1, min(cores[name] // number for name, number in on_host.items()))


def crowded(ranks: Sequence[Rank], cores: Mapping[str, int]) -> list[str]:
    """A warning for each host that has more ranks than cores."""
    on_host: dict[str, int] = {}
    for rank in ranks:
        on_host[rank.node.name] = on_host.get(rank.node.name, 0) + 1
    return [
        f"{name} runs {number} ranks on {cores[name]} core(s): they take turns, which lengthens times"
        for name, number in on_host.items()
        if number > cores[name]
    ]


def ranks_left(wanted: int, cores: Mapping[str, int], left: int) -> int:
    """Ranks for hosts with `left` cores in all: as many as `wanted` where there is a core for each, else one a core.

    `wanted` and `cores` are those of the first generation. A run that had more ranks than cores keeps as many a core.
    """
    return max(1, min(wanted, max(left, wanted * left // sum(cores.values()))))
