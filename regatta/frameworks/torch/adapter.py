"""Starts a run's ranks under PyTorch distributed: pure functions from a plan to a node's `run.start`.

Three launchers, by measured time from the start to the first all_reduce on two hosts: `env` (each rank started with
RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT: 1.1 s) is the default; `static` and `c10d` are the torchrun program with
that rendezvous (2.8 s; 3.6 to 7.6 s), for scripts that use torchrun's own features. Ranks that are lost are started
again only by c10d, where the nodes notice each other's losses.
"""

from collections.abc import Mapping

from regatta.errors import UsageError
from regatta.frameworks import spec
from regatta.frameworks.api import MIB, Framework
from regatta.frameworks.plan import Plan, Program, Rank
from regatta.frameworks.torch import cuda
from regatta.hosts.cluster import Cluster, Node
from regatta_protocol.run import Expected, Spec

INTERFACE_VARIABLES = ["GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"]

RUN = "regatta.frameworks.torch.run"
MARK = ".joined"
"""The file that a rank makes once it has joined a process group (`run/torchranks.py`)."""
LOADED = ".torch"
"""The file that a rank makes once it has imported torch."""
ALONE = (
    "{ranks} ranks ran, and none joined a process group: each did all the work, unless the script shares it by RANK "
    "itself (torch.distributed.init_process_group)"
)


class Torch(Framework):
    """PyTorch distributed: a process a rank, which meet by gloo."""

    name = "torch"
    command = "torchrun"
    packages = ("torch",)
    companions = frozenset(
        ("torchvision", "torchaudio", "torchcodec", "torchtext", "torchao", "torchrec", "fbgemm-gpu")
    )
    cpu_builds = "https://download.pytorch.org/whl/cpu"
    sets = "TORCHELASTIC_.*"
    launchers = ("env", "static", "c10d")
    backend = "gloo"
    gpu_backend = "nccl"
    interfaces = True
    meets = r"torch/distributed/(?!run\b|elastic/|launch)|torch/nn/parallel/distributed|torch/autograd/graph"
    rank_bytes = 400 * MIB
    start_seconds = 9.0

    def without_gpus(self, program: Program, packages: Mapping[str, str]) -> str | None:
        """See `Framework`."""
        return cuda.without(packages) if program.gpus else ""

    def headline(self, plan: Plan) -> str:
        """See `Framework`."""
        return f"torch ({plan.launcher})"

    def launcher(self, restarts: int) -> str:
        """See `Framework`."""
        return "c10d" if restarts else "env"

    def rendezvous(self, plan: Plan) -> str | None:
        """See `Framework`."""
        return plan.launcher

    def check(self, plan: Plan) -> None:
        """See `Framework`."""
        super().check(plan)
        if plan.options.restarts and plan.launcher != "c10d":
            raise UsageError(
                f"--restarts needs --launcher c10d: with '{plan.launcher}' nothing starts lost ranks again"
            )

    def specs(self, plan: Plan, cluster: Cluster) -> dict[str, Spec]:
        """See `Framework`."""
        return {node.name: _spec(plan, node) for node in plan.nodes}


def _spec(plan: Plan, node: Node) -> Spec:
    if plan.launcher == "env":
        ranks = spec.one_by_one(plan, node, lambda rank: rank_environment(plan, rank))
    else:
        ranks = [spec.process(plan.on(node)[0].rank, torchrun_command(plan, node))]
    env = {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "1"}
    if plan.options.restarts:
        # The store that all rounds share keeps the addresses of ranks that are gone, and new ones call them.
        env["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    made = spec.python_ranks(plan, node, ranks).changed(interface_variables=INTERFACE_VARIABLES)
    if plan.program.any_node and len(plan.ranks) > 1 and node.name == plan.ranks[0].node.name:
        made = made.changed(expected=(Expected(MARK, ALONE.format(ranks=len(plan.ranks)), LOADED),))
    made = spec.beside_python(made, RUN, "torchranks")
    return spec.variables(made, **env)


def rank_environment(plan: Plan, rank: Rank) -> dict[str, str]:
    """The variables that torchrun sets for a rank."""
    nodes = [node.name for node in plan.nodes]
    return {
        **_gpus(plan, rank),
        "RANK": str(rank.rank),
        "LOCAL_RANK": str(rank.local),
        "WORLD_SIZE": str(len(plan.ranks)),
        "LOCAL_WORLD_SIZE": str(len(plan.on(rank.node))),
        "GROUP_RANK": str(nodes.index(rank.node.name)),
        "GROUP_WORLD_SIZE": str(len(nodes)),
        "ROLE_RANK": str(rank.rank),
        "ROLE_WORLD_SIZE": str(len(plan.ranks)),
        "ROLE_NAME": "default",
        "MASTER_ADDR": plan.ranks[0].node.cluster_address,
        "MASTER_PORT": str(plan.master_port),
        "TORCHELASTIC_RUN_ID": plan.run,
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
    }


def _gpus(plan: Plan, rank: Rank) -> dict[str, str]:
    """The indices of a rank's GPUs. Of parts of cards (MIG) a process can use only one, so that it sees no other."""
    cards = plan.cards.get(rank.node.name)
    if not cards or not cards.visible:
        return {}
    if cards.visible[rank.local].startswith("MIG-"):
        return {"CUDA_VISIBLE_DEVICES": cards.visible[rank.local], "REGATTA_GPUS": "0"}
    return {"REGATTA_GPUS": ",".join(map(str, cards.of(rank.local)))}


def torchrun_command(plan: Plan, node: Node) -> list[str]:
    """The torchrun program on one node."""
    nodes = [other.name for other in plan.nodes]
    command = [node.python, "-m", "torch.distributed.run", f"--nnodes={len(nodes)}"]
    command += [f"--nproc-per-node={len(plan.on(node))}", f"--local-addr={node.cluster_address}"]
    command += [f"--max-restarts={plan.options.restarts}"]
    master = plan.ranks[0].node.cluster_address
    if plan.launcher == "static":
        command += [
            f"--node-rank={nodes.index(node.name)}",
            f"--master-addr={master}",
            f"--master-port={plan.master_port}",
        ]
    else:
        command += ["--rdzv-backend=c10d", f"--rdzv-endpoint={master}:{plan.master_port}", f"--rdzv-id={plan.run}"]
        command += [f"--rdzv-conf=join_timeout={plan.options.pg_timeout},is_host={int(nodes[0] == node.name)}"]
    return [*command, *plan.program.argv]


FRAMEWORK = Torch()
