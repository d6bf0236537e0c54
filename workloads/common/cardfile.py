"""Reads cards: `card.toml` beside the code of a workload, as far as its command line needs it.

A card may hold more than this reads. One with ``include = ["NAME"]`` takes over `NAME.toml` of this folder.
"""

from __future__ import annotations

import importlib.resources
import string
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from regatta_protocol.cards import NAME, OF_FUNCTIONS, OF_SEARCHES, PROJECT, merged
from workloads.common.card import Card, Fault, Option, When
from workloads.common.events import BadInput
from workloads.common.part import Group

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ITEMS, SEARCH = "items", "search"
"""The groups of workloads that are a function over items, and a search, not parts."""

Table = dict[str, Any]
Types = tuple[type, ...]

KINDS: Mapping[str, Types] = {
    "text": (str,),
    "path": (str,),
    "whole number": (int,),
    "number": (int, float),
    "list": (list,),
    "true or false": (),
    "ranks": (),
}
"""What an option may be, and of which types its default is in the card: () where it has none."""

_TYPES: Mapping[str, Types] = {
    **dict.fromkeys(("kind", "help", "metavar"), (str,)),
    **dict.fromkeys(("least", "above", "below"), (int, float)),
    **dict.fromkeys(("choices", "excludes"), (list,)),
    **dict.fromkeys(("required", "of_run"), (bool,)),
    "default": (),
}
_WORDS = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    list: "a list",
    dict: "a table",
    bool: "true or false",
}

_FOLDER = Path(__file__).parent
_RESERVED = ("help", "framework")


class CardError(BadInput):
    """A card is at fault; the message names its file and says how."""


def of_package(package: str) -> Card:
    """The card of a workload, by the name of its package. Raises :class:`CardError`."""
    return read(path(package))


def path(package: str) -> Path:
    """Where the card of a workload is, by the name of its package."""
    return Path(str(importlib.resources.files(package) / NAME))


def of_project(folder: Path, name: str) -> Table:
    """The whole card of a workload of a user's project, which names a function. Raises :class:`CardError`."""
    project = folder / PROJECT
    own = [path for path in folder.glob(f"workloads/*/{NAME}") if path.parent.name.replace("_", "-") == name]
    table = _table(own[0]) if own else _table(project).get("workloads", {}).get(name)
    if table is None:
        raise CardError(f"{project}: there is no workload {name}")
    table["include"] = [*table.get("include", []), *(OF_SEARCHES if SEARCH in table else OF_FUNCTIONS)]
    whole = _included(table)
    for option in whole["options"].values():
        option.setdefault("kind", "text")
    return whole


def made(table: Table) -> Card:
    """The card of what a file says. Raises :class:`CardError`."""
    return _card(table)


def read(file: Path) -> Card:
    """The card of this file and of what it includes. Raises :class:`CardError`."""
    try:
        return _card(whole(file))
    except CardError as error:
        raise CardError(f"{file}: {error}") from None


def whole(path: Path) -> Table:
    """All that a card says, with what it includes. Raises :class:`CardError`."""
    return _included(_table(path))


def _included(table: Table) -> Table:
    for name in _strings(table.pop("include", []), "include"):
        try:
            included = _table(_FOLDER / f"{name}.toml")
        except CardError as error:
            raise CardError(f"include: {name}.toml: {error}") from None
        if "include" in included:
            raise CardError(f"include: {name}.toml includes others itself")
        table = merged(table, included)
    return table


def _table(path: Path) -> Table:
    try:
        table: Table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CardError(str(error.strerror)) from None
    except ValueError as error:
        raise CardError(str(error)) from None
    return table


