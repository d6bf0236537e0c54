"""A folder of HDFS put in the place of another one, so that at any moment one of the two is whole and can be found.

HDFS replaces files in one step, but no folder that has something in it. So the old one is set aside below ASIDE, under
its own path, and goes when the new one is there. Where that fails it comes back, at once or with a later request.
"""

from __future__ import annotations

import posixpath
import secrets
import time
from contextlib import suppress

from workloads.common.storage.errors import StorageError
from workloads.common.storage.hdfs import Hdfs

ASIDE = "/.regatta/replaced"


def replace(hdfs: Hdfs, made: str, target: str) -> None:
    """Rename the folder or file `made` to `target`, where a folder is, or a file that a folder replaces.

    Raises StorageError; then the old one is at `target`, or where the message says.
    """
    depth = target.count("/")
    kept = f"{ASIDE}/{secrets.token_hex(8)}.{depth}"
    old = f"{kept}{target}"
    hdfs.mkdirs(posixpath.dirname(old), 0o700)
    hdfs.rename(target, old)
    try:
        hdfs.rename(made, target)
    except StorageError as error:
        if not _arrived(hdfs, made, target, old, error):
            _come_back(hdfs, old, target, error)
            with suppress(StorageError):
                hdfs.delete(kept, recursive=True)
            raise
    with suppress(StorageError):
        hdfs.delete(kept, recursive=True)


def bring_back(hdfs: Hdfs, older_than: float) -> None:
    """Put back what a killed request had set aside more than so many seconds ago, unless
    something else has come there since; then it goes. Raises StorageError."""
    if hdfs.find(ASIDE) is None:
        return
    for info in hdfs.listing(ASIDE):
        if time.time() - info.modified / 1000 < older_than:
            continue
        if old := _kept(hdfs, info.path):
            target = old[len(info.path) :]
            if hdfs.find(target) is None:
                hdfs.mkdirs(posixpath.dirname(target))
                hdfs.rename(old, target)
        hdfs.delete(info.path, recursive=True)


def _arrived(hdfs: Hdfs, made: str, target: str, old: str, error: StorageError) -> bool:
    """Whether the renaming was done, though its answer was lost."""
    try:
        return hdfs.find(target) is not None and hdfs.find(made) is None
    except StorageError:
        raise _left(old, target, error) from error


def _come_back(hdfs: Hdfs, old: str, target: str, error: StorageError) -> None:
    try:
        hdfs.rename(old, target)
    except StorageError:
        raise _left(old, target, error) from error


def _left(old: str, target: str, error: StorageError) -> StorageError:
    return StorageError(
        f"hdfs://{target}: could not be replaced ({error}). The old one is kept in hdfs://{old}; "
        "a data-put or data-gen in ten minutes or later brings it back"
    )


def _kept(hdfs: Hdfs, folder: str) -> str:
    """The path of what is kept below a folder of ASIDE; empty where nothing is."""
    path = folder
    for _ in range(int(folder.rpartition(".")[2])):
        inside = hdfs.listing(path)
        if not inside:
            return ""
        path = inside[0].path
    return path
