"""Puts the results of Ray Train and Tune into the run's part of the shared folder, where a script names no place for
them or one that cannot be it: a relative path, which means another folder on each host, or one that may not be written.

They are then the run's outputs, and no other project's. A folder of the working directory that the project keeps stays
such a place, also `ray_results`, which is Ray's own name for a place that is not named.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import os
import sys
from typing import Any, Iterator

CONSTANTS = "ray.train.constants"
STORAGES = ("ray.train._internal.storage", "ray.train.v2._internal.execution.storage")
SHARED, PROJECT = "REGATTA_SHARED", "REGATTA_PROJECT"
RESULTS, HERE = "ray_results", "file://"
_told: set[str] = set()


def watch() -> None:
    """Change where Ray puts them, as soon as the program imports that."""
    if SHARED in os.environ:
        importlib.import_module("regatta_imports").watch({CONSTANTS: unnamed, **dict.fromkeys(STORAGES, placed)})


@contextlib.contextmanager
def unnamed(module: Any) -> Iterator[None]:
    """Name the place of results that have none."""
    yield
    module.DEFAULT_STORAGE_PATH = place(RESULTS)


@contextlib.contextmanager
def placed(module: Any) -> Iterator[None]:
    """Let what is written go to a place that all hosts see."""
    yield
    begin = module.StorageContext.__init__
    signature = inspect.signature(begin)

    @functools.wraps(begin)
    def begun(*args: Any, **more: Any) -> None:
        given = signature.bind(*args, **more)
        path = given.arguments["storage_path"]
        if given.arguments.get("storage_filesystem") is None and not given.arguments.get("read_only"):
            given.arguments["storage_path"] = place(os.fspath(path))
            tell(os.fspath(path), given.arguments["storage_path"])
        begin(*given.args, **given.kwargs)

    module.StorageContext.__init__ = begun


def place(path: str) -> str:
    """Return where results go that a script wants at a path."""
    shared, usual = os.environ[SHARED], os.path.expanduser(f"~/{RESULTS}")
    path = path[len(HERE) :] if path.startswith(f"{HERE}/") else path
    if "://" in path or not os.path.isdir(shared):
        return path
    if path == usual or path.startswith(f"{usual}/"):
        path = RESULTS + path[len(usual) :]
    if os.path.isabs(path):
        return path if writable(path) else os.path.join(shared, os.path.basename(path.rstrip("/")) or RESULTS)
    real, kept = os.path.realpath(path), os.environ.get(PROJECT)
    if kept and real.startswith(f"{os.path.realpath(kept)}/"):
        return real
    return os.path.join(shared, *(name for name in path.split("/") if name not in ("", ".", "..")))


def writable(path: str) -> bool:
    """Whether a folder can be written, or made."""
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    return os.path.isdir(path) and os.access(path, os.W_OK | os.X_OK)


def tell(asked: str, taken: str) -> None:
    """Say once where results are that were wanted elsewhere."""
    if taken.startswith(f"{os.environ[SHARED]}/") and taken not in _told:
        _told.add(taken)
        wanted = "no storage_path is set" if asked == taken else f"all hosts cannot write to storage_path={asked!r}"
        sys.stderr.write(f"regatta: {wanted}: the results are in the run's shared folder, {taken}\n")
