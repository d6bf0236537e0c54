"""Reads cards: `card.toml` next to the code of a workload, as far as its command line needs it.

A card may hold more than this reads. One with ``include = ["NAME"]`` takes over `NAME.toml` of this folder.
"""

from __future__ import annotations

import importlib.resources
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from regatta_protocol.cards import (
    NAME,
    OF_FUNCTIONS,
    OF_SEARCHES,
    PROJECT,
    Grouped,
    Kind,
    Option,
    Program,
    merged,
    wrong,
)
from regatta_protocol.decoding import FaultError, decode
from workloads.common.card import Card
from workloads.common.events import BadInput
from workloads.common.part import Group

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ITEMS, SEARCH = "items", "search"
"""The groups of workloads that are a function over items, and a search, not parts."""

Table = dict[str, Any]

_FOLDER = Path(__file__).parent


class CardError(BadInput):
    """A card is at fault; the message names its file and says how."""


def of_package(package: str) -> Card:
    """The card of a workload, by the name of its package. Raises :class:`CardError`."""
    return read(path(package))


def path(package: str) -> Path:
    """Return where the card of a workload is, by the name of its package."""
    return Path(str(importlib.resources.files(package) / NAME))


def of_project(folder: Path, name: str) -> Table:
    """The whole card of a workload of a user's project, which names a function. Raises :class:`CardError`."""
    project = folder / PROJECT
    own = [path for path in folder.glob(f"workloads/*/{NAME}") if path.parent.name.replace("_", "-") == name]
    table = _table(own[0]) if own else _table(project).get("workloads", {}).get(name)
    if table is None:
        raise CardError(f"{project}: there is no workload {name}: add workloads.{name}, or correct the name")
    table["include"] = [*table.get("include", []), *(OF_SEARCHES if SEARCH in table else OF_FUNCTIONS)]
    return _included(table)


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
    for name in _names(table.pop("include", [])):
        try:
            included = _table(_FOLDER / f"{name}.toml")
        except CardError as error:
            raise CardError(f"include: {name}.toml: {error}") from None
        if "include" in included:
            raise CardError(f"include: {name}.toml includes others itself: include those here")
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
    try:
        program = decode(Program, table)
    except FaultError as error:
        raise CardError(str(error)) from None
    for place, said in wrong(program.options, program.faults):
        raise CardError(f"{place}: {said}")
    kind, when = _group(program.group, program.options)
    return Card(
        description=program.description,
        options=tuple(_named(name, option) for name, option in program.options.items()),
        faults=program.faults,
        group=None if kind in (ITEMS, SEARCH) else kind,
        grouped=when,
        items=kind == ITEMS,
        search=kind == SEARCH,
    )


def _named(name: str, option: Option) -> Option:
    number = option.kind is Kind.NUMBER and option.default is not None
    return option.changed(name=name, **({"default": float(option.default)} if number else {}))


def _group(group: Any, options: Mapping[str, Option]) -> tuple[Any, Mapping[str, Any]]:
    try:
        found = decode(Grouped, group) if isinstance(group, dict) else Grouped(group)
    except FaultError as error:
        raise CardError(f"group.{error}") from None
    kinds = (*get_args(Group), ITEMS, SEARCH)
    if found.kind not in (None, *kinds):
        raise CardError(f"group: no kind {found.kind!r}, there are {', '.join(kinds)}")
    if lost := [name for name in found.when if name not in options]:
        raise CardError(f"group.when: there is no option {', '.join(lost)}")
    return found.kind, found.when


def _names(value: Any) -> tuple[str, ...]:
    try:
        return decode(tuple[str, ...], value)
    except FaultError as error:
        raise CardError(f"include{error.where}: {error.said}") from None
