"""The search space of a card: lists, ranges and log ranges; its points, drawn by a seed or as a grid."""

from __future__ import annotations

import difflib
import itertools
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workloads.common.events import BadInput

KINDS = ("range", "log")


@dataclass(frozen=True)
class Span:
    """Numbers from `low` to `high`, both among them; `log`: alike in each order of magnitude; `whole` ones or any."""

    low: float
    high: float
    log: bool
    whole: bool

    def at(self, share: float) -> float:
        """The number at a share of the way, 0 to 1."""
        if share in (0, 1):
            made = self.high if share else self.low
        elif self.log:
            made = self.low * (self.high / self.low) ** share
        else:
            made = self.low + share * (self.high - self.low)
        return self.within(made)

    def within(self, number: float) -> float:
        """The number of this span that is nearest to one."""
        made = min(max(number, self.low), self.high)
        return round(made) if self.whole else made


Axis = tuple[Any, ...] | Span
Point = dict[str, Any]


def read(table: Mapping[str, Any]) -> dict[str, Axis]:
    """The axes of a card's table `search.space`. Raises :class:`BadInput`."""
    if not table:
        raise BadInput("search.space: it has no axis: give at least one")
    return {name: _axis(f"search.space.{name}", value) for name, value in table.items()}


def _axis(where: str, value: Any) -> Axis:
    if isinstance(value, list | tuple):
        if not value:
            raise BadInput(f"{where}: no value, so that there would be no trial; give a list of values")
        return tuple(value)
    if not isinstance(value, Mapping) or len(value) != 1:
        raise BadInput(f"{where}: a list, {{ range = [a, b] }} or {{ log = [a, b] }} is meant, not {value!r}")
    ((kind, ends),) = value.items()
    if kind not in KINDS:
        near = difflib.get_close_matches(kind, KINDS, 1)
        raise BadInput(f"{where}: there is no '{kind}'{f', did you mean {near[0]}?' if near else ''}; say range or log")
    numbers = isinstance(ends, list | tuple) and all(type(end) in (int, float) for end in ends)
    if not numbers or len(ends) != 2 or not ends[0] < ends[1]:
        raise BadInput(f"{where}.{kind}: two numbers are meant, the smaller one first, not {ends!r}")
    if kind == "log" and ends[0] <= 0:
        raise BadInput(f"{where}.log: {ends[0]} has no logarithm; begin above 0")
    return Span(ends[0], ends[1], kind == "log", all(type(end) is int for end in ends))


def drawn(space: Mapping[str, Axis], count: int, seed: int) -> list[Point]:
    """This number of points, each by its own random numbers: the first ones are the same however many there are."""
    made = []
    for number in range(count):
        numbers = random.Random(f"{seed} {number}")
        made.append({name: _drawn(axis, numbers.random()) for name, axis in space.items()})
    return made


def _drawn(axis: Axis, share: float) -> Any:
    return axis.at(share) if isinstance(axis, Span) else axis[int(share * len(axis))]


def grid(space: Mapping[str, Axis], steps: int) -> list[Point]:
    """All combinations, the last axis the fastest; of a range so many numbers, from one end to the other."""
    values = []
    for axis in space.values():
        taken = [axis.at(step / (steps - 1)) for step in range(steps)] if isinstance(axis, Span) else axis
        values.append(list(dict.fromkeys(taken)))
    return [dict(zip(space, point, strict=True)) for point in itertools.product(*values)]
