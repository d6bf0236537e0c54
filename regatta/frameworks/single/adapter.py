"""One process on the head, without a framework: it takes the work of all ranks, and every cluster has to beat it."""

from collections.abc import Mapping

from regatta.frameworks import spec
from regatta.frameworks.api import MIB, Framework
from regatta.frameworks.plan import Plan, Program
from regatta.frameworks.torch import cuda
from regatta.hosts.cluster import Cluster
from regatta_protocol.run import Spec


class Single(Framework):
    """One process."""

    name = "single"
    title = "single process"
    single = True
    rank_bytes = 430 * MIB
    start_seconds = 5.0

    def without_gpus(self, program: Program, packages: Mapping[str, str]) -> str | None:
        """See `Framework`."""
        return cuda.without_in_workload(program, packages)

    def specs(self, plan: Plan, cluster: Cluster) -> dict[str, Spec]:
        """See `Framework`."""
        return {node.name: spec.python_ranks(plan, node, spec.one_by_one(plan, node)) for node in plan.nodes}


FRAMEWORK = Single()
