"""A card out of a TOML table, with what it includes. One error lists all that is wrong with it, with places."""

import difflib
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

from msgspec import ValidationError, convert

from regatta import paths
from regatta.cards.card import (
    Card,
    Estimate,
    Generator,
    Input,
    Kind,
    Made,
    Option,
    PublishedFigures,
    Search,
    Span,
    flag,
    missing,
)
from regatta.errors import CardError
from regatta.options import declaration
from regatta.options.declaration import OF_PROJECTS
from regatta_protocol.cards import includes, merged, wrong

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CHECKPOINTS = (declaration.CHECKPOINT.name, "checkpoint_every", *declaration.OF_CHECKPOINTS)
"""Options of a program that continues from checkpoints; of the command, too."""
INCLUDED = paths.PROJECT / "workloads" / "common"
_Made = TypeVar("_Made")
_UNKNOWN = re.compile(r"unknown field `(.*?)`")
_TABLES = (Card, Option, Input, Made, Generator, Estimate, Search, Span)
_KEYS = {name for table in _TABLES for name in table.__struct_fields__}
_WORDS = {
    "Object": "the table",
    "`str`": "text",
    "`int`": "a whole number",
    "`float`": "a number",
    "`bool`": "true or false",
    "`array`": "a list",
    "`object`": "a table",
    "field": "key",
    "`": "'",
}
_TIME = re.compile(r"(?:(\d+)')?(?:(\d+(?:\.\d+)?)'')?\Z")


def document(path: Path) -> dict[str, Any]:
    """A TOML file. CardError where it is none."""
    try:
        return dict(tomllib.loads(path.read_text(encoding="utf-8-sig")))
    except (OSError, ValueError) as error:
        raise CardError(f"{path}: {error}") from None


def card(table: Mapping[str, Any], where: str) -> Card:
    """The card in a table. CardError lists what is wrong with it."""
    whole = dict(table)
    for name in includes(table):
        path = INCLUDED / f"{name}.toml"
        if not re.fullmatch("[a-z-]+", str(name)) or not path.is_file():
            known = ", ".join(sorted(file.stem for file in INCLUDED.glob("*.toml")))
            raise CardError(f"{where}: include: there is no '{name}'; there is {known}")
        whole = merged(whole, document(path))
    options = whole.get("options", {})
    for name, given in options.items() if isinstance(options, Mapping) else ():
        convert_table(given, Option, f"{where}: options.{name}")
    found = convert_table(whole, Card, where)
    if faults := [*_faults(found)]:
        raise CardError(f"{where}:\n  " + "\n  ".join(faults))
    return found


def seconds(text: str) -> float | None:
    """`2'25''` -> 145; None where it is no such time."""
    found = _TIME.match(text)
    if not found or not text:
        return None
    return 60 * float(found[1] or 0) + float(found[2] or 0)


def convert_table(table: object, to: type[_Made], where: str) -> _Made:
    """A table as one of the card's types. CardError with the place."""
    try:
        return convert(table, to)
    except ValidationError as error:
        said, _, place = str(error).partition(" - at `$")
        place = place.rstrip("`").lstrip(".")
        hint = ""
        if unknown := _UNKNOWN.search(said):
            near = difflib.get_close_matches(
                unknown[1], {*_KEYS, *OF_PROJECTS, *getattr(to, "__struct_fields__", ())}, 1
            )
            hint = f", did you mean '{near[0]}'?" if near else ""
        elif "enum" in said:
            hint = f"; there are {', '.join(get_args(Kind))}" if place.endswith("kind") else ""
        text = f"{where}: {place + ': ' if place else ''}{_plain(said)}{hint}; see docs/reference/cards.md"
        raise CardError(text) from None


def _plain(said: str) -> str:
    """msgspec's words in those of TOML."""
    for theirs, ours in _WORDS.items():
        said = said.replace(theirs, ours)
    return said[:1].lower() + said[1:]


def _faults(found: Card) -> Iterator[str]:
    if sum(one is not None for one in (found.module, found.command, found.function)) != 1:
        yield (
            "say either command (a script of the project, with its arguments), or module (as python -m takes it), "
            "or function (module:function of the project, with its items)"
        )
    yield from _of_items(found)
    yield from _of_search(found)
    if not found.frameworks:
        yield "frameworks: name at least one"
    if isinstance(found.command, dict) and (lost := missing(found.frameworks, found.command)):
        yield f"command: says nothing for {', '.join(lost)}"
    yield from (f"{place}: {said}" for place, said in wrong(found.options, found.faults))
    for name, option in found.options.items():
        yield from (f"options.{name}.{text}" for text in _of_option(found, name, option))
    known: Mapping[str, object] = found.options
    named = {
        "size": [found.size] if found.size else [],
        "length": [found.length] if found.length else [],
        "input.option": [found.input.option] if found.input else [],
        "input.keep": [found.input.keep] if found.input and found.input.keep else [],
        "estimate.times": found.estimate.times,
        "estimate.factors": [*found.estimate.factors],
        "checkpoints": CHECKPOINTS if found.checkpoints else [],
        **{f"published[{index}].parameters": [*given.parameters] for index, given in enumerate(found.published, 1)},
    }
    for place, names in named.items():
        if lost := missing(names, known):
            yield f"{place}: there is no option {', '.join(lost)}"
    for index, rule in enumerate(found.faults, 1):
        if lost := missing(rule.frameworks, found.frameworks):
            yield f"faults[{index}].frameworks: it does not run under {', '.join(lost)}"
    for index, given in enumerate(found.published, 1):
        yield from (f"published[{index}]: {said}" for said in _of_published(given))


