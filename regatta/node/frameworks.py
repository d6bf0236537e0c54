"""The frameworks' code on a node: functions of `regatta/frameworks/<name>/node/`, found by their names.

A framework that has a service here has a module `service` there: `join` gives the variables by which a driver finds it,
and what the node notes of that; its `daemons`; `end` what a run has left in it. Its `metrics`
are what the service tells of itself.
"""

from __future__ import annotations

import glob
import importlib
import os
import re
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Sequence, TypeVar

if TYPE_CHECKING:
    from regatta_protocol.place import Place

Function = TypeVar("Function", bound=Callable[..., Any])

_PACKAGE = "regatta.frameworks"


def call(place: Place, function: str, words: Sequence[str] = ()) -> Any:
    """Return what a function says to these words, named as `framework.module.function`."""
    framework, module, name = function.split(".")
    return getattr(importlib.import_module(f"{_PACKAGE}.{framework}.node.{module}"), name)(place, *words)


def answers(place: Place, asks: Dict[str, str]) -> Dict[str, Any]:
    """Return what several functions say of this node, by the name of each answer."""
    return {answer: call(place, function) for answer, function in asks.items()}


def service(framework: str) -> Any:
    """The module of a framework's service on this node."""
    return importlib.import_module(f"{_PACKAGE}.{framework}.node.service")


def for_members(function: Function) -> Function:
    """Mark what people without sudo may ask: a word is the name of one of their runs, and they learn of no others."""
    function.for_members = True  # type: ignore[attr-defined]
    return function


def is_for_members(function: str) -> bool:
    """Whether people without sudo may ask this, named as `framework.module.function`."""
    parts = function.split(".")
    if len(parts) != 3 or not all(re.fullmatch("[a-z][a-z_]{0,40}", part) for part in parts):
        return False
    try:
        module = importlib.import_module(f"{_PACKAGE}.{parts[0]}.node.{parts[1]}")
    except ImportError:
        return False
    return getattr(getattr(module, parts[2], None), for_members.__name__, False) is True


def metrics() -> List[Any]:
    """The modules that tell what services say of themselves, of those whose files are next to this package."""
    files = os.path.join(
        os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "frameworks", "*", "node", "metrics.py"
    )
    there = sorted(path.split(os.sep)[-3] for path in glob.glob(files))
    return [importlib.import_module(f"{_PACKAGE}.{name}.node.metrics") for name in there]
