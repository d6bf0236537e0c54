"""What a workload says of itself in its card, as values: its options, which of them do not go together, its group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workloads.common.part import Group


@dataclass(frozen=True)
class Option:
    """An option of the command line; `name` has a ``_`` where that has a ``-``.

    `excludes`: options that are not given together with it. `of_run`: a path that means the same in every process of
    the run, with its id for ``{run}``. A number is at least `least`, more than `above`, less than `below`.
    """

    name: str
    kind: str
    help: str = ""
    default: Any = None
    metavar: str | None = None
    required: bool = False
    choices: tuple[str, ...] = ()
    least: float | None = None
    above: float | None = None
    below: float | None = None
    excludes: tuple[str, ...] = ()
    of_run: bool = False


@dataclass(frozen=True)
class When:
    """A condition on options: each has the value, or one of the values; True: it is given and not zero, False: not."""

    values: Mapping[str, Any]

    def holds(self, given: Mapping[str, Any]) -> bool:
        """Whether all of it is true of the options of a command line."""
        return all(_fits(given[name], wanted) for name, wanted in self.values.items())


@dataclass(frozen=True)
class Fault:
    """Options that do not go together: `say` tells so in one sentence, with their values for ``{option}``.

    `frameworks`: under these alone; empty: under all.
    """

    when: When
    say: str
    frameworks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Card:
    """`items`: it is a function over items; `search`: trials of a function. Else it is made of parts: `group` is how
    they talk to each other while `grouped` holds, None: they do not."""

    description: str
    options: tuple[Option, ...]
    faults: tuple[Fault, ...] = ()
    group: Group | None = None
    grouped: When = When({})
    items: bool = False
    search: bool = False

    def fault(self, given: Mapping[str, Any], framework: str) -> str | None:
        """What is wrong with options that do not go together, as one sentence; None where they do."""
        mine = (fault for fault in self.faults if not fault.frameworks or framework in fault.frameworks)
        return next((fault.say.format_map(given) for fault in mine if fault.when.holds(given)), None)

    def group_of(self, given: Mapping[str, Any]) -> Group | None:
        """How the parts of a run with these options talk to each other; None: not at all."""
        return self.group if self.grouped.holds(given) else None


def _fits(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, bool):
        return bool(value) is wanted
    return value in wanted if isinstance(wanted, list) else bool(value == wanted)
