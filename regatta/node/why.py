"""Answers where a run stands on this node, as the account of runs, in a bounded time; what the host does meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regatta.node import calls, rights, rundirs, sample, standing
from regatta.node.problem import Problem
from regatta_protocol.standing import Stood

if TYPE_CHECKING:
    from regatta_protocol.place import Place

SECONDS = 8.0


def of_run(place: Place, run: str) -> Stood:
    """Return where the processes of a run stand. Problem where this node has no such run."""
    if not rundirs.there(place, run):
        raise Problem(f"no run '{run}' on this node: it was deleted, or never was here")
    return _looked(place, run)


@rights.of_run(seconds=SECONDS, gives=Stood)
def _looked(place: Place, run: str) -> Stood:
    before, program = sample.counters(), calls.program(place["python"], anywhere=not place.get("user"))
    stood = standing.look(run, rundirs.path(place, run), program)
    return stood.changed(before=before, after=sample.counters())
