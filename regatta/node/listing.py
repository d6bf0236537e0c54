"""The runs that a node knows of."""

from __future__ import annotations

import os
import time
from typing import Any, Dict

from regatta.node import rundirs

Place = Dict[str, Any]
Answer = Dict[str, Any]


def answer(place: Place) -> Answer:
    """{"runs": what :func:`runs` says}."""
    return {"runs": runs(place)}


def runs(place: Place) -> list[Answer]:
    """All runs of this node, oldest first; `age` and `idle`: seconds since it started and ended (None: it has not)."""
    found = []
    now = time.time()
    for run in rundirs.names(place):
        spec = rundirs.load(rundirs.path(place, run, "spec.json"))
        if spec:
            ended = rundirs.load(rundirs.path(place, run, "exit.json")) or {}
            found.append(
                {
                    "id": run,
                    "state": rundirs.state(place, run),
                    "started": spec["started"],
                    "ended": ended.get("ended"),
                    "age": now - spec["started"],
                    "idle": now - ended["ended"] if ended.get("ended") else None,
                    "code": ended.get("code"),
                    "recorded": os.path.exists(rundirs.path(place, run, "recorded.json")),
                    "by": spec["record"].get("by") if isinstance(spec.get("record"), dict) else None,
                    "spec": {key: spec.get(key) for key in ("framework", "mode", "release", "plan")},
                }
            )
    return sorted(found, key=lambda item: item["started"])
