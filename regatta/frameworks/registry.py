"""Which frameworks there are: a module each in `adapters/`, and entry points of packages outside Regatta.

Only the adapter that is asked for is imported; names cost no import of any.
"""

import functools
import importlib
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from regatta.errors import RegattaError, UsageError
from regatta.frameworks.api import Framework
from regatta.frameworks.plan import Plan
from regatta.frameworks.spec import Spec
from regatta.hosts.cluster import Cluster

GROUP = "regatta.frameworks"
"""The group of entry points by which other packages bring adapters: `dask = "their.module:FRAMEWORK"`."""
ADAPTERS = Path(__file__).with_name("adapters")


class Unknown(Framework):
    """A framework of which this Regatta has no adapter: its runs and records can be seen, and its runs ended."""

    def __init__(self, name: str) -> None:
        self.name = name

    def specs(self, plan: Plan, cluster: Cluster) -> dict[str, Spec]:
        """Nothing can be started. Raises UsageError."""
        raise UsageError(f"this Regatta has no framework {self.name}")


def names() -> tuple[str, ...]:
    """All frameworks that there are, by name."""
    return tuple(sorted({*_own(), *_brought()}))


@functools.cache
def find(name: str) -> Framework:
    """The adapter of a framework. UsageError where there is none, RegattaError where it cannot be loaded."""
    try:
        if name in _own():
            module = importlib.import_module(f"regatta.frameworks.adapters.{name.replace('-', '_')}")
            made = module.FRAMEWORK
        elif name in _brought():
            made = _brought()[name].load()
        else:
            raise UsageError(f"there is no framework {name}: there are {', '.join(names())}")
    except (ImportError, AttributeError) as error:
        raise RegattaError(f"the framework {name} cannot be loaded: {error}") from error
    if not isinstance(made, Framework) or made.name != name:
        raise RegattaError(f"the framework {name} cannot be loaded: its FRAMEWORK is not an adapter of that name")
    return made


@functools.cache
def of_run(name: str) -> Framework:
    """The adapter of a run's or a record's framework, `Unknown` where there is none: it may be one of others."""
    try:
        return find(name)
    except RegattaError:
        return Unknown(name)


def order(name: str) -> tuple[int, str]:
    """Where a framework stands among others: to sort by."""
    return of_run(name).order, name


def ordered(found: Iterable[str]) -> list[str]:
    """Frameworks, each once, in the order in which they are shown."""
    return sorted(set(found), key=order)


def _own() -> set[str]:
    return {path.stem.replace("_", "-") for path in ADAPTERS.glob("*.py") if not path.stem.startswith("_")}


@functools.cache
def _brought() -> dict[str, metadata.EntryPoint]:
    return {point.name: point for point in metadata.entry_points(group=GROUP)}
