"""Files of this machine: whole or not at all, on the disk, their sums, one process at a time; for `make setup` too."""

import fcntl
import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def beside(path: Path) -> Iterator[Path]:
    """A path in the folder of `path` that nothing else writes; what is left there at the end is deleted."""
    new = path.with_name(f".{secrets.token_hex(8)}.new")
    try:
        yield new
    finally:
        new.unlink(missing_ok=True)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """As `beside`: what is written there takes the place of `path`, unless an error comes between; then on the disk."""
    with beside(path) as new:
        yield new
        put(new, path)


def put(new: Path, path: Path) -> None:
    """Let a file, or a folder of files, take the place of `path`; it is on the disk when this returns. OSError."""
    settle(new)
    new.replace(path)
    settle_name(path)


def settle(path: Path) -> None:
    """Write a file to the disk, or a folder with all that is in it, of any depth. OSError."""
    waiting = [path]
    while waiting:
        here = waiting.pop()
        _sync(here)
        if here.is_dir():
            waiting += [inside for inside in here.iterdir() if not inside.is_symlink()]


def settle_name(path: Path) -> None:
    """Write to the disk that a path is in its folder."""
    with suppress(OSError):  # not every file system knows how to
        _sync(path.parent)


def make_folder(path: Path) -> None:
    """Make a folder, and those above it that are missing; they are on the disk when this returns. OSError."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in missing:
        settle_name(folder)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def create(path: Path, content: str | bytes, mode: int = 0o644) -> None:
    """Write a file that must not be there yet; it is on the disk when this returns. OSError."""
    data = content.encode() if isinstance(content, str) else content
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fchmod(file.fileno(), mode)
        os.fsync(file.fileno())


def write(path: Path, content: str | bytes, mode: int = 0o644) -> None:
    """Write or replace a file, whole or not at all. OSError."""
    with replacing(path) as new:
        create(new, content, mode)


def digest(path: Path, algorithm: str) -> str:
    """A sum of a file's content, in hex."""
    found = hashlib.new(algorithm)
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            found.update(block)
    return found.hexdigest()


def sha256(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    return digest(path, "sha256")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """One process at a time; others wait."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
