"""Requests of runs that the cluster's Ray does not meet: tasks and actors that wait for a node. Used on the head."""

from __future__ import annotations

import urllib.parse
from typing import TYPE_CHECKING, Any, Dict, List

from regatta.frameworks.ray.node import actors
from regatta.node import rights

if TYPE_CHECKING:
    from regatta_protocol.place import Place

SECONDS, MOST = 1.6, 200
WAITING = (("tasks", "PENDING_NODE_ASSIGNMENT"), ("actors", "PENDING_CREATION"))


@rights.shared(seconds=SECONDS)
def unmet(place: Place) -> List[Dict[str, Any]]:
    """Return tasks and actors that wait for a node: {"run", "name", "needs": resources, "lacking": those that no node
    has in total}. Nothing where Ray does not answer.
    """
    try:
        found = [one for what, state in WAITING for one in _state(what, {"state": state})]
        totals = [node.get("resources_total") or {} for node in _state("nodes", {"state": "ALIVE"})]
        runs = {job: _run(job) for job in {one["job_id"] for one in found}}
        return [_told(one, runs[one["job_id"]], totals) for one in found]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []


def _state(what: str, filters: Dict[str, str]) -> List[Dict[str, Any]]:
    words = [("limit", str(MOST)), ("detail", "1")]
    for name, value in filters.items():
        words += [("filter_keys", name), ("filter_predicates", "="), ("filter_values", value)]
    return list(actors.ask(f"/api/v0/{what}?{urllib.parse.urlencode(words)}")["data"]["result"]["result"])


def _run(job: str) -> str:
    return str((actors.ask(f"/api/jobs/{job}").get("metadata") or {}).get(actors.RUN, ""))


def _told(one: Dict[str, Any], run: str, totals: List[Dict[str, float]]) -> Dict[str, Any]:
    needs = {str(name): float(amount) for name, amount in (one.get("required_resources") or {}).items() if amount}
    lacking = sorted(name for name, amount in needs.items() if all(has.get(name, 0.0) < amount for has in totals))
    return {"run": run, "name": str(one.get("name") or one.get("class_name")), "needs": needs, "lacking": lacking}
