"""Does something around the loading of modules that a program may import; they are found as usual."""

from __future__ import annotations

import copy
import importlib.abc
import sys
from typing import Any, Callable, ContextManager, Dict

Around = Callable[[Any], ContextManager[None]]
"""A module that is about to be loaded -> what is entered before that and left behind it."""


class Finder(importlib.abc.MetaPathFinder):
    """Each module is found by it once."""

    def __init__(self, around: Dict[str, Around]) -> None:
        self.around = around

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """See importlib.abc.MetaPathFinder."""
        around = self.around.pop(name, None)
        if around is None:
            return None
        spec = self._found(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = copy.copy(spec.loader)  # that of an archive is the loader of all modules there
            load = spec.loader.exec_module

            def exec_module(module: Any) -> None:
                with around(module):
                    load(module)

            spec.loader.exec_module = exec_module
        return spec

    def _found(self, name: str, path: Any, target: Any) -> Any:
        """Return what the finders after this one find, others of this kind among them."""
        others = sys.meta_path[sys.meta_path.index(self) + 1 :]
        return next(filter(None, (other.find_spec(name, path, target) for other in others)), None)


def watch(around: Dict[str, Around]) -> None:
    """Watch for modules by their full names."""
    sys.meta_path.insert(0, Finder(around))
