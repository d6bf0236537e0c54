"""The folder that all nodes see: each run's own part of it, and what a project keeps from run to run.

All of it belongs to the shared account of runs, as which it is made, looked at and deleted. On the head it is on the
disk; the others reach it over the network, and wait for the head some seconds where it is away. Runs of members who
have an account of their own have no part of it.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import time
from typing import TYPE_CHECKING, Dict, List, Sequence

from regatta.node import rights, trees
from regatta.node.problem import Problem
from regatta_protocol.operations.outputs import SharedPart, SharedParts, SharedRemoved
from regatta_protocol.run import Spec

if TYPE_CHECKING:
    from regatta_protocol.place import Place


RUNS, PROJECTS, RESULTS = "runs", "projects", "ray_results"
WITHOUT = "runs of members have no shared folder on this cluster (members_separate)"
LIST_SECONDS = 100.0
DELETE_SECONDS = 400.0
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,126}[a-z0-9])?\Z")


def folder(place: Place) -> str:
    """The same path on every node."""
    return os.path.join(place["state"], "shared")


def has(place: Place) -> bool:
    """Whether this process, which works for a run, is of an account that has the folder."""
    user = place.get("user")
    return not user or os.geteuid() in (0, pwd.getpwnam(user).pw_uid)


def part(place: Place, name: str) -> str:
    """The part `runs/NAME` of a run, by its first generation, or `projects/KEY`. Problem for what can be no name."""
    kind, _, own = name.partition("/")
    path = os.path.join(folder(place), _named(kind), _named(own))
    with contextlib.suppress(OSError):
        if _NAME.match(now := os.readlink(path)):  # the key that a project had once
            return os.path.join(os.path.dirname(path), now)
    return path


def _named(name: str) -> str:
    if not _NAME.match(name):
        raise Problem(f"'{name}' names no part of the shared folder: use lower-case letters, digits and '-'")
    return name


def enter(place: Place, spec: Spec, work: str) -> str | None:
    """Make the run's part, and let folders of the working directory `work` lead to what the project keeps.

    As the account of runs. Gives why there is no shared folder now, for a run that may do without; Problem for one that
    keeps something. If the cluster has none, the answer is empty.
    """
    if not spec.shared:
        return None
    if not has(place):
        if spec.keep:
            raise Problem(f"{WITHOUT}, in which the project's folders would be kept: leave --keep out")
        return WITHOUT
    try:
        if place.get("user") and not os.path.lexists(folder(place)):
            if spec.keep:
                raise Problem(
                    "this cluster has no shared folder, in which the project's folders would be kept: leave --keep "
                    "out, or set shared_folder_enabled: true and run 'regatta provision'"
                )
            return None
        os.makedirs(part(place, f"{RUNS}/{spec.shared}"), 0o700, exist_ok=True)
        os.makedirs(os.path.join(folder(place), RESULTS), 0o700, exist_ok=True)
        if spec.keep and spec.former and spec.project:
            _carry_over(os.path.join(folder(place), PROJECTS), spec.former, spec.project)
        for path in spec.keep:
            kept = path.removeprefix(f"{spec.folder}/") if spec.folder else path
            _lead(os.path.join(work, path), os.path.join(part(place, f"{PROJECTS}/{spec.project}"), kept))
    except OSError as error:
        said = f"the shared folder {folder(place)} cannot be used now: {error.strerror}"
        if place.get("user"):
            said += "; is the head up? systemctl status regatta-shared-folder"
        if spec.keep:
            raise Problem(said) from None
        return said
    return None


def _carry_over(top: str, former: str, now: str) -> None:
    """Give what a project has kept under its former key the key of now, to which the former one leads from then on.

    Nodes do so at once: one of them is first, and the others find it done.
    """
    old, new = os.path.join(top, _named(former)), os.path.join(top, _named(now))
    if os.path.isdir(old) and not os.path.islink(old) and not os.path.lexists(new):
        with contextlib.suppress(OSError):
            os.rename(old, new)
            os.symlink(now, old)


def _lead(path: str, kept: str) -> None:
    """Let a path of the working directory be a link to a folder that is kept."""
    os.makedirs(kept, 0o700, exist_ok=True)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.isdir(path) and not os.path.islink(path):
        trees.remove(path)  # what came with the code there is nothing but placeholders, as the controller has proven
    os.symlink(kept, path)


def parts(place: Place) -> SharedParts:
    """All that is there; for the head."""

    def look() -> SharedParts:
        return SharedParts(*(_sizes(os.path.join(folder(place), kind)) for kind in (RUNS, PROJECTS)))

    found: SharedParts = rights.call(place.get("user"), look, LIST_SECONDS, SharedParts)
    return found


def _sizes(top: str) -> Dict[str, SharedPart]:
    found = {}
    with contextlib.suppress(FileNotFoundError), os.scandir(top) as entries:
        for entry in entries:
            if _NAME.match(entry.name) and entry.is_dir(follow_symlinks=False):
                found[entry.name] = SharedPart(trees.size(entry.path), _changed(entry.path))
    return found


def _changed(top: str) -> float:
    """When a folder, or one right in it, was last changed."""
    inside = [entry.path for entry in os.scandir(top) if entry.is_dir(follow_symlinks=False)]
    return max(os.lstat(path).st_mtime for path in (top, *inside))


def remove(place: Place, runs: Sequence[str], projects: Sequence[str], unused: float) -> SharedRemoved:
    """Delete the parts of runs and of projects, and Ray's results that nothing was added to in `unused` seconds.

    For the head, as the account of runs.
    """
    wanted = {kind: [_named(name) for name in names] for kind, names in ((RUNS, runs), (PROJECTS, projects))}

    def clear() -> SharedRemoved:
        freed, gone = 0, {}
        for kind, names in wanted.items():
            paths = {name: os.path.join(folder(place), kind, name) for name in names}
            gone[kind] = [name for name, path in paths.items() if os.path.isdir(path) and not os.path.islink(path)]
            freed += sum(_removed(paths[name]) for name in gone[kind])
        _forget_former(os.path.join(folder(place), PROJECTS))
        for path in _within(os.path.join(folder(place), RESULTS)):
            if time.time() - _changed(path) > unused:
                freed += _removed(path)
        return SharedRemoved(tuple(gone[RUNS]), tuple(gone[PROJECTS]), freed)

    removed: SharedRemoved = rights.call(place.get("user"), clear, DELETE_SECONDS, SharedRemoved)
    return removed


def _forget_former(top: str) -> None:
    """Remove former keys of projects that are gone."""
    with contextlib.suppress(FileNotFoundError), os.scandir(top) as entries:
        for path in [entry.path for entry in entries if entry.is_symlink()]:
            if not os.path.exists(path):
                os.unlink(path)


def _removed(path: str) -> int:
    size = trees.size(path)
    return size if trees.remove(path) else 0


def _within(top: str) -> List[str]:
    with contextlib.suppress(FileNotFoundError), os.scandir(top) as entries:
        return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    return []
