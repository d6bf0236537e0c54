"""Which frameworks there are: a folder each next to this file, names in `table`, entry points of packages outside.

Only the adapter that is asked for is imported; names cost no import of any.
"""

import functools
import importlib
import itertools
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from regatta.errors import RegattaError, UsageError
from regatta.frameworks import table
from regatta.frameworks.api import Framework
from regatta.frameworks.plan import Plan
from regatta.hosts.cluster import Cluster
from regatta_protocol.run import Spec

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "regatta.frameworks"
"""The group of entry points by which other packages bring adapters: `dask = "their.module:FRAMEWORK"`."""


class Unknown(Framework):
    """A framework of which this Regatta has no adapter: its runs and records can be seen, and its runs ended."""

    def __init__(self, name: str) -> None:
        self.name = name

    def specs(self, plan: Plan, cluster: Cluster) -> dict[str, Spec]:
        """Nothing can be started. Raises UsageError."""
        raise UsageError(f"this Regatta has no framework {self.name}: there are {', '.join(names())}")


def names() -> tuple[str, ...]:
    """All frameworks that there are, by name."""
    return tuple(sorted({*_folders(), *table.NAMED, *_brought()}))


@functools.cache
def find(name: str) -> Framework:
    """The adapter of a framework. UsageError where there is none, RegattaError where it cannot be loaded."""
    try:
        if name in table.NAMED:
            made = table.NAMED[name].of(find(table.NAMED[name].framework), name)
        elif name in _folders():
            made = importlib.import_module(f"regatta.frameworks.{name}.adapter").FRAMEWORK
        elif name in _brought():
            made = _brought()[name].load()
        else:
            raise UsageError(f"there is no framework {name}: there are {', '.join(names())}")
    except (ImportError, AttributeError) as error:
        raise RegattaError(
            f"the framework {name} cannot be loaded: install or correct what is missing ({error})"
        ) from error
    if not isinstance(made, Framework) or made.name != name:
        raise RegattaError(
            f"the framework {name} cannot be loaded: its FRAMEWORK is not an adapter of that name; "
            "correct its package or remove it"
        )
    return made


@functools.cache
def of_run(name: str) -> Framework:
    """The adapter of a run's or a record's framework, `Unknown` where there is none, as of another installation."""
    try:
        return find(name)
    except RegattaError:
        return Unknown(name)


def every() -> list[Framework]:
    """The adapters of all, those behind the others that are another one by their own name."""
    return [of_run(name) for name in sorted(names(), key=lambda name: (name in table.NAMED, name))]


def of_command(command: str) -> str:
    """The name of the framework under which a command runs a script; imports few adapters, mostly one."""
    likely = sorted(_folders(), key=lambda name: (not command.startswith(name), name))
    return next(name for name in itertools.chain(likely, _brought()) if of_run(name).command == command)


@functools.cache
def packages() -> tuple[str, ...]:
    """The packages of the nodes' environment that frameworks are; last those of which services are made."""
    found = {(name in one.fixed, name) for one in every() for name in one.packages}
    return tuple(name for _, name in sorted(found))


@functools.cache
def _folders() -> set[str]:
    return {path.parent.name for path in Path(__file__).parent.glob("*/adapter.py")}


@functools.cache
def _brought() -> "dict[str, EntryPoint]":
    if not _some_declare():
        return {}
    from importlib import metadata  # takes longer than the search

    return {point.name: point for point in metadata.entry_points(group=GROUP)}


def _some_declare() -> bool:
    """Whether a package that is installed here has entry points of the group."""
    found = (file for place in sys.path for file in Path(place).glob("*.*-info/entry_points.txt"))
    return any(f"[{GROUP}]" in file.read_text(errors="replace") for file in found)
