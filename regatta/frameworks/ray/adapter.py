"""Starts runs under Ray: a driver on the head, whose tasks and actors the cluster's Ray starts.

The driver is a process of the run's unit, as every rank is. Nodes but the head have the run's folder, and no process of
the run's own. On inventory/local there is no cluster: the run starts a private Ray and stops it with itself.
"""

import contextlib
import json
import secrets
from collections.abc import Mapping
from typing import Any

from regatta.frameworks import spec
from regatta.frameworks.api import MIB, Framework, JobService, Judge, Page, StartedRun
from regatta.frameworks.plan import Plan, Program, common_environment, layer_folder
from regatta.frameworks.ray import nodes
from regatta.frameworks.ray import service as of_cluster
from regatta.frameworks.ray.judge import RayJudge
from regatta.frameworks.torch import cuda
from regatta.hosts.cluster import Cluster, Node
from regatta.hosts.remote import Remote
from regatta.hosts.sources import source
from regatta_protocol.events import ASIDE
from regatta_protocol.log import DRIVER
from regatta_protocol.run import Expected, Spec
from regatta_protocol.states import Mode

TOKEN_PATH = "/etc/regatta/ray_token"
SERVICE = "ray"
NODE, RUN = "regatta.frameworks.ray.node", "regatta.frameworks.ray.run"
"""The code that answers requests on a node, and that goes with a run."""
MARK = ".ray"
"""The file that a driver makes once it has joined the cluster's Ray (`run/raycluster.py`)."""
ALONE = (
    "its driver never joined the cluster's Ray, and all work was done on {head}: the script starts a Ray of its own, "
    'as ray.init(address="local") does, or calls no ray.init(); leave the address to Regatta'
)


class Ray(Framework):
    """Ray: a driver on the head, actors where the driver places them."""

    name = "ray"
    command = "rayrun"
    title = "Ray"
    driver = True
    service = "Ray"
    units = of_cluster.UNITS
    backend = "ray"
    gpu_backend = "nccl"
    token = True
    packages = fixed = ("ray",)
    sets = "RAY_(AUTH|JOB)_.*|RAY_ADDRESS"
    rank_bytes = 500 * MIB
    driver_bytes = 400 * MIB
    start_seconds = 10.0

    def without_gpus(self, program: Program, packages: Mapping[str, str]) -> str | None:
        """See `Framework`."""
        return cuda.without_in_workload(program, packages)

    def nodes(self, plan: Plan, cluster: Cluster) -> tuple[Node, ...]:
        """Those with ranks, and the head, where the driver runs; Ray puts a script's tasks on all workers."""
        more = cluster.workers if plan.program.any_node else ()
        return tuple({node.name: node for node in (cluster.head, *plan.nodes, *more)}.values())

    def specs(self, plan: Plan, cluster: Cluster) -> dict[str, Spec]:
        """See `Framework`."""
        if not self.served(cluster):
            return {node.name: private_spec(plan, node) for node in self.nodes(plan, cluster)}
        head = cluster.head.name
        return {
            node.name: driver_spec(plan, node) if node.name == head else member_spec(plan, node)
            for node in self.nodes(plan, cluster)
        }

    def served(self, cluster: Cluster) -> bool:
        """See `Framework`."""
        return not cluster.local

    def asks(self, cluster: Cluster) -> Mapping[str, str]:
        """See `Framework`."""
        return nodes.ASKS

    def open(self, remote: Remote) -> contextlib.AbstractContextManager[JobService]:
        """See `Framework`."""
        return of_cluster.opened(remote)

    def pages(self, remote: Remote) -> tuple[Page, ...]:
        """See `Framework`."""
        return (of_cluster.dashboard(remote),)

    def stalls(self, remote: Remote, run: str) -> list[str]:
        """See `Framework`."""
        return of_cluster.stalls(remote, run) if self.served(remote.cluster) else []

    def judge(self, handle: StartedRun, *, whole_log: bool = True) -> Judge:
        """See `Framework`."""
        return RayJudge(handle, whole_log=whole_log)


