"""A source tree on the controller: which files belong to a release, and its id."""

import contextlib
import os
import re
import stat
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from regatta.errors import SyncError
from regatta.node import manifest
from regatta.paths import declared, results_dir
from regatta.release import git, ignore, listing, notes, selection, size, withheld

IGNORE_FILE = ignore.FILE
AT_A_TIME = 16
"""Files that a thread hashes before it takes others: one file is less work than handing it over."""
_COMMIT = re.compile(r"[0-9a-f]{7,64}\Z")


@dataclass(frozen=True)
class Tree:
    """A tree as it is now: `entries` are manifest entries, `size` the bytes of all files together.

    `notes` are lines for a person on what was left out; `left` has the reason for each path that is no ignore file's.
    """

    root: Path
    entries: tuple[tuple[str, str, str], ...]
    release: str
    size: int
    commit: str | None
    dirty: bool | None
    notes: tuple[str, ...] = ()
    left: tuple[tuple[str, str], ...] = ()


def find_root(start: Path) -> Path:
    """The tree that `start` is in: the git work tree around it, else the nearest folder upwards with a `regatta.toml`.

    Without either it is the folder itself. Raises SyncError.
    """
    if not start.is_dir():
        raise SyncError(f"there is no folder {start} to sync: give another")
    if git.repository(start) is None:
        return declared(start)
    return Path(git.ask(start, "rev-parse", "--show-toplevel").removesuffix("\n"))


def read(root: Path) -> Tree:
    """List and hash a tree. Raises SyncError where it is empty, too large, or cannot be read."""
    root = root.resolve()
    try:
        listed = listing.read(root)
        records = _records(root)
        if records:
            listed.files = {path: known for path, known in listed.files.items() if not path.startswith(records)}
            listed.ignored = [path for path in listed.ignored if not path.startswith(records)]
        chosen = selection.select(root, listed)
        size.check(root, {path: info.st_size for path, info in chosen.files.items()})
        paths = sorted(chosen.files)
        with ThreadPoolExecutor() as pool:
            some = [paths[start : start + AT_A_TIME] for start in range(0, len(paths), AT_A_TIME)]
            found = pool.map(lambda part: [_entry(root, path, chosen.files[path]) for path in part], some)
            entries = list(chain.from_iterable(found))
    except OSError as error:
        raise SyncError(
            f"{error.filename} cannot be read and is part of the tree {root}, which is synced: let {IGNORE_FILE} leave "
            f"it out ({error.strerror})"
        ) from None
    left = chosen.left | {path: withheld.KEY for path, item in zip(paths, entries, strict=True) if item is None}
    kept = [item for item in entries if item]
    told = notes.of(root, left, listed.ignored)
    if not kept:
        raise SyncError("\n".join([f"{root} has no file to sync (see {IGNORE_FILE} and git's ignore rules)", *told]))
    return Tree(
        root=root,
        entries=tuple((path, kind, content) for path, kind, content in kept),
        release=manifest.release_id(kept),
        size=sum(chosen.files[item[0]].st_size for item in kept),
        commit=listed.commit,
        dirty=listed.dirty if listed.commit else None,
        notes=told,
        left=tuple((path, reason.text) for path, reason in left.items()),
    )


def release_of(entries: Iterable[Sequence[str]]) -> str:
    """The id of the release that has these entries: (path, kind, content)."""
    return manifest.release_id([list(entry) for entry in entries])


def changed_files(root: Path, old: str, new: str) -> list[str] | None:
    """Return what git says changed between two commits, `changed PATH` each; None where it does not know both."""
    if not (_COMMIT.match(old) and _COMMIT.match(new)):
        return None
    found = git.answer(root, "diff", "--name-status", "--no-renames", "-z", old, new)
    if found is None:
        return None
    words = git.split(found)
    verbs = {"A": "added", "D": "removed"}
    return sorted(f"{verbs.get(verb, 'changed')} {path}" for verb, path in zip(words[::2], words[1::2], strict=False))


def _entry(root: Path, path: str, info: os.stat_result) -> manifest.Entry | None:
    """The manifest entry of a file or link; None where it is a private key."""
    if stat.S_ISREG(info.st_mode) and withheld.is_key(os.path.join(root, path)):
        return None
    return manifest.entry(root, path)


def _records(root: Path) -> str | None:
    """Return what the paths of Regatta's own records begin with, where they are kept in the tree: a run must not change
    it.
    """
    with contextlib.suppress(ValueError):
        return f"{results_dir().resolve().relative_to(root)}/"
    return None
