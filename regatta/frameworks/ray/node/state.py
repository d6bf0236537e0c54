"""What Ray's API tells of nodes, and of runs. Used on the head, as the account that may read Ray's token."""

from __future__ import annotations

import http.client
import urllib.error
from typing import TYPE_CHECKING, Any, Dict, List, Tuple

from regatta.frameworks.ray.node import actors
from regatta.node import frameworks, rights
from regatta.node.problem import Problem

if TYPE_CHECKING:
    from regatta_protocol.place import Place

SECONDS = 12.0
MOST_NODES, MOST = 10000, 1000


@frameworks.for_members
@rights.shared(seconds=2 * SECONDS)
def nodes(place: Place) -> List[Tuple[str, str]]:
    """Addresses of the nodes that Ray lists as alive, and the ids of their raylets."""
    listed = rows("nodes", MOST_NODES)
    return [(str(one["node_ip"]), str(one["node_id"])) for one in listed if one["state"] == "ALIVE"]


@frameworks.for_members
@rights.shared(seconds=2 * SECONDS)
def dead(place: Place, run: str) -> Tuple[List[Any], List[Any]]:
    """The actors of a run that have died, and its tasks that have failed."""
    jobs = [one["job_id"] for one in asked("/api/jobs/") if (one.get("metadata") or {}).get(actors.RUN) == run]
    died = [one for job in jobs for one in rows("actors", MOST, job_id=job, state="DEAD")]
    return died, [one for job in jobs for one in rows("tasks", MOST, job_id=job, state="FAILED")]


@rights.shared(seconds=2 * SECONDS)
def grafana(place: Place) -> str | None:
    """The Grafana of Ray's dashboard; `DISABLED`: it has none; None: it does not answer."""
    try:
        return str(actors.ask("/api/grafana_health")["data"].get("grafanaHost"))
    except urllib.error.HTTPError as error:
        error.close()
        return None
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise _silent(error) from None


def rows(what: str, most: int, **filters: str) -> List[Dict[str, Any]]:
    """What Ray's state API lists where these have these values. Problem where it does not answer."""
    return list(asked(actors.listing(what, most, **filters))["data"]["result"]["result"])


def asked(path: str) -> Any:
    """Return what Ray's API says. Problem where it does not answer, or refuses."""
    try:
        try:
            return actors.ask(path, SECONDS)
        except (ConnectionError, http.client.HTTPException):  # a busy one closes a connection now and then
            return actors.ask(path, SECONDS)
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise _silent(error) from None


def _silent(error: Exception) -> Problem:
    if isinstance(error, urllib.error.HTTPError):
        return Problem(f"Ray's API refuses ({error}): see 'regatta status'")
    return Problem(f"Ray's API does not answer ({error}): run 'regatta up'")
