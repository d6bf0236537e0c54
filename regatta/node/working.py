"""The working directory of a run: a copy of its release that is the run's own, to write in anywhere.

Made as the account of runs. If the file system can share blocks (btrfs, XFS), the kernel does so.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import Dict, List, Tuple

MOST_BYTES = 512 << 20
"""So much of a release is copied, its smaller files first. Larger ones are there as a link to the release."""
_BLOCK = 1 << 20
_CANNOT = {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EBADF, errno.ETXTBSY}


def make(release: str, work: str, most: int = MOST_BYTES) -> Dict[str, List[int]]:
    """Make the folder `work` with what the folder `release` has. Files keep their times, links are the same links.

    Gives the bytes and the time, in nanoseconds, of each file, by its path.
    """
    os.mkdir(work, 0o755)
    files: List[Tuple[int, str, os.stat_result]] = []
    folders = [""]
    while folders:
        inside = folders.pop()
        with os.scandir(os.path.join(release, inside)) as entries:
            for entry in entries:
                path = os.path.join(inside, entry.name)
                if entry.is_symlink():
                    os.symlink(os.readlink(entry.path), os.path.join(work, path))
                elif entry.is_dir(follow_symlinks=False):
                    os.mkdir(os.path.join(work, path), 0o755)
                    folders.append(path)
                elif entry.is_file(follow_symlinks=False):
                    info = entry.stat(follow_symlinks=False)
                    files.append((info.st_size, path, info))
    if sum(size for size, _, _ in files) > most:
        files.sort(key=lambda one: one[:2])
    for size, path, info in files:
        most -= size
        if most < 0:
            os.symlink(os.path.join(release, path), os.path.join(work, path))
        else:
            _copy(os.path.join(release, path), os.path.join(work, path), info)
    return {path: [size, info.st_mtime_ns] for size, path, info in files}


def _copy(source: str, target: str, info: os.stat_result) -> None:
    mode = stat.S_IMODE(info.st_mode) | stat.S_IWUSR
    read = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        write = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode & 0o755)
        try:
            if info.st_size <= _BLOCK or not _shared(read, write, info.st_size):
                while block := os.read(read, _BLOCK):
                    _write(write, block)
            os.utime(write, ns=(info.st_atime_ns, info.st_mtime_ns))
        finally:
            os.close(write)
    finally:
        os.close(read)


def _shared(read: int, write: int, left: int) -> bool:
    """Whether the kernel has copied it, by sharing blocks where it can; else nothing has been read or written."""
    copied = 0
    with contextlib.suppress(AttributeError):  # a Python built for a system without it
        try:
            while copied < left:
                count = os.copy_file_range(read, write, left - copied)
                if count == 0:
                    break
                copied += count
        except OSError as error:
            if copied or error.errno not in _CANNOT:
                raise
    return copied > 0


def _write(descriptor: int, block: bytes) -> None:
    left = memoryview(block)
    while left:
        left = left[os.write(descriptor, left) :]
