"""The files of a tree, by git where there is a repository, else by a walk that honours the same ignore files."""

import contextlib
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from regatta.errors import SyncError
from regatta.release import git, ignore, withheld
from regatta.release.withheld import Reason

MOST = 200_000
"""Files of a folder that nothing marks as a tree: more are a home, or a disk, and not a project."""
_MARKS = ("regatta.toml", ignore.FILE)


@dataclass
class Listing:
    """`files`: path -> whether git tracks it. `taken`: paths that `.regattaignore` takes in. `left`: folders, with `/`
    at the end, that were not looked into. `ignored`: files, and folders with `/`, that an ignore file leaves out.
    """

    files: dict[str, bool] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    left: dict[str, Reason] = field(default_factory=dict)
    ignored: list[str] = field(default_factory=list)
    commit: str | None = None
    dirty: bool | None = None

    def add(self, folder: str, nested: "Listing") -> None:
        """Put the files of a repository within the tree to the others."""
        prefix = folder.rstrip("/") + "/"
        self.files |= {prefix + path: tracked for path, tracked in nested.files.items()}
        self.taken |= {prefix + path for path in nested.taken}
        self.left |= {prefix + path: reason for path, reason in nested.left.items()}
        self.ignored += [prefix + path for path in nested.ignored]


def read(root: Path) -> Listing:
    """List a tree. Raises SyncError where git, or a folder, cannot be read."""
    own = ignore.Own(root)
    listing = _by_git(root, own) if git.repository(root) else _by_walk(root, own)
    out = own.out(listing.files)
    for path in out:
        del listing.files[path]
    if own.takes:
        listing.taken |= {path for path in listing.files if own.taken(path)}
    listing.ignored += folded(out, listing.files)
    return listing


def _by_git(root: Path, own: ignore.Own) -> Listing:
    with ThreadPoolExecutor(1) as pool:
        status = pool.submit(git.status, root)
        files = git.files(root)
    said = status.result()
    found = Listing(files, ignored=list(said.ignored), commit=said.commit, dirty=said.dirty)
    if own.takes:
        out = set(git.ignored(root))
        brought = {path for path in out if own.taken(path)}
        found.files |= dict.fromkeys(brought, False)
        found.ignored = folded(out - brought, found.files)
    for path in [path for path in found.files if _is_folder(os.path.join(root, path))]:
        del found.files[path]
        if os.path.lexists(root / path / ".git"):
            found.add(path, read(root / path))
    return found


def _by_walk(root: Path, own: ignore.Own) -> Listing:
    found = Listing()
    waiting: list[tuple[str, list[ignore.Level], bool]] = [("", [], False)]
    most = None if any((root / mark).exists() for mark in _MARKS) else MOST
    while waiting:
        prefix, levels, within = waiting.pop()
        folder = os.path.join(root, prefix)
        here = ignore.level(Path(folder), prefix)
        if here:
            levels = [*levels, here]
        for name, is_folder in _entries(folder):
            path = prefix + name
            if is_folder and (reason := withheld.of_folder(root, path)):
                found.left[f"{path}/"] = reason
                continue
            out = within or ignore.ignored(levels, path, folder=is_folder)
            if is_folder and (not out or own.takes):
                waiting.append((f"{path}/", levels, out))
            elif not out or own.taken(path):
                found.files[path] = False
            else:
                found.ignored.append(f"{path}/" if is_folder else path)
        if most and len(found.files) > most:
            raise SyncError(
                f"{root} is no repository of git, so all of it would be synced, and it has more than {most:,} files: "
                "start in the project's own folder, or make an empty regatta.toml here"
            )
    if own.takes:
        found.ignored = folded(set(found.ignored), found.files)
    return found


def _is_folder(path: str) -> bool:
    with contextlib.suppress(OSError):
        return stat.S_ISDIR(os.lstat(path).st_mode)
    return False


def _entries(folder: str) -> list[tuple[str, bool]]:
    try:
        with os.scandir(folder) as entries:
            return sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise SyncError(
            f"{folder} cannot be read and is part of what is synced: let {ignore.FILE} leave it out ({error.strerror})"
        ) from None


def folded(paths: set[str], kept: dict[str, bool]) -> list[str]:
    """Paths, with a folder (and `/`) instead of all that is in it where nothing of it is kept."""
    needed = {""}
    for path in kept:
        while path := path.rpartition("/")[0]:
            if path in needed:
                break
            needed.add(path)
    found = set()
    for path in paths:
        parts = path.split("/")
        for depth in range(1, len(parts)):
            if "/".join(parts[:depth]) not in needed:
                found.add("/".join(parts[:depth]) + "/")
                break
        else:
            found.add(path)
    return sorted(found)
