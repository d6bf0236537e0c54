"""Marks a run whose driver has joined the cluster's Ray: the supervisor warns of a missing mark."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
from typing import Any, Iterator

MODULE = "ray._private.worker"
MARK = ".ray"


def watch() -> None:
    """Look at the cluster as soon as `ray.init` has ended."""
    importlib.import_module("regatta_imports").watch({MODULE: marked})


@contextlib.contextmanager
def marked(module: Any) -> Iterator[None]:
    """Load Ray's module, and mark the run once a driver is connected to a Ray that it has not started itself."""
    yield
    begin = module.init

    @functools.wraps(begin)
    def begun(*args: Any, **more: Any) -> Any:
        found = begin(*args, **more)
        own = module._global_node
        if own is None or not own.head:
            with contextlib.suppress(OSError, KeyError), open(os.path.join(os.environ["REGATTA_SCRATCH"], MARK), "w"):
                pass
        return found

    module.init = begun
