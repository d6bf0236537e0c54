"""How a run is started under Ray: a driver on the head, whose tasks and actors the cluster's Ray starts.

The driver is a process of the run's unit, as every rank is. Nodes but the head have the run's folder, and no process of
the run's own. On inventory/local there is no cluster: the run starts a private Ray and stops it with itself.
"""

import contextlib
import json
import secrets
from collections.abc import Mapping
from typing import Any

from regatta.frameworks import raynodes, rayservice, spec
from regatta.frameworks.api import MIB, Framework, JobService, Judge, Page, StartedRun
from regatta.frameworks.plan import Plan, common_environment, layer_folder
from regatta.frameworks.rayjudge import RayJudge
from regatta.frameworks.spec import Spec
from regatta.hosts.cluster import Cluster, Node
from regatta.hosts.remote import Remote
from regatta.hosts.sources import source
from regatta.records.events import DRIVER

TOKEN_PATH = "/etc/regatta/ray_token"


class Ray(Framework):
    """Ray: a driver on the head, actors where the driver places them."""

    name = "ray"
    order = 2
    colour = "#2f7fe0"
    driver = True
    service = "Ray"
    units = rayservice.UNITS
    secret = "ray_token"
    backend = "ray"
    token = True
    fixed = ("ray",)
    rank_bytes = 500 * MIB
    driver_bytes = 400 * MIB
    start_seconds = 10.0

    def headline(self, plan: Plan) -> str:
        """See `Framework`."""
        return "Ray"

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

    def asks(self, cluster: Cluster) -> Mapping[str, Any]:
        """See `Framework`."""
        return raynodes.ASK

    def open(self, remote: Remote) -> contextlib.AbstractContextManager[JobService]:
        """See `Framework`."""
        return rayservice.opened(remote)

    def page(self, remote: Remote) -> Page:
        """See `Framework`."""
        return rayservice.dashboard(remote)

    def judge(self, handle: StartedRun, *, whole_log: bool = True) -> Judge:
        """See `Framework`."""
        return RayJudge(handle, whole_log=whole_log)


def member_spec(plan: Plan, node: Node) -> Spec:
    """`run.start` on a node where the cluster's Ray starts the run's tasks and actors: the folder alone."""
    made = _spec(plan, node)
    made["mode"] = "member"
    made["files"] = {}
    spec.start_python_by(made, plan, node, "sitecustomize_ray")
    return made


def driver_spec(plan: Plan, head: Node) -> Spec:
    """`run.start` on the head: the driver, which joins the cluster's Ray as a job with the run's variables."""
    made = _spec(plan, head)
    made["ray"] = True
    made["files"]["rayactors.py"] = source("rayactors")
    made["env"]["RAY_JOB_CONFIG_JSON_ENV_VAR"] = json.dumps(job_config(plan, head))
    spec.start_python_by(made, plan, head, "sitecustomize_ray")
    made["ranks"] = [spec.process(DRIVER, [head.python, *plan.program.argv])]
    return made


def private_spec(plan: Plan, node: Node) -> Spec:
    """`run.start` on inventory/local: a private Ray around the driver."""
    made = _spec(plan, node)
    folder = f"{node.state}/runs/{plan.run}"
    cpus = str(max(len(plan.ranks) * plan.threads, 1))
    made["files"]["private_ray.py"] = source("private_ray")
    made["temporary"] = f"/tmp/rg-{secrets.token_hex(8)}"
    spec.start_python_by(made, plan, node, "sitecustomize_ray")
    wrapper = [node.python, f"{folder}/private_ray.py", cpus, made["temporary"]]
    made["ranks"] = [spec.process(DRIVER, [*wrapper, node.python, *plan.program.argv])]
    return made


def _spec(plan: Plan, node: Node) -> Spec:
    return {**spec.common(plan, node), "env": environment(plan, node)}


def environment(plan: Plan, node: Node) -> dict[str, str]:
    """The driver's and the actors' environment."""
    env = common_environment(plan, node) | {"RAY_DEDUP_LOGS": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    env["RAY_CHDIR_TO_TRIAL_DIR"] = "0"  # Train's and Tune's workers stay in the run's working directory
    return env if node.local else env | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": TOKEN_PATH}


def job_config(plan: Plan, head: Node) -> dict[str, Any]:
    """What Ray's job API hands to a driver: variables that tasks and actors inherit, metadata. Nothing is uploaded."""
    env = environment(plan, head) | {"REGATTA_SCRATCH": f"{head.state}/runs/{plan.run}/scratch"}
    env["PYTHONPATH"] += f":{spec.boot_folder(plan, head)}"
    env.pop("PATH")
    if layer := layer_folder(plan, head):
        env["PATH"] = f"{layer}/bin:${{PATH}}"  # Ray puts its own in there, on each node
    about = {"regatta_run": plan.run, "regatta_release": plan.release, "regatta_label": plan.program.label}
    return {"runtime_env": {"env_vars": env}, "metadata": about}


FRAMEWORK = Ray()
