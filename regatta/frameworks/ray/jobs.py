"""Ray's REST API at the head's dashboard port: jobs, nodes, actors, tasks."""

import contextlib
import json
import socket
import urllib.parse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regatta.errors import LaunchError, RunError
from regatta.program import about_hosts, hint

if TYPE_CHECKING:
    from http.client import HTTPConnection

DASHBOARD_PORT = 8265
TIMEOUT = 15.0
HTTP_ERRORS = 400


@dataclass(frozen=True)
class RayNode:
    """A node as Ray lists it: its address, and the id of its raylet, another after each start."""

    address: str
    id: str


class JobApi:
    """Ray's REST API at the end of a tunnel here: a Unix socket or a port."""

    def __init__(self, at: Path | int, token: str, cluster: str) -> None:
        self._at = at
        self._token = token
        self._cluster = cluster

    def jobs(self, run: str) -> list[str]:
        """Ids of the jobs of a run: one for each time that its driver has joined Ray."""
        listed = self._get("/api/jobs/")
        return [str(job["job_id"]) for job in listed if (job.get("metadata") or {}).get("regatta_run") == run]

    def nodes(self) -> list[RayNode]:
        """The nodes that Ray lists as alive."""
        answer = self._get("/api/v0/nodes?limit=10000")
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
        answer = self._get(f"/api/v0/{what}?{urllib.parse.urlencode(words)}")
        return list(answer["data"]["result"]["result"])

    def version(self) -> dict[str, Any]:
        """Ray's version, as proof that the API answers with this token."""
        return dict(self._get("/api/version"))

    def charts(self) -> str:
        """Whether Ray's dashboard shows charts, in words for a person; empty where it does."""
        try:
            found = self._get("/api/grafana_health")["data"].get("grafanaHost")
        except RunError:
            return "its charts need Grafana, which does not answer the head at ray_grafana_url"
        off = "it has no charts: grafana_package_source gives the head a Grafana, ray_grafana_url names your own"
        return off if found == "DISABLED" else ""

    def _get(self, path: str, *, again: bool = True) -> Any:
        import http.client  # the adapter is also loaded for what it declares: without this that is over sooner

        headers = {"Authorization": f"Bearer {self._token}"}
        try:
            with contextlib.closing(self._connection()) as connection:
                connection.request("GET", path, headers=headers)
                answer = connection.getresponse()
                text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            if again and isinstance(error, ConnectionError | http.client.HTTPException):
                return self._get(path, again=False)  # a busy one closes a connection now and then
            raise LaunchError(
                f"{self._cluster}: Ray's API does not answer ({error}): run '{hint('up')}', or "
                f"'{about_hosts('provision')}' if you have joined the cluster and not provisioned yet"
            ) from None
        if answer.status in (401, 403):
            raise LaunchError(
                f"{self._cluster}: Ray refuses our token: inventory/{self._cluster}/secrets/ray_token is not "
                f"the cluster's: '{hint('pull')}' brings it"
            )
        if answer.status >= HTTP_ERRORS:
            said = text.decode("utf-8", "replace").strip().splitlines()
            raise RunError(
                f"{self._cluster}: Ray's API refuses: see '{hint('status')}' "
                f"({answer.status} {said[-1] if said else answer.reason})"
            )
        return json.loads(text)

    def _connection(self) -> "HTTPConnection":
        import http.client

        if isinstance(self._at, int):
            return http.client.HTTPConnection("127.0.0.1", self._at, timeout=TIMEOUT)
        made = http.client.HTTPConnection("localhost", timeout=TIMEOUT)
        made.sock = socket.socket(socket.AF_UNIX)
        made.sock.settimeout(TIMEOUT)
        try:
            made.sock.connect(str(self._at))
        except OSError:
            made.close()
            raise
        return made
