"""Answers where a run stands on this node, as the account of runs, in a bounded time; what the host does meanwhile."""

from __future__ import annotations

import os
import shutil
from typing import Any, Dict

from regatta.node import calls, rights, rundirs, sample, standing
from regatta.node.problem import Problem
from regatta_protocol.standing import Stood

Place = Dict[str, Any]
SECONDS = 2.0


def of_run(place: Place, run: str) -> Stood:
    """Return where the processes of a run stand. Problem where this node has no such run."""
    if not rundirs.there(place, run):
        raise Problem(f"no run '{run}' on this node")
    return _looked(place, run)


@rights.of_run(seconds=SECONDS, gives=Stood)
def _looked(place: Place, run: str) -> Stood:
    before = sample.counters()
    stood = standing.look(run, rundirs.path(place, run), program(place["python"]))
    return stood.changed(before=before, after=sample.counters())


def program(python: str) -> str:
    """The path of py-spy: next to the Python of runs; for a person's own Python wherever they have it."""
    beside = os.path.join(os.path.dirname(python), calls.PROGRAM)
    return beside if os.geteuid() == 0 or os.access(beside, os.X_OK) else shutil.which(calls.PROGRAM) or beside
