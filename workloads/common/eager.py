"""torch's optimizers and DDP without torch's compiler, of which they call a few functions and import all.

That import takes 0.6 s of CPU in each rank, nearly as much as torch itself. What is not compiled needs nothing of it.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import MutableSequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

NAME = "torch._dynamo"


def without_compiler() -> None:
    """Let this process train without torch's compiler. Whoever asks for more of it imports it; so do other versions."""
    import torch

    if NAME in sys.modules:
        return
    sys.modules[NAME] = torch._dynamo = _Answers(NAME)
    sys.meta_path.insert(0, _Submodules())


class _Utils:
    @staticmethod
    def get_optimize_ddp_mode() -> str:
        """Return what DDP does in compiled code, by default."""
        return "ddp_optimizer"

    def __getattr__(self, name: str) -> Any:
        return getattr(_real().utils, name)


class _TraceRules:
    @staticmethod
    def clear_lru_cache() -> None:
        """Do nothing: nothing is kept."""

    def __getattr__(self, name: str) -> Any:
        return getattr(_real().trace_rules, name)


class _Answers(ModuleType):
    """What optimizers, DDP and process groups ask of the compiler, answered as it does where nothing is compiled."""

    trace_rules = _TraceRules()
    utils = _Utils()
    __path__: MutableSequence[str] = []  # noqa: RUF012 (as `ModuleType` has it)

    @staticmethod
    def disable(function: Any, recursive: bool = True, *, wrapping: bool = True) -> Any:
        """Leave a function as it is."""
        return function

    @staticmethod
    def graph_break() -> None:
        """Do nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # `inspect` asks each module for some
            raise AttributeError(name)
        return getattr(_real(), name)


def _real() -> ModuleType:
    if isinstance(sys.modules.get(NAME), _Answers):
        del sys.modules[NAME], sys.modules["torch"]._dynamo
    return importlib.import_module(NAME)


class _Submodules(MetaPathFinder):
    """Imports the compiler before a module of it."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """See `MetaPathFinder`."""
        if not name.startswith(f"{NAME}.") or not isinstance(sys.modules.get(NAME), _Answers):
            return None
        folders = _real().__path__
        if name in sys.modules:  # imported by the compiler
            return importlib.util.spec_from_loader(name, _Imported())
        return PathFinder.find_spec(name, folders)


class _Imported(Loader):
    """Gives a module that is there."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """See `Loader`."""
        self._spec = sys.modules[spec.name].__spec__
        return sys.modules[spec.name]

    def exec_module(self, module: ModuleType) -> None:
        """See `Loader`."""
        module.__spec__ = self._spec
