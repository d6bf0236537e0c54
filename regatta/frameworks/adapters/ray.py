"""How a run is started under Ray: a job of the cluster's Ray, whose entry point is the run's supervisor.

So log, exit code and descendants are kept as for every run. On inventory/local there is no cluster: the run starts a
private Ray and stops it with itself.
"""

import contextlib
import secrets
import shlex
from collections.abc import Mapping
from typing import Any

from regatta.frameworks import raynodes, rayservice, spec
from regatta.frameworks.api import MIB, Framework, Handle, JobService, Judge, Page
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
        more = cluster.workers if plan.program.roams else ()
        return tuple({node.name: node for node in (cluster.head, *plan.nodes, *more)}.values())

    def specs(self, plan: Plan, cluster: Cluster) -> dict[str, Spec]:
        """See `Framework`."""
        made = member_spec if self.served(cluster) else private_spec
        return {node.name: made(plan, node, cluster.head) for node in self.nodes(plan, cluster)}

    def served(self, cluster: Cluster) -> bool:
        """See `Framework`."""
        return not cluster.local

    def asks(self, cluster: Cluster) -> Mapping[str, Any]:
        """See `Framework`."""
        return raynodes.ASK

    def open(self, remote: Remote) -> contextlib.AbstractContextManager[JobService]:
        """See `Framework`."""
        return rayservice.opened(remote, submission)

    def page(self, remote: Remote) -> Page:
        """See `Framework`."""
        return rayservice.dashboard(remote)

    def judge(self, handle: Handle, *, whole_log: bool = True) -> Judge:
        """See `Framework`."""
        return RayJudge(handle, whole_log=whole_log)


def member_spec(plan: Plan, node: Node, head: Node) -> Spec:
    """`run.start` on a node of a Ray run: the folder everywhere, the job's supervisor and driver on the head."""
    is_head = node.name == head.name
    made = spec.common(plan, node)
    made["mode"] = "member"
    made["env"] = environment(plan, node)
    made["ranks"] = [spec.process(DRIVER, [node.python, *plan.program.argv])] if is_head else []
    made["echo"] = True
    made["files"] = made["files"] if is_head else {}
    spec.start_python_by(made, plan, node, "rayboot")
    return made


def private_spec(plan: Plan, node: Node, head: Node) -> Spec:
    """`run.start` on inventory/local: a private Ray around the driver."""
    made = member_spec(plan, node, head)
    folder = f"{node.state}/runs/{plan.run}"
    cpus = str(max(len(plan.ranks) * plan.threads, 1))
    made["mode"] = "session"
    made["echo"] = False
    made["files"]["private_ray.py"] = source("private_ray")
    made["temporary"] = f"/tmp/rg-{secrets.token_hex(8)}"
    wrapper = [node.python, f"{folder}/private_ray.py", cpus, made["temporary"]]
    made["ranks"][0]["argv"] = [*wrapper, node.python, *plan.program.argv]
    return made


def environment(plan: Plan, node: Node) -> dict[str, str]:
    """The driver's and the actors' environment."""
    env = common_environment(plan, node) | {"RAY_DEDUP_LOGS": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    env["RAY_CHDIR_TO_TRIAL_DIR"] = "0"  # Train's and Tune's workers stay in the run's working directory
    return env if node.local else env | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": TOKEN_PATH}


def submission(plan: Plan, head: Node) -> dict[str, Any]:
    """The body of `POST /api/jobs/`. Actors inherit the variables; nothing is uploaded."""
    folder = f"{head.state}/runs/{plan.run}"
    env = environment(plan, head) | {"REGATTA_SCRATCH": f"{folder}/scratch"}
    env["PYTHONPATH"] += f":{spec.boot_folder(plan, head)}"
    env.pop("PATH")
    if layer := layer_folder(plan, head):
        env["PATH"] = f"{layer}/bin:${{PATH}}"  # Ray puts its own in there, on each node
    return {
        "entrypoint": shlex.join(["exec", "/usr/bin/python3", f"{folder}/supervisor.py", folder]),
        "submission_id": plan.run,
        "runtime_env": {"env_vars": env},
        "metadata": {"regatta_release": plan.release, "regatta_label": plan.program.label},
        "entrypoint_num_cpus": 0,
    }


FRAMEWORK = Ray()
