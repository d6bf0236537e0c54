"""The folder that all nodes see: each run's own part of it, and what a project keeps from run to run.

All of it belongs to the shared account of runs, as which it is made, looked at and deleted. On the head it is on the
disk; the others reach it over the network, and wait for the head some seconds where it is away. The runs of a member
who has an account of their own have another such folder, which belongs to that account.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pwd
import re
import time
from typing import TYPE_CHECKING, Callable, Dict, List, Mapping, Sequence, TypeVar

from regatta.node import rights, trees
from regatta.node.problem import Problem
from regatta_protocol.operations.outputs import SharedPart, SharedParts, SharedRemoved
from regatta_protocol.run import Spec

if TYPE_CHECKING:
    from regatta_protocol.place import Place


RUNS, PROJECTS, RESULTS = "runs", "projects", "ray_results"
MEMBERS = "members"
VARIABLES = ("REGATTA_SHARED", "REGATTA_PROJECT")
WITHOUT = (
    "runs of members have no shared folder on this cluster: with members_separate they need the head's own "
    "(shared_folder_enabled, without shared_folder_path)"
)
LIST_SECONDS = 100.0
DELETE_SECONDS = 400.0
Done = TypeVar("Done")
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,126}[a-z0-9])?\Z")


def folder(place: Place, account: str | None = None) -> str:
    """The same path on every node: of all runs, or of those of a member's own account."""
    own = () if account in (None, place.get("user")) else (MEMBERS, str(account))
    return os.path.join(place["state"], *(own or ("shared",)))


def _account(place: Place) -> str | None:
    """The account of this process, which works for a run, where it is a member's own."""
    user, number = place.get("user"), os.geteuid()
    return None if not user or number in (0, pwd.getpwnam(user).pw_uid) else pwd.getpwuid(number).pw_name


def account(place: Place, run: str, part: str) -> str | None:
    """The account of runs whose folder has a part of a run, which may not have been on this node; for root on the head.

    That of all runs comes first: a member's run may give a part of its own any name.
    """
    user = place.get("account") or rights.account(place, rights.path(place, run))
    if user != place.get("user"):
        return user
    return next((own for own in _accounts(place) if os.path.isdir(_part(folder(place, own), part))), user)


def _accounts(place: Place) -> List[str | None]:
    """The shared account of runs, then those of members who have one of their own; for the head."""
    own = _within(os.path.join(place["state"], MEMBERS)) if place.get("user") else []
    return [place.get("user"), *(os.path.basename(path) for path in own if _mounted(path))]


def _mounted(path: str) -> bool:
    """Whether a mount point has a member's folder: it is root's while nothing is mounted there."""
    with contextlib.suppress(OSError):  # on other nodes than the head root may not look
        return bool(os.stat(path).st_uid)
    return False


def variables(place: Place, env: Mapping[str, str]) -> Dict[str, str]:
    """Those of a run's variables that lead to its parts, leading to the folder of the account of this process."""
    old, new = f"{folder(place)}/", f"{folder(place, _account(place))}/"
    return {name: new + env[name][len(old) :] for name in VARIABLES if env.get(name, "").startswith(old)}


def part(place: Place, name: str, account: str | None = None) -> str:
    """The part `runs/NAME` of a run, by its first generation, or `projects/KEY`; `account`: as for `folder`.

    Problem for what can be no name.
    """
    path = _part(folder(place, account), name)
    with contextlib.suppress(OSError):
        if _NAME.match(now := os.readlink(path)):  # the key that a project had once
            return os.path.join(os.path.dirname(path), now)
    return path


def _part(top: str, name: str) -> str:
    kind, _, own = name.partition("/")
    return os.path.join(top, _named(kind), _named(own))


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
    account = _account(place)
    top = folder(place, account)
    try:
        if place.get("user") and not os.path.lexists(top):
            if spec.keep and account:
                raise Problem(f"{WITHOUT}. The project's folders would be kept there: leave --keep out")
            if spec.keep:
                raise Problem(
                    "this cluster has no shared folder, in which the project's folders would be kept: leave --keep "
                    "out, or set shared_folder_enabled: true and run 'regatta provision'"
                )
            return WITHOUT if account else None
        os.makedirs(part(place, f"{RUNS}/{spec.shared}", account), 0o700, exist_ok=True)
        os.makedirs(os.path.join(top, RESULTS), 0o700, exist_ok=True)
        if spec.keep and spec.former and spec.project:
            _carry_over(os.path.join(top, PROJECTS), spec.former, spec.project)
        for path in spec.keep:
            kept = path.removeprefix(f"{spec.folder}/") if spec.folder else path
            _lead(os.path.join(work, path), os.path.join(part(place, f"{PROJECTS}/{spec.project}", account), kept))
    except OSError as error:
        said = f"the shared folder {top} cannot be used now: {error.strerror}"
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
    runs: Dict[str, SharedPart] = {}
    projects: Dict[str, SharedPart] = {}

    def look(top: str) -> SharedParts:
        return SharedParts(*(_sizes(os.path.join(top, kind)) for kind in (RUNS, PROJECTS)))

    for found in _of_each(place, look, LIST_SECONDS, SharedParts):
        runs.update(found.runs)
        projects.update(found.projects)
    return SharedParts(runs, projects)


def _of_each(place: Place, work: Callable[[str], Done], seconds: float, gives: type[Done]) -> List[Done]:
    """What `work` gives for the folder of each account of runs, as that account."""
    return [
        rights.call(user, functools.partial(work, folder(place, user)), seconds, gives) for user in _accounts(place)
    ]


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

    For the head, as the account of runs whose they are.
    """
    wanted = {kind: [_named(name) for name in names] for kind, names in ((RUNS, runs), (PROJECTS, projects))}

    def clear(top: str) -> SharedRemoved:
        freed, gone = 0, {}
        for kind, names in wanted.items():
            paths = {name: os.path.join(top, kind, name) for name in names}
            gone[kind] = [name for name, path in paths.items() if os.path.isdir(path) and not os.path.islink(path)]
            freed += sum(_removed(paths[name]) for name in gone[kind])
        _forget_former(os.path.join(top, PROJECTS))
        for path in _within(os.path.join(top, RESULTS)):
            if time.time() - _changed(path) > unused:
                freed += _removed(path)
        return SharedRemoved(tuple(gone[RUNS]), tuple(gone[PROJECTS]), freed)

    done = _of_each(place, clear, DELETE_SECONDS, SharedRemoved)
    return SharedRemoved(
        tuple(run for one in done for run in one.runs),
        tuple(key for one in done for key in one.projects),
        sum(one.bytes for one in done),
    )


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
