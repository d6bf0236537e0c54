"""Frees the disk of a node: what ended runs have left there, and input files that no run has asked for since."""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, Sequence

from regatta.node import notes, releases, rights, rundirs, trees
from regatta.node import runs as node_runs
from regatta.node.problem import Problem
from regatta_protocol.operations.runs import Pruned
from regatta_protocol.states import State

if TYPE_CHECKING:
    from regatta_protocol.place import Place

REMOVED = ".removed-"
RAY_RESULTS = "ray_results"
"""In `$HOME`: where Ray Train and Ray Tune keep their results and checkpoints unless they get another path."""


def prune(place: Place, runs: Sequence[str], unused: float) -> Pruned:
    """Delete the folders of `runs`, and input files that no run has used for `unused` seconds.

    While a run is in progress no input file goes, and none of Ray's results, which go as input files do.
    """
    freed = _remove_abandoned(place)
    gone, going = [], []
    for run in filter(lambda name: rundirs.there(place, name), runs):
        try:
            state = rundirs.state(place, run)
            if state is State.RUNNING:
                going.append(run)
                continue
            if state is State.LOST:
                node_runs.stop(place, run, "its folder is deleted")
        except (Problem, OSError):  # a folder that cannot be told how its run ended goes all the same
            pass
        with contextlib.suppress(FileNotFoundError):
            os.rename(rundirs.path(place, run), os.path.join(rundirs.base(place), f"{REMOVED}{run}"))
            notes.remove(place, run)
            gone.append(run)
    freed += _remove_abandoned(place)
    inputs = 0
    with releases.lock(place):  # no run starts meanwhile
        if not rundirs.unfinished(place)["going"]:
            for path in _within(os.path.join(place["state"], "data")):
                if time.time() - os.lstat(path).st_mtime > unused and not os.path.basename(path).startswith(REMOVED):
                    os.rename(path, os.path.join(os.path.dirname(path), f"{REMOVED}{os.path.basename(path)}"))
                    inputs += 1
    freed += _delete_inputs(place)
    if not rundirs.unfinished(place)["going"]:
        freed += _remove_results(place, unused)
    return Pruned(tuple(gone), tuple(going), inputs, freed)


def _delete_inputs(place: Place) -> int:
    """Input files that were put aside to be deleted, also by a request that was stopped then."""
    freed = 0
    for path in _within(os.path.join(place["state"], "data")):
        if os.path.basename(path).startswith(REMOVED):
            freed += trees.size(path)
            trees.remove(path)
            with contextlib.suppress(OSError):
                os.rmdir(path)
    return freed


def _remove_results(place: Place, unused: float) -> int:
    """Return what Ray has kept in the home of the account of runs, and nothing has been added to in `unused`
    seconds.
    """

    def clear() -> int:
        freed = 0
        results = os.path.join(rundirs.home(place), RAY_RESULTS)
        for path in [] if os.path.islink(results) else _within(results):  # they are in the shared folder
            if time.time() - _changed(path) > unused:
                freed += trees.size(path)
                trees.remove(path)
        return freed

    with contextlib.suppress(Problem, OSError):
        return int(rights.call(place.get("user"), clear, node_runs.DELETE_SECONDS))
    return 0


def _changed(folder: str) -> float:
    """When a folder, or one right in it, such as that of a trial, was last changed."""
    return max(os.lstat(path).st_mtime for path in (folder, *_within(folder)))


def _remove_abandoned(place: Place) -> int:
    """Folders of runs that were to be deleted, also those that a stopped request has left."""
    left = [path for path in _within(rundirs.base(place)) if os.path.basename(path).startswith(REMOVED)]
    return sum(node_runs.delete(place, path) for path in left)


def _within(folder: str) -> list[str]:
    try:
        return [entry.path for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []
