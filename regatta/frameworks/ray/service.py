"""Ray on a cluster as what takes runs."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from regatta.errors import RemoteError
from regatta.frameworks.api import JobService, Page
from regatta.frameworks.ray import nodes as members
from regatta.frameworks.ray.state import RayNode, RayState
from regatta.hosts.cluster import Node
from regatta.hosts.remote import Remote
from regatta_protocol.operations.services import CallFramework

DASHBOARD_PORT = 8265
STALL_SECONDS, MOST_STALLS = 1.8, 5
UNITS = ("regatta-ray-head.service", "regatta-ray-worker.service")


class RayService(JobService):
    """The Ray of a cluster. A driver joins it by itself, and Ray ends what a driver has started when that ends."""

    def __init__(self, remote: Remote) -> None:
        self.state = RayState(remote)
        self._remote = remote

    def look(self) -> list[RayNode]:
        """See `JobService`."""
        return self.state.nodes()

    def wait(
        self, nodes: Sequence[Node], seen: Any, answers: Mapping[str, Mapping[str, Any]], say: Callable[[str], None]
    ) -> None:
        """See `JobService`."""
        members.wait(self._remote, self.state, nodes, listed=seen, own=_own(answers), say=say)

    def members(self, nodes: Sequence[Node], answers: Mapping[str, Mapping[str, Any]]) -> list[str]:
        """See `JobService`."""
        return members.present(self.state.nodes(), nodes, _own(answers))


def _own(answers: Mapping[str, Mapping[str, Any]]) -> dict[str, str | None]:
    """Each node's id in Ray, as it has said."""
    return {name: answer["ray_node"] for name, answer in answers.items()}


@contextlib.contextmanager
def opened(remote: Remote) -> Iterator[JobService]:
    """The Ray of the cluster, as what takes runs."""
    yield RayService(remote)


def dashboard(remote: Remote) -> Page:
    """Ray's own page, which asks for the token."""
    secret = remote.cluster.folder / "secrets" / "ray_token"

    def check(port: int) -> str:
        charts = RayState(remote).charts()
        return f"  (it asks for the token in {secret}{f'; {charts}' if charts else ''})"

    return Page("Ray dashboard", DASHBOARD_PORT, check)


def stalls(remote: Remote, run: str) -> list[str]:
    """Return in sentences for which resources tasks and actors of a run wait. Nothing where Ray does not answer."""
    try:
        told = remote.call(remote.cluster.head, CallFramework("ray.demands.unmet"), timeout=STALL_SECONDS)
        waiting = [one for one in told if one["run"] == run and one["needs"]]
    except (RemoteError, KeyError, TypeError):
        return []
    never = [one for one in waiting if one["lacking"]]
    said = []
    for one in (never or waiting)[:MOST_STALLS]:
        needs = ", ".join(f"{amount:g} {name}" for name, amount in one["needs"].items())
        why = f"no node has so much {' and '.join(one['lacking'])}" if one["lacking"] else "all of it is in use"
        said.append(f"Ray waits for {needs} to start {one['name']}: {why}")
    return list(dict.fromkeys(said))
