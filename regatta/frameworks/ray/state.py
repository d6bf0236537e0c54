"""What a cluster's Ray tells of itself and of runs: asked on the head, which has Ray's token."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regatta.hosts.remote import Remote
from regatta_protocol.operations.services import CallFramework

TIMEOUT = 30.0


@dataclass(frozen=True)
class RayNode:
    """A node as Ray lists it: its address, and the id of its raylet, another after each start."""

    address: str
    id: str


class RayState:
    """Ray's API of state. All raise RemoteError where it does not answer."""

    def __init__(self, remote: Remote) -> None:
        self._remote = remote

    def nodes(self) -> list[RayNode]:
        """The nodes that Ray lists as alive."""
        return [RayNode(address, own) for address, own in self._told("nodes")]

    def dead(self, run: str) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
        """The actors of a run that have died, and its tasks that have failed, as Ray's state API tells of them."""
        actors, tasks = self._told("dead", run)
        return actors, tasks

    def charts(self) -> str:
        """Whether Ray's dashboard shows charts, in words for a person; empty where it does."""
        found = self._told("grafana")
        if found is None:
            return "its charts need Grafana, which does not answer the head at ray_grafana_url"
        off = "it has no charts: grafana_package_source gives the head a Grafana, ray_grafana_url names your own"
        return off if found == "DISABLED" else ""

    def _told(self, what: str, *words: str) -> Any:
        return self._remote.call(self._remote.cluster.head, CallFramework(f"ray.state.{what}", words), timeout=TIMEOUT)
