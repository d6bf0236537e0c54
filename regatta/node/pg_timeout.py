"""Becomes `sitecustomize` of a run's ranks: gives torch.distributed process groups a timeout by default.

torch waits 30 minutes for a peer whose link is cut; a script that says nothing gets REGATTA_PG_TIMEOUT seconds.
torch is patched when the script imports it and not imported for it.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import os
import sys
from typing import Any

TARGET = "torch.distributed.distributed_c10d"


class Finder(importlib.abc.MetaPathFinder):
    """Finds `torch.distributed.distributed_c10d` as usual and patches it once it is loaded."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """See importlib.abc.MetaPathFinder."""
        if name != TARGET:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def exec_module(module: Any) -> None:
                load(module)
                patch(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def patch(module: Any) -> None:
    """Set the default timeout of process groups made later."""
    from datetime import timedelta

    with contextlib.suppress(ValueError):
        module.default_pg_timeout = timedelta(seconds=float(os.environ["REGATTA_PG_TIMEOUT"]))


if os.environ.get("REGATTA_PG_TIMEOUT"):
    sys.meta_path.insert(0, Finder())
