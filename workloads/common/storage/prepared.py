"""Results made of a source, kept on this host for later runs: keyed by the source's content, whole or not there.

An entry is a folder under the name of its key. It is made next to its place and renamed into it, by one process of the
host while others wait. The least recently used entries go when all of them take more than the limit.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from workloads.common import storage
from workloads.common.storage.errors import StorageError

Made = TypeVar("Made")

MADE_BY = "made-by"
LIMIT_BYTES = 4 << 30
LEAST_FREE_BYTES = 1 << 30


def folder() -> Path:
    """Return where entries are: ``REGATTA_PREPARED``, or the user's cache folder."""
    chosen = os.environ.get("REGATTA_PREPARED")
    if chosen:
        return Path(chosen)
    return cache() / "prepared"


def cache() -> Path:
    """Return what this user's runs keep on this host."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "regatta"


def key(url: str, parameters: Any, makers: tuple[ModuleType, ...]) -> str:
    """The key of a prepared form: content of the source, parameters, and the program that makes it."""
    digest = hashlib.sha256(f"{storage.identity(url)}\0{parameters!r}".encode())
    for module in makers:
        digest.update(Path(str(module.__file__)).read_bytes())
    return digest.hexdigest()[:40]


def once(
    url: str,
    parameters: Any,
    makers: tuple[ModuleType, ...],
    make: Callable[[Path], None],
    open_made: Callable[[Path], Made],
) -> tuple[Made, bool]:
    """The prepared form of the source `url` as `open_made` gives it, and whether an earlier run has left it.

    `make` fills an empty folder. Raises StorageError, also where the source changes while it is read; what `make`
    raises passes through. An OSError of the cache itself (full, not writable) is raised as it is.
    """
    root = folder()
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    for _ in range(2):
        name = key(url, parameters, makers)
        entry = root / name
        with locked(root / f"{name}.lock"):
            there = entry.is_dir()
            if not there:
                unfinished = Path(tempfile.mkdtemp(prefix=f"{name}.", dir=root))
                try:
                    make(unfinished)
                    if key(url, parameters, makers) != name:
                        continue
                    (unfinished / MADE_BY).write_text(_run())
                    unfinished.rename(entry)
                finally:
                    shutil.rmtree(unfinished, ignore_errors=True)
            os.utime(entry)
            made = open_made(entry)
            earlier = there and (entry / MADE_BY).read_text() != _run()
        if not there:
            prune(root, keep=name)
        return made, earlier
    raise StorageError(f"{url}: changes while it is read; try again when it is complete")


def _run() -> str:
    """Return what the ranks of a run have in common: its id, or the process that has started them."""
    return os.environ.get("REGATTA_RUN_ID") or str(os.getppid())


def prune(root: Path, keep: str, limit: int = LIMIT_BYTES) -> None:
    """Drop entries, least recently used first, until the rest fit; also what a killed process left half made."""
    limit = min(limit, _size_of_all(root) + shutil.disk_usage(root).free - LEAST_FREE_BYTES)
    entries = []
    for path in root.iterdir():
        with contextlib.suppress(OSError):
            if path.is_dir():
                entries.append((path.stat().st_mtime, path))
    total = 0
    for _, path in sorted(entries, reverse=True):
        total += _size(path)
        name, half, _ = path.name.partition(".")
        if name != keep and (half or total > limit):
            with contextlib.suppress(BlockingIOError), locked(root / f"{name}.lock", wait=False):
                shutil.rmtree(path, ignore_errors=True)


def _size(entry: Path) -> int:
    with contextlib.suppress(OSError):
        return sum(file.stat().st_size for file in entry.iterdir())
    return 0


def _size_of_all(root: Path) -> int:
    return sum(_size(path) for path in root.iterdir() if path.is_dir())


@contextlib.contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold the lock of a file; where it may not `wait`, BlockingIOError if another process has it."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
