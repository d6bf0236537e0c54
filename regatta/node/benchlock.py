"""One bench at a time on a cluster: its head keeps a lock for as long as the controller's connection lives."""

from __future__ import annotations

import fcntl
import os
import time
from typing import Any, Callable

NAME = "bench.lock"


def take(place: dict[str, Any], emit: Callable[[dict[str, Any]], None], who: str) -> None:
    """Hold the lock until the connection ends; emits {"held"}, or {"taken": what its holder said of themselves}."""
    os.makedirs(place["state"], exist_ok=True)
    with open(os.path.join(place["state"], NAME), "a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            emit({"taken": file.read().strip() or "somebody who has not said who they are"})
            return
        file.truncate(0)
        file.write(who + "\n")
        file.flush()
        emit({"held": True})
        while True:  # main() ends this process when the connection closes, and the lock with it
            time.sleep(3600)
