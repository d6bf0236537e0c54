"""Starts runs whose ranks take items from a queue of ZeroMQ: rank 0 has the queue, and a worker next to it.

The queue listens on `cluster_address`, and speaks only to those that have the run's own key (CURVE).
"""

import base64
import secrets
from collections.abc import Mapping

from regatta.frameworks import spec
from regatta.frameworks.api import MIB, Framework
from regatta.frameworks.plan import Plan, Rank
from regatta.hosts.cluster import Cluster
from regatta_protocol.run import Spec

KEY_BYTES = 32


class ZeroMQ(Framework):
    """A process a rank; rank 0 gives out the items."""

    name = "zeromq"
    title = "ZeroMQ"
    backend = "zeromq"
    token = True
    requirements = ("pyzmq>=26",)
    rank_bytes = 60 * MIB
    start_seconds = 4.0

    def specs(self, plan: Plan, cluster: Cluster) -> dict[str, Spec]:
        """See `Framework`."""
        queue = f"tcp://{plan.ranks[0].node.cluster_address}:{plan.master_port}"

        def environment(rank: Rank) -> Mapping[str, str]:
            return {"RANK": str(rank.rank), "WORLD_SIZE": str(len(plan.ranks)), "REGATTA_QUEUE": queue}

        return {
            node.name: spec.python_ranks(plan, node, spec.one_by_one(plan, node, environment)) for node in plan.nodes
        }

    def secrets(self, plan: Plan) -> Mapping[str, str]:
        """Secret keys of the queue and of the workers; public ones follow from them."""
        made = [base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode() for _ in range(2)]
        return {"REGATTA_QUEUE_KEY": made[0], "REGATTA_WORKER_KEY": made[1]}


FRAMEWORK = ZeroMQ()
