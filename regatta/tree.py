"""A source tree on the controller: which files belong to a release, and its id."""

import contextlib
import os
import re
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from regatta.errors import SyncError
from regatta.node import manifest
from regatta.paths import results_dir

IGNORE_FILE = ".regattaignore"
_NEVER = {".git", "__pycache__", ".venv", "node_modules", ".mypy_cache", ".ruff_cache", ".pytest_cache"}
_COMMIT = re.compile(r"[0-9a-f]{7,64}\Z")

Entry = list[str]


@dataclass(frozen=True)
class Tree:
    """A tree as it is now: `entries` are manifest entries, `bytes` the size of all files together."""

    root: Path
    entries: tuple[tuple[str, str, str], ...]
    release: str
    size: int
    commit: str | None
    dirty: bool | None


def find_root(start: Path) -> Path:
    """The tree that `start` is in: the git work tree around it, else the folder itself."""
    top = _git(start, "rev-parse", "--show-toplevel")
    return Path(top.strip()) if top else start.resolve()


def read(root: Path) -> Tree:
    """List and hash a tree. Raises SyncError where it is empty or a file cannot be read."""
    root = root.resolve()
    paths = sorted(_listed(root))
    try:
        with ThreadPoolExecutor() as pool:
            found = list(pool.map(lambda path: manifest.entry(root, path), paths))
        size = sum(os.lstat(root / path).st_size for path in paths)
    except OSError as error:
        raise SyncError(
            f"{error.filename}: {error.strerror}; it is part of the tree {root} that is to be synced"
        ) from None
    entries = [item for item in found if item]
    if not entries:
        raise SyncError(f"{root} has no file to sync (see {IGNORE_FILE} and git's ignore rules)")
    commit = _git(root, "rev-parse", "HEAD")
    return Tree(
        root=root,
        entries=tuple((path, kind, content) for path, kind, content in entries),
        release=manifest.release_id(entries),
        size=size,
        commit=commit.strip() if commit else None,
        dirty=bool(_git(root, "status", "--porcelain")) if commit else None,
    )


def changed_files(root: Path, old: str, new: str) -> list[str] | None:
    """What git says changed between two commits, `changed PATH` each; None where it does not know both."""
    if not (_COMMIT.match(old) and _COMMIT.match(new)):
        return None
    listing = _git(root, "diff", "--name-status", "--no-renames", "-z", old, new)
    if listing is None:
        return None
    words = _split(listing)
    verbs = {"A": "added", "D": "removed"}
    return sorted(f"{verbs.get(verb, 'changed')} {path}" for verb, path in zip(words[::2], words[1::2], strict=False))


def _listed(root: Path) -> set[str]:
    rules = _rules(root)
    listing = _git(root, "ls-files", "--cached", "--others", "--exclude-standard", "-z")
    if listing is None:
        paths = set(_walk(root))
    else:
        paths = {p for p in _split(listing) if os.path.lexists(root / p)}
        for nested in [p for p in paths if (root / p).is_dir() and not (root / p).is_symlink()]:
            paths.remove(nested)
            paths |= {os.path.join(nested, path) for path in _listed(root / nested)}
        if rules and any(line.startswith("!") for line in rules):
            ignored = _git(root, "ls-files", "--others", "--ignored", "--exclude-standard", "-z") or ""
            paths |= set(_split(ignored)) & set(_excepted(rules, _split(ignored)))
    records = _records(root)
    paths = {path for path in paths if records is None or not path.startswith(records)}
    if rules:
        import pathspec

        paths -= set(pathspec.GitIgnoreSpec.from_lines(rules).match_files(paths))
    return paths


def _records(root: Path) -> str | None:
    """What the paths of Regatta's own records begin with, where they are kept in the tree: a run must not change it."""
    with contextlib.suppress(ValueError):
        return f"{results_dir().resolve().relative_to(root)}/"
    return None


def _excepted(rules: list[str], paths: list[str]) -> Iterator[str]:
    """Paths that `.regattaignore` adds with `!pattern` although git ignores them."""
    import pathspec

    return iter(pathspec.GitIgnoreSpec.from_lines([r[1:] for r in rules if r.startswith("!")]).match_files(paths))


def _rules(root: Path) -> list[str]:
    try:
        return [line for line in (root / IGNORE_FILE).read_text().splitlines() if line and not line.startswith("#")]
    except FileNotFoundError:
        return []


def _walk(root: Path) -> Iterator[str]:
    for folder, folders, files in os.walk(root):
        base = os.path.relpath(folder, root)
        links = [name for name in folders if (Path(folder) / name).is_symlink()]
        folders[:] = [name for name in folders if name not in _NEVER and name not in links]
        for name in files + links:
            yield name if base == "." else os.path.join(base, name)


def _split(listing: str) -> list[str]:
    return [path for path in listing.split("\0") if path]


def _git(folder: Path, *args: str) -> str | None:
    """Output of git in a folder; None where it fails (no repository, no git, a repository of somebody else)."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *args], capture_output=True, check=False, stdin=subprocess.DEVNULL, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return os.fsdecode(done.stdout) if done.returncode == 0 else None
