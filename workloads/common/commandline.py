"""The command line that a card describes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from regatta_protocol.cards import Kind, Option
from workloads.common import framework, values
from workloads.common.arguments import Parser
from workloads.common.card import Card

_METAVARS = {"text": "TEXT", "path": "PATH", "whole number": "N", "number": "X", "list": "A,B,..", "ranks": "N"}
_CONVERTERS: dict[str, Callable[[Option, str], Any]] = {
    "text": values.text,
    "path": values.path,
    "whole number": values.whole_number,
    "number": values.number,
    "list": values.separated,
    "ranks": values.ranks,
}


def parser(card: Card, package: str) -> Parser:
    """The command line of the workload in `package`: the options of its card, and ``--framework``.

    Its names are those of the card. An option that is not given has its default, else (), False or None, as its kind
    says.
    """
    made = Parser(prog=f"python -m {package}", description=card.description, allow_abbrev=False)
    together = _exclusive(made, card)
    for option in card.options:
        container = together.get(option.name, made)
        container.add_argument(
            f"--{option.name.replace('_', '-')}", dest=option.name, help=_help(option), **_keywords(option)
        )
    made.add_argument(
        "--framework",
        choices=(framework.AUTO, *framework.names()),
        default=framework.AUTO,
        help=f"auto: what {framework.VARIABLE} names, else torch where WORLD_SIZE is set, else single (default auto)",
    )
    return made


def _keywords(option: Option) -> dict[str, Any]:
    """Return what ``add_argument`` takes for an option of this kind."""
    if option.kind is Kind.SWITCH:
        return {"action": "store_true"}
    common: dict[str, Any] = {
        "type": functools.partial(_CONVERTERS[option.kind], option),
        "default": () if option.kind is Kind.LIST and option.default is None else option.default,
        "metavar": option.metavar or (None if option.choices else _METAVARS[option.kind]),
    }
    if option.kind is Kind.RANKS:
        return {**common, "nargs": "?", "const": 0}
    return {**common, "required": option.required, "choices": option.choices or None}


def _exclusive(made: Parser, card: Card) -> dict[str, Any]:
    """The group of argparse for each option that excludes others, or is excluded."""
    groups: dict[str, Any] = {}
    for option in card.options:
        if option.excludes:
            groups.update(dict.fromkeys((option.name, *option.excludes), made.add_mutually_exclusive_group()))
    return groups


def _help(option: Option) -> str:
    """The option's help with its default, in which argparse finds nothing to fill in."""
    default = option.default
    words = (option.help, "" if default is None or default == () else f"(default {values.shown(default)})")
    return " ".join(filter(None, words)).replace("%", "%%")
