"""Ray's job REST API, and its state API, at the head's dashboard port."""

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from typing import Any

from regatta.errors import LaunchError, RunError

DASHBOARD_PORT = 8265
ENDED = {"SUCCEEDED", "FAILED", "STOPPED"}


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