def member_spec(plan: Plan, node: Node) -> Spec:
    """`run.start` on a node where the cluster's Ray starts the run's tasks and actors: only the folder."""
    made = _spec(plan, node).changed(mode=Mode.MEMBER, service=SERVICE, files={})
    return _python(made, plan, node)


def driver_spec(plan: Plan, head: Node) -> Spec:
    """`run.start` on the head: the driver, which joins the cluster's Ray as a job with the run's variables."""
    driver = spec.process(DRIVER, [head.python, *plan.program.argv])
    made = _spec(plan, head).changed(service=SERVICE, ranks=(driver,))
    made = spec.files(made, {"joined.py": source("actors", NODE)})
    made = spec.variables(made, RAY_JOB_CONFIG_JSON_ENV_VAR=json.dumps(job_config(plan, head)))
    return _python(_joins(made, head), plan, head)


def private_spec(plan: Plan, node: Node) -> Spec:
    """`run.start` on inventory/local: a private Ray around the driver."""
    folder, temporary = f"{node.state}/runs/{plan.run}", f"/tmp/rg-{secrets.token_hex(8)}"
    cpus = str(max(len(plan.ranks) * plan.threads, 1))
    wrapper = [node.python, f"{folder}/private_ray.py", cpus, temporary]
    driver = spec.process(DRIVER, [*wrapper, node.python, *plan.program.argv])
    made = _spec(plan, node).changed(temporary=temporary, ranks=(driver,))
    made = spec.files(made, {"private_ray.py": source("private_ray", RUN)})
    made = made.changed(env={**spec.sees(plan, node), **made.env})  # Ray counts the cards that it sees
    return _python(_joins(made, node), plan, node)


def _python(made: Spec, plan: Plan, node: Node) -> Spec:
    """The run in which each Python begins as Ray's do here."""
    made = spec.python_begins_with(made, plan, node, source("sitecustomize", RUN))
    return spec.beside_python(made, RUN, "raystorage", "raycluster")


def _joins(made: Spec, node: Node) -> Spec:
    """The run of a driver, which is to join the Ray that Regatta has started."""
    return made.changed(expected=(Expected(MARK, ASIDE + ALONE.format(head=node.name)),))


def _spec(plan: Plan, node: Node) -> Spec:
    return spec.common(plan, node).changed(env=environment(plan, node))


def environment(plan: Plan, node: Node) -> dict[str, str]:
    """The driver's and the actors' environment."""
    env = common_environment(plan, node) | {"RAY_DEDUP_LOGS": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    env["RAY_OVERRIDE_JOB_RUNTIME_ENV"] = "1"  # what a script gives ray.init comes before the run's, and keeps the rest
    env["RAY_CHDIR_TO_TRIAL_DIR"] = "0"  # Train's and Tune's workers stay in the run's working directory
    if plan.cards:
        env["REGATTA_RANK_GPUS"] = str(max(cards.each if cards.visible else 0 for cards in plan.cards.values()))
    return env if node.local else env | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": TOKEN_PATH}


def job_config(plan: Plan, head: Node) -> dict[str, Any]:
    """Return what Ray's job API hands to a driver: variables that tasks and actors inherit, metadata. Nothing is
    uploaded.
    """
    env = environment(plan, head) | {"REGATTA_SCRATCH": f"{head.state}/runs/{plan.run}/scratch"}
    env["PYTHONPATH"] += f":{spec.boot_folder(plan, head)}"
    env.pop("PATH")
    if layer := layer_folder(plan, head):
        env["PATH"] = f"{layer}/bin:${{PATH}}"  # Ray puts its own in there, on each node
    about = {"regatta_run": plan.run, "regatta_release": plan.release, "regatta_label": plan.program.label}
    return {"runtime_env": {"env_vars": env}, "metadata": about}


FRAMEWORK = Ray()
