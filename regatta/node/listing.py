"""The runs that a node knows of."""

from __future__ import annotations

import os
import time
from typing import Any, Dict

from regatta.node import notes, rights, rundirs, untrusted

Place = Dict[str, Any]
Answer = Dict[str, Any]

BEGINNING_SECONDS = 60.0
"""A run's folder is there before `spec.json` is."""


def answer(place: Place) -> Answer:
    """{"runs": what :func:`runs` says}."""
    return {"runs": runs(place)}


def runs(place: Place) -> list[Answer]:
    """All runs of this node, oldest first; `age` and `idle`: seconds since it started and ended (None: it has not).

    What was started is told by the node's own notes; of a run without one by the run's files, as far as those are small
    and believed. Also those that have made their own `spec.json` unreadable: they are to be deleted some day, too.
    """
    about = {
        run: (rundirs.here(place, run), notes.read(place, run), notes.ended(place, run)) for run in rundirs.names(place)
    }
    return list(_runs(place, about)) if about else []


@rights.of_run()
def _runs(place: Place, about: Dict[str, Any]) -> list[Answer]:
    found = [item for run, known in about.items() if (item := _run(place, run, *known))]
    return sorted(found, key=lambda item: item["started"])


def _run(place: Place, run: str, known: bool | None, note: Dict[str, Any] | None, until: float | None) -> Answer | None:
    now = time.time()
    spec = untrusted.spec(note) if note else rundirs.spec(place, run, rundirs.SHARE_BYTES) or untrusted.spec({})
    started = spec["started"]
    if started is None:
        started = os.lstat(rundirs.path(place, run)).st_mtime
        if now - started < BEGINNING_SECONDS and not known:
            return None
    state, said = rundirs.own_state(place, run, known), rundirs.ended(place, run) or {}
    ended = None if state == "running" else said.get("ended")
    if ended is not None:
        ended = min(max(ended, started), until or now)
    return {
        "id": run,
        "state": state,
        "started": started,
        "ended": ended,
        "age": now - started,
        "idle": None if ended is None else now - ended,
        "code": None if state == "running" else said.get("code"),
        "recorded": os.path.lexists(rundirs.path(place, run, "recorded.json")),
        "by": untrusted.controller({"record": {"by": note.get("by")}} if note else spec),
        "spec": {key: spec.get(key) for key in ("framework", "mode", "release", "plan")},
    }
