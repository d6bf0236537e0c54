"""The folders of runs on a node: what was started (`spec.json`), what it printed (`log`), its end (`exit.json`)."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
from typing import Any, Dict

Place = Dict[str, Any]


def base(place: Place) -> str:
    """The folder that holds all runs of this node."""
    return os.path.join(place["state"], "runs")


def path(place: Place, run: str, *parts: str) -> str:
    """A path inside a run's folder."""
    return os.path.join(base(place), run, *parts)


def names(place: Place) -> list[str]:
    """Ids of all runs that this node knows."""
    try:
        return sorted(name for name in os.listdir(base(place)) if not name.startswith("."))
    except FileNotFoundError:
        return []


def load(file: str) -> Any:
    """The JSON object in a file; None where there is none (yet)."""
    try:
        with open(file) as handle:
            return json.load(handle)
    except (OSError, ValueError):
        return None


def store(file: str, value: Any, mode: int = 0o644) -> None:
    """Write a JSON file whole or not at all."""
    new = f"{file}.{os.getpid()}.new"
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w") as handle:
        json.dump(value, handle)
    os.rename(new, file)


def clear_halves(folder: str) -> None:
    """Remove what `store` has left half written where it was killed: its controller went away, or the host did."""
    for name in os.listdir(folder):
        half = re.fullmatch(r".+\.json\.(\d+)\.new", name)
        if half and not os.path.exists(f"/proc/{half[1]}"):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(folder, name))


def unit(run: str) -> str:
    """Name of the systemd unit of a run."""
    return f"regatta-run-{run}.service"


def active(place: Place, run: str) -> bool:
    """Whether the run's processes are there: its unit (root), its supervisor (plain user; a Ray job once it runs)."""
    spec = load(path(place, run, "spec.json")) or {}
    if spec.get("mode") == "member" and not os.path.exists(path(place, run, "pid.json")):
        return os.path.isdir(path(place, run)) and not os.path.exists(path(place, run, "exit.json"))
    if spec.get("mode") == "unit":
        shown = subprocess.run(
            ["systemctl", "show", "-p", "ActiveState", "--value", unit(run)],
            capture_output=True,
            text=True,
            check=False,
        )
        return shown.stdout.strip() in ("active", "activating", "deactivating", "reloading")
    return supervisor_pid(place, run) is not None


def supervisor_pid(place: Place, run: str) -> int | None:
    """Process id of a run's supervisor while it lives; None otherwise (a reused id is not mistaken for it)."""
    found = load(path(place, run, "pid.json"))
    if not found:
        return None
    with contextlib.suppress(OSError), open(f"/proc/{found['pid']}/cmdline", "rb") as file:
        if path(place, run).encode() in file.read().split(b"\0"):
            return int(found["pid"])
    return None


def state(place: Place, run: str) -> str:
    """`running`, or the state in which the run ended; `lost` where it vanished without a word (host went down)."""
    ended = load(path(place, run, "exit.json"))
    if ended:
        return str(ended["state"])
    if active(place, run):
        return "running"
    return str((load(path(place, run, "exit.json")) or {"state": "lost"})["state"])


def unfinished(place: Place) -> list[str]:
    """Runs that have not ended on this node, or vanished without a word."""
    return [run for run in names(place) if not os.path.exists(path(place, run, "exit.json"))]


def releases_in_use(place: Place) -> set[str]:
    """Releases of runs that have not ended."""
    used: set[str | None] = set()
    for run in unfinished(place):
        if active(place, run):
            used.add((load(path(place, run, "spec.json")) or {}).get("release"))
    return {release for release in used if release}
