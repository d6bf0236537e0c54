"""python -m benchmarks.old_runs [COUNT]: what a new run pays at its start and its end for old ones left on its node."""

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from regatta.node import contention, rundirs
from regatta_protocol.place import Place

TIMES = 9


def make(base: Path, count: int) -> None:
    """Runs of a plain user, the last of which has just ended; the ends of the others are an hour ago and more."""
    for number in range(count):
        began = time.time() - 7200 * (number < count - 1)
        folder = base / f"run-{number}"
        folder.mkdir(parents=True)
        spec = {"started": began, "mode": "process", "framework": "torch", "plan": {"ranks": {"0": "localhost"}}}
        (folder / "spec.json").write_text(json.dumps(spec))
        (folder / "pid.json").write_text('{"pid": 4194305}')
        (folder / "exit.json").write_text(json.dumps({"state": "succeeded", "code": 0, "ended": began + 1}))
        (base / f".run-{number}.json").write_text(json.dumps({"mode": "process", "started": began}))
    for path in base.glob("run-*/exit.json"):
        if path.parent.name != f"run-{count - 1}":
            os.utime(path, (time.time() - 3600,) * 2)


def seconds(work: Callable[[], Any]) -> list[float]:
    """How long it took, each time."""
    taken = []
    for _ in range(TIMES):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return taken


def main() -> None:
    """Prints the figures."""
    count = int(sys.argv[1]) if sys.argv[1:] else 2000
    with tempfile.TemporaryDirectory() as state:
        make(Path(state) / "runs", count)
        place: Place = {"state": state, "root": state, "user": None}
        last = f"run-{count - 1}"
        print(f"{count} runs left on a node; medians of {TIMES}")
        print(f"who was beside a run: {statistics.median(seconds(lambda: contention.of_run(place, last, {}))):.3f} s")
        print(f"what has not ended yet: {statistics.median(seconds(lambda: rundirs.unfinished(place))):.3f} s")


if __name__ == "__main__":
    main()
