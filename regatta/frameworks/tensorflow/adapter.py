"""Starts a run's ranks under TensorFlow: each with the TF_CONFIG that its MultiWorkerMirroredStrategy reads.

Every rank has a server of TensorFlow, at its own port among those that only runs reach. It listens on all
addresses of its host and believes whoever reaches it, so it needs a firewall (`Framework.walled`).
"""

import json

from regatta.frameworks import spec
from regatta.frameworks.api import MIB, Framework
from regatta.frameworks.plan import Plan, Rank
from regatta.frameworks.table import TENSORFLOW
from regatta.hosts.cluster import Cluster
from regatta_protocol.run import Spec


class TensorFlow(Framework):
    """A process a rank, which talk by the collectives of TensorFlow."""

    name = "tensorflow"
    title = "TensorFlow (MultiWorkerMirroredStrategy)"
    backend = "tensorflow"
    sets = "TF_CONFIG"
    port_each_rank = True
    walled = True
    requirements = TENSORFLOW
    rank_bytes = 700 * MIB
    start_seconds = 15.0

    def specs(self, plan: Plan, cluster: Cluster) -> dict[str, Spec]:
        """See `Framework`."""
        made = {}
        for node in plan.nodes:
            ranks = spec.one_by_one(plan, node, lambda rank: rank_environment(plan, rank))
            made[node.name] = spec.python_ranks(plan, node, ranks)
        return made


def rank_environment(plan: Plan, rank: Rank) -> dict[str, str]:
    """Return who a rank is, and where TensorFlow's servers of all ranks are."""
    places = [f"{one.node.cluster_address}:{plan.ports[one.node.name][one.local]}" for one in plan.ranks]
    config = {"cluster": {"worker": places}, "task": {"type": "worker", "index": rank.rank}}
    return {
        "RANK": str(rank.rank),
        "LOCAL_RANK": str(rank.local),
        "WORLD_SIZE": str(len(plan.ranks)),
        "LOCAL_WORLD_SIZE": str(len(plan.on(rank.node))),
        "TF_CONFIG": json.dumps(config),
    }


FRAMEWORK = TensorFlow()
