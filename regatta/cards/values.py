"""Values of a workload's options: read from what is typed, checked, and written as the program takes them."""

from collections.abc import Mapping
from typing import Any

from regatta.cards.card import Card, Option, Value, flag
from regatta.errors import UsageError

_KINDS: dict[str, tuple[str, tuple[type, ...]]] = {
    "text": ("text", (str,)),
    "list": ("text", (str,)),
    "path": ("text", (str,)),
    "number": ("a number", (int, float)),
    "whole number": ("a whole number", (int,)),
    "true or false": ("true or false", (bool,)),
    "ranks": ("true or false", (bool,)),
}
FLAGS = ("true or false", "ranks")
"""Kinds that take no value when they are typed."""


def fault(option: Option, value: Any) -> str | None:
    """What is wrong with the value of an option, as the end of a sentence; None where nothing is."""
    words, types = _KINDS[option.kind]
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        return f"must be {words}, not {value!r}"
    if option.choices and value not in option.choices:
        return f"must be {', '.join(option.choices[:-1])} or {option.choices[-1]}, not {value!r}"
    if option.kind == "list" and not all(map(str.strip, str(value).split(","))):
        return f"must be words with commas between, without an empty one, not {value!r}"
    if isinstance(value, int | float):
        if option.least is not None and value < option.least:
            return f"must be at least {option.least:g}, not {value}"
        if option.above is not None and not value > option.above:
            return f"must be above {option.above:g}, not {value}"
        if option.below is not None and not value < option.below:
            return f"must be below {option.below:g}, not {value}"
    return None


def typed(name: str, option: Option, text: str | bool) -> Value:
    """The value of an option as a person typed it. UsageError where it is none."""
    value: Value = text
    try:
        if option.kind == "whole number":
            value = int(text)
        elif option.kind == "number":
            value = float(text)
    except ValueError:
        raise UsageError(f"{flag(name)} takes {_KINDS[option.kind][0]}, not '{text}'") from None
    if wrong := fault(option, value):
        raise UsageError(f"{flag(name)} {wrong}")
    return value


def together(card: Card, values: Mapping[str, Value], framework: str | None = None) -> str | None:
    """What is wrong with options that do not go together, as one sentence; None where nothing is.

    With a `framework` also what is wrong under that one alone.
    """
    for name, option in card.options.items():
        for other in option.excludes:
            if name in values and other in values:
                return f"{flag(name)} and {flag(other)} do not go together: say one of them"
    whole = {name: values.get(name, option.default) for name, option in card.options.items()}
    for rule in card.faults:
        if (not rule.frameworks or framework in rule.frameworks) and all(
            _holds(wanted, whole.get(name)) for name, wanted in rule.when.items()
        ):
            return rule.say.format_map(whole)
    return None


def _holds(wanted: Value | list[Value], value: Value | None) -> bool:
    if isinstance(wanted, bool):
        return bool(value) is wanted
    return value in wanted if isinstance(wanted, list) else value == wanted


def words(card: Card, values: Mapping[str, Value], ranks: int, *, alone: bool = False) -> list[str]:
    """The options as the program's command line has them, in the card's order.

    `alone`: for the one process that does what `ranks` ranks do together.
    """
    said = []
    for name, option in card.offered.items():
        value = values.get(name, option.default if option.each_rank else None)
        if option.kind in FLAGS:
            said += [flag(name) if option.kind != "ranks" else f"{flag(name)}={ranks}"] if value else []
        elif value is not None:
            shown = int(value) * ranks if option.each_rank and alone else value
            said.append(f"{flag(name)}={shown}")
    return said
