"""Requests of runs that the cluster's Ray does not meet: tasks and actors that wait for a node. Used on the head."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List

from regatta.frameworks.ray.node import actors, state
from regatta.node import frameworks, rights
from regatta.node.problem import Problem

if TYPE_CHECKING:
    from regatta_protocol.place import Place

SECONDS, MOST = 1.6, 200
WAITING = (("tasks", "PENDING_NODE_ASSIGNMENT"), ("actors", "PENDING_CREATION"))


@frameworks.for_members
@rights.shared(seconds=SECONDS)
def unmet(place: Place) -> List[Dict[str, Any]]:
    """Return tasks and actors that wait for a node: {"run", "name", "needs": resources, "lacking": those that no node
    has in total}. Nothing where Ray does not answer.
    """
    try:
        found = [one for what, there in WAITING for one in state.rows(what, MOST, state=there)]
        totals = [node.get("resources_total") or {} for node in state.rows("nodes", MOST, state="ALIVE")]
        runs = {job: _run(job) for job in {one["job_id"] for one in found}}
        return [_told(one, runs[one["job_id"]], totals) for one in found]
    except (Problem, OSError, ValueError, KeyError, TypeError, AttributeError):
        return []


def _run(job: str) -> str:
    return str((actors.ask(f"/api/jobs/{job}").get("metadata") or {}).get(actors.RUN, ""))


def _told(one: Dict[str, Any], run: str, totals: List[Dict[str, float]]) -> Dict[str, Any]:
    needs = {str(name): float(amount) for name, amount in (one.get("required_resources") or {}).items() if amount}
    lacking = sorted(name for name, amount in needs.items() if all(has.get(name, 0.0) < amount for has in totals))
    return {"run": run, "name": str(one.get("name") or one.get("class_name")), "needs": needs, "lacking": lacking}
