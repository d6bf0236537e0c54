"""Which node of Ray has which rank."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence

from workloads.common.failures import WorkerFailed
from workloads.common.ranks import Ranks
from workloads.common.ray import cluster


def places(nodes: Sequence[cluster.Node], own_node: str) -> list[tuple[str, str]]:
    """(address, Ray's node id) of each rank: by ``REGATTA_RANK_MAP``, else ``REGATTA_WORKERS``, default one a core.

    A loopback address is the driver's node: Ray itself replaces 127.0.0.1 by an address of the machine's network.
    Raises :class:`WorkerFailed` where there is no node at an address.
    """
    alive = {node["NodeManagerAddress"]: node["NodeID"] for node in nodes if node["Alive"]}
    addresses = json.loads(os.environ.get("REGATTA_RANK_MAP") or "[]")
    if not addresses:
        addresses = sorted(list(alive)[rank % len(alive)] for rank in range(cluster.workers(nodes)))
    known = {**{address: own_node for address in addresses if address.startswith("127.")}, **alive}
    missing = sorted(set(addresses) - set(known))
    if missing:
        raise WorkerFailed(
            f"no Ray node at {', '.join(missing)}: the cluster has {', '.join(sorted(alive))}; "
            "start its services ('regatta up')"
        )
    return [(address, known[address]) for address in addresses]


def ranks(nodes: Sequence[str]) -> list[Ranks]:
    """The ranks, of which each is on the node of its place in `nodes` (Ray's node ids)."""
    sizes, seen, made = Counter(nodes), Counter[str](), []
    for rank, node in enumerate(nodes):
        made.append(Ranks(rank, len(nodes), seen[node], sizes[node]))
        seen[node] += 1
    return made
