"""The machine of the figures: this machine, how busy it was, which commit."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from regatta.node.facts import facts
from regatta.paths import PROJECT

QUIET_LOAD = 0.5
SAMPLES = PROJECT / "results" / "benchmarks"
"""The folder of benchmarks' samples, next to the records of runs."""


@dataclass(frozen=True)
class Machine:
    """This machine now; `load` is the mean number of processes that wanted to run in the last minute."""

    cpu: str | None
    cores: int
    ram_bytes: int | None
    kernel: str
    os: str | None
    load: float
    date: str
    commit: str | None
    dirty: bool | None

    def __str__(self) -> str:
        return f"{self.cpu}, {self.cores} core(s), load {self.load:.2f}, {self.date}"

    @property
    def quiet(self) -> bool:
        """Whether nothing else ran here that would spoil the figures."""
        return self.load <= QUIET_LOAD


def describe() -> Machine:
    """This machine, at this moment."""
    found = facts({"python": sys.executable})
    commit = _git("rev-parse", "HEAD")
    return Machine(
        cpu=found["cpu_model"],
        cores=found["cores"],
        ram_bytes=found["ram_bytes"],
        kernel=found["kernel"],
        os=found["os"],
        load=os.getloadavg()[0],
        date=datetime.now(timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z"),
        commit=commit,
        dirty=bool(_git("status", "--porcelain", "--untracked-files=no")) if commit else None,
    )


def keep(name: str, date: str, samples: Any, folder: Path = SAMPLES) -> Path:
    """Write what was measured to `folder` as ``NAME-<date>.json``, `date` as in `Machine`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{date.replace('-', '').replace(':', '')}.json"
    path.write_text(json.dumps(samples, indent=1) + "\n", encoding="utf-8")
    return path


def _git(*words: str) -> str | None:
    done = subprocess.run(["git", "-C", str(PROJECT), *words], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None
