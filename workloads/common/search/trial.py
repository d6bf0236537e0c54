"""A trial: one call of a function with the values of a point, and what it reports after each of its steps."""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import resource
import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workloads.common.events import BadInput

FOLDER = "folder"
"""The argument that gets a folder of the trial's own: what it keeps there is its checkpoint.

It is there again where the trial continues, maybe from another trial's.
"""
Report = dict[str, Any]


@dataclass(frozen=True)
class Trial:
    """All that trials of a search have in common: `function` is ``module:function``, `options` are arguments of it.

    It gives a table of numbers, or is a generator that yields one after each step, `epochs` at most; `metric` is in
    each of them. `seconds` and `megabytes`: what a trial may take; 0: no limit.
    """

    function: str
    options: Mapping[str, Any]
    metric: str
    epochs: int
    seconds: float = 0.0
    megabytes: int = 0

    def reports(self, point: Mapping[str, Any], folder: Path) -> Iterator[Report]:
        """Yield what the function reports with the values of a point. Raises what it raises, and ValueError."""
        function = found(self.function)
        own = {FOLDER: folder} if FOLDER in inspect.signature(function).parameters else {}
        made = function(**self.options, **point, **own)
        given = 0
        for report in made if inspect.isgenerator(made) else iter([made]):
            yield self._checked(report)
            given += 1
            if given == self.epochs:
                return
        if not given:
            raise ValueError(
                f"{self.function} has reported nothing: let it return or yield a table with '{self.metric}'"
            )

    def _checked(self, report: Any) -> Report:
        if not isinstance(report, Mapping) or not isinstance(report.get(self.metric), int | float):
            meant = f"a table with the number '{self.metric}' is meant"
            raise ValueError(f"{self.function} has reported {report!r}, and {meant}")
        checked: Report = json.loads(json.dumps(report))
        return checked

    def check(self, axes: Mapping[str, Any]) -> None:
        """Import the function, and raise :class:`BadInput` where it does not take these axes and the options."""
        takes = inspect.signature(found(self.function)).parameters
        names = [name for name in takes if name != FOLDER]
        if not any(one.kind is one.VAR_KEYWORD for one in takes.values()):
            for name in (*axes, *self.options):
                if name not in takes:
                    what = f"search.space.{name}" if name in axes else f"options.{name}"
                    raise BadInput(f"{what}: {self.function} takes no {name}; it takes {', '.join(names)}")
        needed = [name for name, one in takes.items() if one.default is one.empty and one.kind is not one.VAR_KEYWORD]
        if lost := [name for name in needed if name not in (*axes, *self.options, FOLDER)]:
            raise BadInput(f"search.space: {self.function} needs {lost[0]}: add it there, or as an option")


@dataclass
class Outcome:
    """A trial that has ended: its `number`, its point, what it reported, and the `error` that ended it, if one did.

    `seconds`: how long the function ran, and on which `host`. `folder`: what it has kept, where it has kept anything.
    """

    number: int
    point: dict[str, Any]
    reports: list[Report] = field(default_factory=list)
    error: str | None = None
    seconds: float = 0.0
    folder: str | None = None
    host: str = ""


@functools.cache
def found(name: str) -> Callable[..., Any]:
    """The function ``module:function``. Raises :class:`BadInput` where there is none."""
    module, _, function = name.partition(":")
    try:
        made: Callable[..., Any] = getattr(importlib.import_module(module), function)
    except ModuleNotFoundError as error:
        if error.name and module.startswith(error.name):
            raise BadInput(f"function {name}: there is no module {module} in the project: correct the card") from None
        raise
    except AttributeError:
        raise BadInput(f"function {name}: the module {module} has no {function}: correct the card") from None
    return made


def ended(code: int) -> str:
    """Return how a process has ended, by its exit code; negative: by a signal."""
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"


def limit_memory(megabytes: int) -> None:
    """Let this process take so much more memory than it has now: what asks for more than that raises. 0: no limit."""
    if not megabytes:
        return
    status = Path("/proc/self/status").read_text(encoding="ascii")
    (has,) = [int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmData:")]
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    limit = has + (megabytes << 20)
    resource.setrlimit(resource.RLIMIT_DATA, (limit if most == resource.RLIM_INFINITY else min(limit, most), most))


def words(error: BaseException, megabytes: int) -> str:
    """Return what an exception says, and of which limit it speaks."""
    said = f"{type(error).__name__}: {error}".strip().rstrip(":")
    return explained(said, megabytes)


def explained(said: str, megabytes: int) -> str:
    """The same, where an exception is words already."""
    memory = "MemoryError" in said or "can't allocate memory" in said or "not enough memory" in said
    return f"{said} (a trial may take {megabytes} MB: --trial-mb)" if memory and megabytes else said
