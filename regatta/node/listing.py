"""The runs that a node knows of."""

from __future__ import annotations

import os
import time
from typing import Any, Dict

from regatta.node import believed, rights, rundirs

Place = Dict[str, Any]
Answer = Dict[str, Any]

BEGINNING_SECONDS = 60.0
"""A run's folder is there before `spec.json` is."""


def answer(place: Place) -> Answer:
    """{"runs": what :func:`runs` says}."""
    return {"runs": runs(place)}


def runs(place: Place) -> list[Answer]:
    """All runs of this node, oldest first; `age` and `idle`: seconds since it started and ended (None: it has not).

    Also those that have made their own `spec.json` unreadable: they are to be deleted some day, too.
    """
    return list(_runs(place)) if rundirs.names(place) else []


@rights.of_run()
def _runs(place: Place) -> list[Answer]:
    found = [item for run in rundirs.names(place) if (item := _run(place, run))]
    return sorted(found, key=lambda item: item["started"])


def _run(place: Place, run: str) -> Answer | None:
    now = time.time()
    spec = rundirs.spec(place, run) or believed.spec({})
    started = spec["started"]
    if started is None:
        started = os.lstat(rundirs.path(place, run)).st_mtime
        if now - started < BEGINNING_SECONDS and not rundirs.unit_started(run):
            return None
    ended = rundirs.ended(place, run) or {}
    return {
        "id": run,
        "state": rundirs.state(place, run),
        "started": started,
        "ended": ended.get("ended"),
        "age": now - started,
        "idle": now - ended["ended"] if ended.get("ended") else None,
        "code": ended.get("code"),
        "recorded": os.path.lexists(rundirs.path(place, run, "recorded.json")),
        "by": believed.controller(spec),
        "spec": {key: spec.get(key) for key in ("framework", "mode", "release", "plan")},
    }
