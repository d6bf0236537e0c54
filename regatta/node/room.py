"""Makes room on a node: what ended runs have left there, and input files that no run has asked for since."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from typing import Any, Dict

from regatta.node import releases, rundirs
from regatta.node import runs as node_runs

Place = Dict[str, Any]
REMOVED = ".removed-"


def make(place: Place, runs: list[str], unused: float) -> Dict[str, Any]:
    """Delete the folders of `runs`, and input files that nobody has asked for in `unused` seconds.

    {runs: ids of those deleted, going: those that have not ended, and stay, inputs: how many, bytes: of all}. While a
    run is going on no input file goes.
    """
    folder = rundirs.base(place)
    freed = _remove_abandoned(folder)
    gone, going = [], []
    for run in runs:
        if not os.path.isdir(rundirs.path(place, run)):
            continue
        if rundirs.state(place, run) == "running":
            going.append(run)
            continue
        if not os.path.exists(rundirs.path(place, run, "exit.json")):
            node_runs.stop(place, run, "its folder is deleted")
        with contextlib.suppress(FileNotFoundError):
            os.rename(rundirs.path(place, run), os.path.join(folder, f"{REMOVED}{run}"))
            gone.append(run)
    freed += _remove_abandoned(folder)
    inputs = 0
    with releases.lock(place):  # no run starts meanwhile
        if not rundirs.releases_in_use(place):
            for path in _within(os.path.join(place["state"], "data")):
                if time.time() - os.lstat(path).st_mtime > unused:
                    inputs, freed = inputs + 1, freed + _remove(path)
    return {"runs": gone, "going": going, "inputs": inputs, "bytes": freed}


def _remove_abandoned(folder: str) -> int:
    """Folders of runs that were to be deleted, also those that a stopped request has left."""
    return sum(_remove(path) for path in _within(folder) if os.path.basename(path).startswith(REMOVED))


def _within(folder: str) -> list[str]:
    try:
        return [entry.path for entry in os.scandir(folder)]
    except FileNotFoundError:
        return []


def _remove(folder: str) -> int:
    """Delete a folder; the bytes that it had on the disk."""
    size = 0
    for base, folders, names in os.walk(folder):
        for name in (*folders, *names):
            with contextlib.suppress(OSError):
                size += os.lstat(os.path.join(base, name)).st_blocks * 512
    shutil.rmtree(folder, ignore_errors=True)
    return size
