"""Starts runs under dask: rank 0 has the scheduler, and a worker next to it; each other rank is a worker.

All of it belongs to the run and ends with it. Scheduler and workers talk by TLS, with a certificate of the run's own,
which each of them must show.
"""

from collections.abc import Mapping

from regatta.frameworks import spec
from regatta.frameworks.api import MIB, Framework
from regatta.frameworks.dask import tls
from regatta.frameworks.plan import Plan, Rank
from regatta.hosts.cluster import Cluster
from regatta_protocol.run import Spec


class Dask(Framework):
    """A scheduler and workers of dask, started for the run."""

    name = "dask"
    backend = "dask"
    token = True
    requirements = ("distributed>=2024.8",)
    rank_bytes = 200 * MIB
    driver_bytes = 150 * MIB
    start_seconds = 8.0

    def specs(self, plan: Plan, cluster: Cluster) -> dict[str, Spec]:
        """See `Framework`."""
        scheduler = f"tls://{plan.ranks[0].node.cluster_address}:{plan.master_port}"

        def environment(rank: Rank) -> Mapping[str, str]:
            own = {"RANK": str(rank.rank), "WORLD_SIZE": str(len(plan.ranks))}
            return {**own, "REGATTA_SCHEDULER": scheduler, "REGATTA_ADDRESS": rank.node.cluster_address}

        return {
            node.name: spec.python_ranks(plan, node, spec.one_by_one(plan, node, environment)) for node in plan.nodes
        }

    def secrets(self, plan: Plan) -> Mapping[str, str]:
        """The key and the certificate of the run."""
        key, certificate = tls.made(plan.run)
        return {"REGATTA_TLS_KEY": key, "REGATTA_TLS_CERTIFICATE": certificate}


FRAMEWORK = Dask()
