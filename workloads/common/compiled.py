"""Loads modules of numba functions so that their machine code is kept for every later run on this host.

numba keys what it keeps by the path of the source, and a run's sources are in the folder of their release. So the
module is loaded from a copy whose path is named by its content.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import importlib.util
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from workloads.common.storage import prepared


@functools.cache
def load(name: str, built_on: tuple[str, ...] = ()) -> ModuleType:
    """The module `name`, compiled. One process of a host compiles, others wait; without a place to write, each does.

    `built_on`: modules whose functions become part of its machine code, and which were loaded before.
    """
    path, source = _source(name)
    version = hashlib.sha256(source + b"".join(_source(other)[1] for other in built_on)).hexdigest()
    folder = prepared.cache() / "compiled" / f"{name}-{version[:16]}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        copy = folder / path.name
        if not copy.exists():
            _write(copy, source)
        with prepared.locked(folder / "lock"):
            return _module(name, copy, folder)
    except OSError:
        own = tempfile.TemporaryDirectory(prefix="regatta-compiled-")
        atexit.register(own.cleanup)
        return _module(name, path, Path(own.name))


def _source(name: str) -> tuple[Path, bytes]:
    module = sys.modules.get(name)
    found = module.__spec__ if module else importlib.util.find_spec(name)
    assert found is not None
    assert found.origin is not None
    path = Path(found.origin)
    return path, path.read_bytes()


def _module(name: str, path: Path, cache: Path) -> ModuleType:
    os.environ["NUMBA_CACHE_DIR"] = str(cache)
    with _without_linear_algebra():
        from numba.core import config

        config.CACHE_DIR = str(cache)
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def _without_linear_algebra() -> Iterator[None]:
    """Spare the half second in which numba imports scipy.linalg, only to see whether it could."""
    if "scipy.linalg" in sys.modules:
        yield
        return
    sys.modules["scipy.linalg"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules["scipy.linalg"]


def _write(path: Path, source: bytes) -> None:
    descriptor, unfinished = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(descriptor, "wb") as file:
        file.write(source)
    Path(unfinished).rename(path)
