"""Frameworks whose workers are processes of one host: a driver on the head starts them, and they end with it.

This one is multiprocessing.Pool of the standard library; `table` has those that differ from it by name.
"""

from regatta.frameworks import spec
from regatta.frameworks.api import MIB, Framework
from regatta.frameworks.plan import Plan
from regatta.hosts.cluster import Cluster, Node
from regatta_protocol.log import DRIVER
from regatta_protocol.run import Spec


class Multiprocessing(Framework):
    """A driver, and as many processes next to it on the head as there are ranks."""

    name = "multiprocessing"
    driver = True
    rank_bytes = 60 * MIB
    driver_bytes = 100 * MIB
    start_seconds = 3.0

    def hosts(self, cluster: Cluster) -> tuple[Node, ...]:
        """Only the head."""
        return (cluster.head,)

    def specs(self, plan: Plan, cluster: Cluster) -> dict[str, Spec]:
        """See `Framework`."""
        head = cluster.head
        driver = spec.process(DRIVER, [head.python, *plan.program.argv])
        return {head.name: spec.python_ranks(plan, head, [driver])}


FRAMEWORK = Multiprocessing()