def _of_published(given: PublishedFigures) -> Iterator[str]:
    for figure in given.figures:
        if figure.time is None and figure.speedup is None:
            yield f"a figure of {figure.framework} needs a time or a speedup"
        elif figure.time is not None and seconds(figure.time) is None:
            yield f"'{figure.time}' must be minutes'seconds'', as in 2'25''"


def _of_items(found: Card) -> Iterator[str]:
    spread = found.items is not None or found.search is not None
    if spread != (found.function is not None) and not (found.search and found.function is None):
        yield "function and items (or search) belong together: say both, or neither"
    if found.items is None:
        return
    kinds = [name for name in found.items.__struct_fields__ if getattr(found.items, name) is not None]
    if len(kinds) != 1:
        yield f"items: say one of {', '.join(found.items.__struct_fields__)}, not {' and '.join(kinds) or 'none'}"
    if (steps := found.items.range) and (steps[2:] == (0,) or not range(*steps)):
        yield f"items.range: {', '.join(map(str, steps))} has no number in it; say first, end (not in it), step"
    axes = found.items.grid
    if axes is not None and (empty := [name for name, values in axes.items() if not values] or not axes):
        which = f"the axis {empty[0]} has no value" if isinstance(empty, list) else "it has no axis"
        yield f"items.grid: {which}, so that there would be no item; give each axis a list of values"
    for name in axes or ():
        if name in found.options:
            yield f"items.grid: the axis {name} is an option, too: the function would get it twice"


def _of_search(found: Card) -> Iterator[str]:
    if found.search is None:
        return
    if found.items is not None:
        yield "items and search do not go together: a function has the one or the other"
    if isinstance(found.command, dict):
        yield "command: a search has the same script under each framework"
    if not found.search.space:
        yield "search.space: it has no axis; name an argument of the function, and its values"
    for name, axis in found.search.space.items():
        where = f"search.space.{name}"
        if name in found.options:
            yield f"{where}: it is an option, too: the function would get it twice"
        if isinstance(axis, tuple):
            if not axis:
                yield f"{where}: it has no value, so that there would be no trial; give a list of values"
            continue
        ends = axis.range or axis.log
        if ends is None or (axis.range and axis.log):
            yield f"{where}: say range = [a, b] or log = [a, b]"
        elif not ends[0] < ends[1]:
            yield f"{where}: {ends[0]} is not less than {ends[1]}: say the smaller number first"
        elif axis.log and ends[0] <= 0:
            yield f"{where}.log: {ends[0]} has no logarithm; begin above 0"


def _of_option(found: Card, name: str, option: Option) -> Iterator[str]:
    taken = declaration.reserved() | ({*CHECKPOINTS} if found.checkpoints and not option.hidden else set())
    if name in taken and not option.hidden:
        yield f"{flag(name)} is a flag of every run command: give the option another name"
    if option.each_rank and (option.kind != "whole number" or option.default is None):
        yield 'each_rank: needs kind = "whole number" and a default'
    if lost := missing([*option.packages], option.choices):
        yield f"packages: {', '.join(lost)} is none of its choices"


class Reader:
    """Reads a table's values and collects the faults, each with its place."""

    def __init__(self, table: Mapping[str, Any], where: str, faults: list[str] | None = None) -> None:
        self.table = table
        self.where = where
        self.faults: list[str] = [] if faults is None else faults

    def at(self, key: str) -> str:
        """Return where a key is, for a person."""
        return f"{self.where}.{key}" if self.where and key else self.where or key

    def fault(self, key: str, text: str) -> None:
        """Keep a fault of a key."""
        place = self.at(key)
        self.faults.append(f"{place}: {text}" if place else text)

    def known(self, keys: set[str]) -> None:
        """Fault every key that is not one of these."""
        for key in self.table:
            if key not in keys:
                near = difflib.get_close_matches(key, keys, 1)
                hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(keys))}"
                self.fault(key, f"is unknown; {hint}")

    def whole(self, key: str, default: int, *, least: int) -> int:
        """A whole number of at least `least`."""
        value = self.table.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            self.fault(key, f"must be a whole number of at least {least}, not {value!r}")
            return default
        return value

    def wholes(self, key: str) -> list[int]:
        """Whole numbers of at least 1, each once; one by itself may be given without a list."""
        value = self.table.get(key, [])
        items = value if isinstance(value, list) else [value]
        if key in self.table and not items:
            self.fault(key, "is empty: say at least one number")
        good = [item for item in items if isinstance(item, int) and not isinstance(item, bool) and item >= 1]
        for item in items:
            if item not in good:
                self.fault(key, f"must be whole numbers of at least 1, not {item!r}")
        if len(set(good)) != len(good):
            self.fault(key, "names a number twice")
        return good

    def number(self, key: str, *, above: float) -> float | None:
        """A number above `above`; None where there is none."""
        value = self.table.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > above:
            self.fault(key, f"must be a number above {above:g}, not {value!r}")
            return None
        return float(value)

    def text(self, key: str) -> str | None:
        """Text that is not empty; None where there is none."""
        value = self.table.get(key)
        if value is not None and not (isinstance(value, str) and value):
            self.fault(key, f"must be text, not {value!r}")
            return None
        return value

    def flag(self, key: str) -> bool:
        """true or false; false where there is none."""
        value = self.table.get(key, False)
        if not isinstance(value, bool):
            self.fault(key, f"must be true or false, not {value!r}")
        return value is True

    def choice(self, key: str, words: Sequence[str], default: str | None) -> str:
        """One of some words; without a default it must be there."""
        value = self.table.get(key, default)
        if value not in words:
            self.fault(key, f"must be {' or '.join(words)}" + (f", not {value!r}" if value is not None else ""))
            return default or ""
        return str(value)


def count(number: int) -> str:
    """`1 fault`, `2 faults`."""
    return f"{number} fault{'s' if number != 1 else ''}"
