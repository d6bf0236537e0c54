"""How a run is started under Ray: a job through the REST API of the head's dashboard port, reached by a tunnel.

The job's entry point is the run's supervisor, so log, exit code and descendants are kept as for every run. On
inventory/local there is no cluster: the run starts a private Ray and stops it with itself.
"""

import http.client
import json
import secrets
import shlex
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from typing import Any

from regatta.errors import LaunchError, RunError
from regatta.frameworks.plan import Plan, common_environment, describe
from regatta.hosts.cluster import Node
from regatta.hosts.remote import source, supervisor_files

DASHBOARD_PORT = 8265
GCS_PORT = 6379
TOKEN_PATH = "/etc/regatta/ray_token"
DRIVER = -1
ENDED = {"SUCCEEDED", "FAILED", "STOPPED"}


def member_spec(plan: Plan, node: Node, head: Node) -> dict[str, Any]:
    """`run.start` on a node of a Ray run: the folder everywhere, the job's supervisor and driver on the head."""
    is_head = node.name == head.name
    driver = {"rank": DRIVER, "argv": [node.python, *plan.program.argv], "env": {}}
    return {
        "id": plan.run,
        "mode": "member",
        "framework": "ray",
        "release": plan.release,
        "cwd": f"{node.state}/runs/{plan.run}/work",
        "env": environment(plan, node),
        "ranks": [driver] if is_head else [],
        "echo": True,
        "time_limit": plan.time_limit,
        "limits": node.limits.spec(),
        "files": supervisor_files() if is_head else {},
        "plan": describe(plan),
    }


def private_spec(plan: Plan, node: Node) -> dict[str, Any]:
    """`run.start` on inventory/local: a private Ray around the driver."""
    spec = member_spec(plan, node, node)
    folder = f"{node.state}/runs/{plan.run}"
    cpus = str(max(len(plan.ranks) * plan.threads, 1))
    spec["mode"] = "session"
    spec["echo"] = False
    spec["files"] = {**supervisor_files(), "private_ray.py": source("private_ray")}
    spec["temporary"] = f"/tmp/rg-{secrets.token_hex(8)}"
    wrapper = [node.python, f"{folder}/private_ray.py", cpus, spec["temporary"]]
    spec["ranks"][0]["argv"] = [*wrapper, node.python, *plan.program.argv]
    return spec


def environment(plan: Plan, node: Node) -> dict[str, str]:
    """The driver's and the actors' environment."""
    env = common_environment(plan, node) | {"RAY_DEDUP_LOGS": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    return env if node.local else env | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": TOKEN_PATH}


def submission(plan: Plan, head: Node) -> dict[str, Any]:
    """The body of `POST /api/jobs/`. Actors inherit the variables; nothing is uploaded."""
    folder = f"{head.state}/runs/{plan.run}"
    env = environment(plan, head) | {"REGATTA_SCRATCH": f"{folder}/scratch"}
    env.pop("PATH")
    return {
        "entrypoint": shlex.join(["exec", "/usr/bin/python3", f"{folder}/supervisor.py", folder]),
        "submission_id": plan.run,
        "runtime_env": {"env_vars": env},
        "metadata": {"regatta_release": plan.release, "regatta_label": plan.program.label},
        "entrypoint_num_cpus": 0,
    }


@dataclass(frozen=True)
class RayNode:
    """A node as Ray lists it: its address, and the id of its raylet, another after each start."""

    address: str
    id: str


class JobApi:
    """Ray's job REST API at a local port (the end of a tunnel)."""

    def __init__(self, port: int, token: str, cluster: str) -> None:
        self._base = f"http://127.0.0.1:{port}"
        self._token = token
        self._cluster = cluster

    def submit(self, body: dict[str, Any]) -> None:
        """Start a job. Raises LaunchError with Ray's words."""
        self._request("POST", "/api/jobs/", body)

    def job(self, run: str) -> dict[str, Any]:
        """A job's status, message and exit code as Ray reports them."""
        return self._request("GET", f"/api/jobs/{run}")

    def stop(self, run: str) -> None:
        """Ask Ray to stop a job; it is stopped when `job` says so."""
        self._request("POST", f"/api/jobs/{run}/stop")

    def nodes(self) -> list[RayNode]:
        """The nodes that Ray lists as alive."""
        answer = self._request("GET", "/api/v0/nodes?limit=10000")
        rows = answer["data"]["result"]["result"]
        return [RayNode(str(row["node_ip"]), str(row["node_id"])) for row in rows if row["state"] == "ALIVE"]

    def actors(self, job: str) -> list[dict[str, Any]]:
        """The actors of a job, as Ray's state API tells of them."""
        return self._state("actors", {"job_id": job, "state": "DEAD"})

    def failed_tasks(self, job: str) -> list[dict[str, Any]]:
        """The tasks of a job that have failed, as Ray's state API tells of them."""
        return self._state("tasks", {"job_id": job, "state": "FAILED"})

    def _state(self, what: str, filters: dict[str, str]) -> list[dict[str, Any]]:
        words = [("limit", "1000"), ("detail", "1")]
        for name, value in filters.items():
            words += [("filter_keys", name), ("filter_predicates", "="), ("filter_values", value)]
        answer = self._request("GET", f"/api/v0/{what}?{urllib.parse.urlencode(words)}")
        return list(answer["data"]["result"]["result"])

    def version(self) -> dict[str, Any]:
        """Ray's version, as proof that the API answers with this token."""
        return self._request("GET", "/api/version")

    def _request(
        self, method: str, path: str, body: dict[str, Any] | None = None, *, again: bool = True
    ) -> dict[str, Any]:
        request = urllib.request.Request(
            self._base + path,
            method=method,
            data=json.dumps(body).encode() if body is not None else None,
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"},
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=15) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            said = error.read().decode("utf-8", "replace").strip().splitlines()
            if error.code in (401, 403):
                raise LaunchError(
                    f"{self._cluster}: Ray refuses our token: inventory/{self._cluster}/secrets/ray_token is not "
                    "the cluster's; run 'make provision' or copy the cluster's inventory folder"
                ) from None
            raise RunError(
                f"{self._cluster}: Ray's job API: {error.code} {said[-1] if said else error.reason}"
            ) from None
        except (OSError, http.client.HTTPException) as error:
            if method == "GET" and again and isinstance(error, ConnectionError | http.client.HTTPException):
                return self._request(method, path, again=False)  # a busy one closes a connection now and then
            raise LaunchError(f"{self._cluster}: Ray's job API does not answer ({error}): run 'fab up'") from None
        return dict(json.loads(text)) if text else {}
