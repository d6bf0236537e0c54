"""Starts a run's ranks under MPI, by mpi4py over OpenMPI.

Each rank is a process of its node's supervisor, as under any framework; OpenMPI's own processes are next to it in the
run's unit, started without ssh and with the run's own token. `regatta/frameworks/mpi/run/mpilaunch.py` says how.
"""

import secrets
from collections.abc import Mapping

from regatta.frameworks import spec
from regatta.frameworks.api import MIB, Framework
from regatta.frameworks.plan import Plan, Rank
from regatta.hosts.cluster import Cluster, Node
from regatta.hosts.sources import source
from regatta_protocol.run import Spec

LAUNCH = "mpilaunch"
PORTS = (29500, 29899)
"""The ports of OpenMPI's daemons and ranks. `master_port` is the launch agent's, on all nodes but the first."""
INTERFACE_VARIABLES = ["OMPI_MCA_btl_tcp_if_include", "PRTE_MCA_prte_if_include"]
TOKEN_BYTES = 32


class MPI(Framework):
    """A process a rank, which talk by MPI."""

    name = "mpi"
    title = "MPI (OpenMPI)"
    backend = "openmpi"
    token = True
    interfaces = True
    requirements = ("mpi4py>=4.1", "openmpi>=5,<6")
    secondary_exit_codes = frozenset({14})  # OpenMPI's MPI_ERR_UNKNOWN: a connection to a rank has ended
    rank_bytes = 80 * MIB
    start_seconds = 6.0

    def specs(self, plan: Plan, cluster: Cluster) -> dict[str, Spec]:
        """See `Framework`."""
        return {node.name: _spec(plan, node) for node in plan.nodes}

    def secrets(self, plan: Plan) -> Mapping[str, str]:
        """The token by which the launch agent and the nodes of the run know each other."""
        return {"REGATTA_MPI_TOKEN": secrets.token_hex(TOKEN_BYTES)}


def _spec(plan: Plan, node: Node) -> Spec:
    program = f"{node.state}/runs/{plan.run}/{LAUNCH}.py"
    ranks = [
        spec.process(rank.rank, [node.python, program, "rank", *plan.program.argv], rank_environment(plan, rank))
        for rank in plan.on(node)
    ]
    made = spec.python_ranks(plan, node, ranks)
    made = spec.files(made, {f"{LAUNCH}.py": source(LAUNCH, "regatta.frameworks.mpi.run")})
    return made.changed(interface_variables=INTERFACE_VARIABLES, env={**openmpi(plan, node), **made.env})


def rank_environment(plan: Plan, rank: Rank) -> dict[str, str]:
    """Return who a rank is, and what the first of a node needs to start OpenMPI there."""
    return {
        "RANK": str(rank.rank),
        "WORLD_SIZE": str(len(plan.ranks)),
        "LOCAL_RANK": str(rank.local),
        "LOCAL_WORLD_SIZE": str(len(plan.on(rank.node))),
        "MASTER_ADDR": plan.ranks[0].node.cluster_address,
        "MASTER_PORT": str(plan.master_port),
        "REGATTA_MPI_HOSTS": ",".join(f"{node.cluster_address}:{len(plan.on(node))}" for node in plan.nodes),
        "REGATTA_MPI_PLACE": f"{rank.node.cluster_address}:{plan.master_port}",
    }


def openmpi(plan: Plan, node: Node) -> dict[str, str]:
    """Settings of OpenMPI: ports, TCP between hosts, nothing in /dev/shm; lost hosts are seen, who waits gives way."""
    first, last = PORTS
    return {
        "OMPI_MCA_pml": "ob1",
        "OMPI_MCA_btl": "self,sm,tcp" if len(plan.nodes) > 1 else "self,sm",
        "OMPI_MCA_btl_sm_backing_directory": f"{node.state}/runs/{plan.run}/scratch",
        "OMPI_MCA_osc_sm_backing_directory": f"{node.state}/runs/{plan.run}/scratch",
        "OMPI_MCA_btl_tcp_disable_family": "6",
        **{f"OMPI_MCA_btl_tcp_port_min_v{version}": str(first) for version in (4, 6)},
        **{f"OMPI_MCA_btl_tcp_port_range_v{version}": str(last - first + 1) for version in (4, 6)},
        "OMPI_MCA_mpi_yield_when_idle": "1",
        "PRTE_MCA_oob_tcp_keepalive_time": "10",
        "PRTE_MCA_oob_tcp_keepalive_intvl": "5",
        "PRTE_MCA_oob_tcp_keepalive_probes": "4",
        "REGATTA_MPI_PORTS": f"{first}-{last}",
        "PRTE_MCA_plm_ssh_pass_environ_mca_params": "0",
        "PRTE_MCA_prte_silence_shared_fs": "1",
    }


FRAMEWORK = MPI()
