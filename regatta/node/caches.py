"""Makes caches cold: prepared forms of inputs go, and the pages that the kernel keeps of files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Iterator

from regatta.node import hdfs, rights, rundirs, trees
from regatta.node.problem import Problem
from regatta_protocol.operations.hosts import Cooled

if TYPE_CHECKING:
    from regatta_protocol.place import Place

PAGES = "/proc/sys/vm/drop_caches"


def cool(place: Place, whole: bool = True) -> Cooled:
    """Remove prepared forms of inputs and pages of files.

    All pages need root and their own kernel (`whole`: try it); else those of input files and HDFS's blocks go.
    """
    os.sync()  # only pages that are on the disk can go
    removed = _remove_prepared(place)
    reason = "was not asked for"
    if whole:
        try:
            with open(PAGES, "w") as file:
                file.write("3\n")
            return Cooled(removed, "all")
        except OSError as error:
            reason = f"{PAGES}: {error.strerror}"
    for folder in (os.path.join(place["state"], "data"), *_block_folders()):
        for path in _files(folder):
            _forget(path)
    return Cooled(removed, "inputs", reason)


def _prepared(place: Place) -> str:
    """Return where runs keep prepared forms: as `workloads.common.storage.prepared` finds it for the user of runs."""
    if place.get("user"):
        return os.path.join(rundirs.home(place), ".cache", "regatta", "prepared")
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.environ.get("REGATTA_PREPARED") or os.path.join(cache, "regatta", "prepared")


@rights.shared()
def _remove_prepared(place: Place) -> int:
    folder = _prepared(place)
    try:
        names = [name for name in os.listdir(folder) if os.path.isdir(os.path.join(folder, name))]
    except OSError:
        return 0
    for name in names:
        trees.remove(os.path.join(folder, name))
    return len(names)


def _block_folders() -> list[str]:
    try:
        found = hdfs.setting("hdfs-site.xml", "dfs.datanode.data.dir")
    except (OSError, Problem):
        return []
    return [folder.split("]")[-1].replace("file://", "") for folder in found.split(",")]


def _files(folder: str) -> Iterator[str]:
    for base, _, names in os.walk(folder):
        for name in names:
            yield os.path.join(base, name)


def _forget(path: str) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)
