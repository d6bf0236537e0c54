"""One process on the head, without a framework: it takes the work of all ranks, and every cluster has to beat it."""

from regatta.frameworks import spec
from regatta.frameworks.api import MIB, Framework
from regatta.frameworks.plan import Plan
from regatta.hosts.cluster import Cluster
from regatta_protocol.run import Spec


class Single(Framework):
    """One process."""

    name = "single"
    title = "single process"
    single = True
    rank_bytes = 430 * MIB
    start_seconds = 5.0

    def specs(self, plan: Plan, cluster: Cluster) -> dict[str, Spec]:
        """See `Framework`."""
        return {node.name: spec.python_ranks(plan, node, spec.one_by_one(plan, node)) for node in plan.nodes}


FRAMEWORK = Single()
