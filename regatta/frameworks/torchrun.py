"""How a run's ranks are started under PyTorch distributed: pure functions from a plan to a node's `run.start`.

Three launchers, by measured time from the start to the first all_reduce on two hosts: `env` (each rank started with
RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT: 1.1 s) is the default; `static` and `c10d` are the torchrun program with
that rendezvous (2.8 s; 3.6 to 7.6 s), for scripts that use torchrun's own features. Ranks that are lost are started
again by c10d alone, where the nodes notice each other's losses.
"""

from typing import Any

from regatta.errors import UsageError
from regatta.frameworks.plan import Plan, common_environment, describe
from regatta.hosts.cluster import Node
from regatta.hosts.remote import source, supervisor_files

LAUNCHERS = ("env", "static", "c10d")
INTERFACE_VARIABLES = ["GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"]


def spec(plan: Plan, node: Node) -> dict[str, Any]:
    """What `run.start` takes on this node. Also a single process (framework `single`) is started so."""
    if plan.launcher not in LAUNCHERS:
        raise UsageError(f"--launcher must be one of {', '.join(LAUNCHERS)}, not '{plan.launcher}'")
    if plan.framework == "torch" and plan.restarts and plan.launcher != "c10d":
        raise UsageError(f"--restarts needs --launcher c10d: with '{plan.launcher}' nothing starts lost ranks again")
    own = plan.on(node)
    distributed = plan.framework == "torch"
    if not distributed:
        ranks = [{"rank": rank.rank, "argv": [node.python, *plan.program.argv], "env": {}} for rank in own]
    elif plan.launcher == "env":
        ranks = [
            {"rank": rank.rank, "argv": [node.python, *plan.program.argv], "env": rank_environment(plan, rank.rank)}
            for rank in own
        ]
    else:
        ranks = [{"rank": own[0].rank, "argv": torchrun_command(plan, node), "env": {}}]
    return {
        "id": plan.run,
        "mode": "session" if node.local else "unit",
        "framework": plan.framework,
        "release": plan.release,
        "cwd": f"{node.state}/runs/{plan.run}/work",
        "env": environment(plan, node),
        "ranks": ranks,
        "interface_variables": INTERFACE_VARIABLES if distributed else [],
        "time_limit": plan.time_limit,
        "limits": node.limits.spec(),
        "files": {**supervisor_files(), "boot/sitecustomize.py": source("boot")},
        "plan": describe(plan),
    }


def environment(plan: Plan, node: Node) -> dict[str, str]:
    """The environment that all ranks of a node share."""
    env = common_environment(plan, node)
    env["PYTHONPATH"] = f"{env['PYTHONPATH']}:{node.state}/runs/{plan.run}/boot"
    if plan.framework == "torch":
        env["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "1"
        if plan.restarts:
            # The store that all rounds share keeps the addresses of ranks that are gone, and new ones call them.
            env["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    return env


def rank_environment(plan: Plan, rank: int) -> dict[str, str]:
    """The variables that torchrun sets for a rank."""
    own = plan.ranks[rank]
    nodes = [node.name for node in plan.nodes]
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(own.local),
        "WORLD_SIZE": str(len(plan.ranks)),
        "LOCAL_WORLD_SIZE": str(len(plan.on(own.node))),
        "GROUP_RANK": str(nodes.index(own.node.name)),
        "GROUP_WORLD_SIZE": str(len(nodes)),
        "ROLE_RANK": str(rank),
        "ROLE_WORLD_SIZE": str(len(plan.ranks)),
        "ROLE_NAME": "default",
        "MASTER_ADDR": plan.ranks[0].node.cluster_address,
        "MASTER_PORT": str(plan.master_port),
        "TORCHELASTIC_RUN_ID": plan.run,
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
    }


def torchrun_command(plan: Plan, node: Node) -> list[str]:
    """The torchrun program on one node."""
    nodes = [other.name for other in plan.nodes]
    command = [node.python, "-m", "torch.distributed.run", f"--nnodes={len(nodes)}"]
    command += [f"--nproc-per-node={len(plan.on(node))}", f"--local-addr={node.cluster_address}"]
    command += [f"--max-restarts={plan.restarts}"]
    master = plan.ranks[0].node.cluster_address
    if plan.launcher == "static":
        command += [
            f"--node-rank={nodes.index(node.name)}",
            f"--master-addr={master}",
            f"--master-port={plan.master_port}",
        ]
    else:
        command += ["--rdzv-backend=c10d", f"--rdzv-endpoint={master}:{plan.master_port}", f"--rdzv-id={plan.run}"]
        command += [f"--rdzv-conf=join_timeout={plan.pg_timeout},is_host={int(nodes[0] == node.name)}"]
    return [*command, *plan.program.argv]
