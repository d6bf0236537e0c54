"""Writes to disk before a node says that it is done: a power cut does not take it back, and leaves nothing half
written.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from typing import Iterator


def settle_all(path: str) -> None:
    """Write all that the file system of `path` has in memory: for trees, where it is quicker than file by file."""
    with _opened(path) as handle:
        if ctypes.CDLL(None, use_errno=True).syncfs(handle):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)


def settle(path: str) -> None:
    """Write a file to the disk, or the names in a folder."""
    with _opened(path) as handle:
        os.fsync(handle)


def store(path: str, text: str, mode: int = 0o644) -> None:
    """Write or replace a file that only this account writes next to; it is whole or not there."""
    new = f"{path}.new"
    with open(new, "w") as file:
        file.write(text)
        file.flush()
        os.fchmod(file.fileno(), mode)
        os.fsync(file.fileno())
    os.rename(new, path)
    settle(os.path.dirname(path))


def point(link: str, target: str) -> None:
    """Let a link lead to `target`, in one step, also where a stopped try has left the new link."""
    new = f"{link}.new"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(new)
    os.symlink(target, new)
    os.rename(new, link)


@contextlib.contextmanager
def _opened(path: str) -> Iterator[int]:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield handle
    finally:
        os.close(handle)