def _card(table: Table) -> Card:
    options = tuple(_option(name, own) for name, own in _of_type(table.get("options", {}), (dict,), "options").items())
    names = {option.name for option in options}
    _check_excludes(options, names)
    group = table.get("group")
    kind, when = (group.get("kind"), group.get("when", {})) if isinstance(group, dict) else (group, {})
    kinds = (*get_args(Group), ITEMS, SEARCH)
    if kind not in (None, *kinds):
        raise CardError(f"group: no kind {kind!r}, there are {', '.join(kinds)}")
    return Card(
        description=_of_type(table.get("description", ""), (str,), "description"),
        options=options,
        faults=tuple(_fault(own, names) for own in _of_type(table.get("faults", []), (list,), "faults")),
        group=None if kind in (ITEMS, SEARCH) else kind,
        grouped=_when(when, names, "group"),
        items=kind == ITEMS,
        search=kind == SEARCH,
    )


def _option(name: str, table: Any) -> Option:
    where = f"options.{name}"
    if not name.isidentifier() or name in _RESERVED:
        raise CardError(f"{where}: no name for an option")
    given = {key: value for key, value in _of_type(table, (dict,), where).items() if key in _TYPES}
    for key, value in given.items():
        if key in ("choices", "excludes"):
            given[key] = tuple(_strings(value, f"{where}.{key}"))
        elif key != "default":
            _of_type(value, _TYPES[key], f"{where}.{key}")
    if given.get("kind") not in KINDS:
        raise CardError(f"{where}: no kind {given.get('kind')!r}, there are {', '.join(KINDS)}")
    if given.get("choices") and given["kind"] != "text":
        raise CardError(f"{where}.choices: only a text has choices")
    if "default" in given:
        given["default"] = _default(given, where)
    return Option(name, **given)


def _default(given: Table, where: str) -> Any:
    kind, value = given["kind"], given["default"]
    _of_type(value, KINDS[kind], f"{where}.default")
    if given.get("choices") and value not in given["choices"]:
        raise CardError(f"{where}.default: {value!r} is none of its choices")
    if kind == "list":
        return tuple(_strings(value, f"{where}.default"))
    return float(value) if kind == "number" else value


def _check_excludes(options: Sequence[Option], names: set[str]) -> None:
    """Those that exclude each other are groups: an option is in one at most, and then it is not required."""
    grouped: set[str] = set()
    for option in options:
        if not option.excludes:
            continue
        where, several = f"options.{option.name}.excludes", {option.name, *option.excludes}
        if unknown := several - names:
            raise CardError(f"{where}: {min(unknown)!r} is no option")
        if twice := several & grouped:
            raise CardError(f"{where}: {min(twice)!r} is among options that exclude each other already")
        grouped |= several
    if required := [option.name for option in options if option.required and option.name in grouped]:
        raise CardError(f"options.{required[0]}: required, and excluded by another option")


def _fault(table: Any, names: set[str]) -> Fault:
    say = _of_type(_of_type(table, (dict,), "faults").get("say"), (str,), "faults.say")
    try:
        fields = [field for _, field, _, _ in string.Formatter().parse(say) if field is not None]
    except ValueError as error:
        raise CardError(f"faults.say: {error}: {say!r}") from None
    if unknown := set(fields) - names:
        raise CardError(f"faults.say: {min(unknown)!r} is no option: {say!r}")
    if not table.get("when"):
        raise CardError(f"faults: no 'when': {say!r}")
    under = tuple(_strings(table.get("frameworks", []), "faults.frameworks"))
    return Fault(_when(table["when"], names, "faults"), say, under)


def _when(values: Any, names: set[str], where: str) -> When:
    if unknown := set(_of_type(values, (dict,), f"{where}.when")) - names:
        raise CardError(f"{where}.when: {min(unknown)!r} is no option")
    return When(values)


def _strings(value: Any, where: str) -> list[str]:
    return [_of_type(one, (str,), where) for one in _of_type(value, (list,), where)]


def _of_type(value: Any, types: Types, where: str) -> Any:
    """The value, where it is of one of these types; in TOML a truth is no number."""
    if type(value) not in types:
        meant = _WORDS[types[-1]] if types else "no value"
        raise CardError(f"{where}: {value!r}, where {meant} is meant")
    return value
