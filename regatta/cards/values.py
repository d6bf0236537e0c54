"""Values of a workload's options: read from what is typed, checked, and written as the program takes them."""

from collections.abc import Mapping

from regatta.cards.card import Card, Option, Value, flag
from regatta.errors import UsageError
from regatta_protocol.cards import FLAGS, TYPES, fault, misfit


def typed(name: str, option: Option, text: str | bool) -> Value:
    """The value of an option as a person typed it. UsageError where it is none."""
    value: Value = text
    try:
        if option.kind == "whole number":
            value = int(text)
        elif option.kind == "number":
            value = float(text)
    except ValueError:
        raise UsageError(f"{flag(name)} takes {TYPES[option.kind][0]}, not '{text}'") from None
    if wrong := misfit(option, value):
        raise UsageError(f"{flag(name)} {wrong}")
    return value


def together(card: Card, values: Mapping[str, Value], framework: str | None = None) -> str | None:
    """Return what is wrong with options that do not go together, as one sentence; None where nothing is.

    With a `framework` also what is wrong only under that one.
    """
    for name, option in card.options.items():
        for other in option.excludes:
            if name in values and other in values:
                return f"{flag(name)} and {flag(other)} do not go together: say one of them"
    whole = {name: values.get(name, option.default) for name, option in card.options.items()}
    return fault(card.faults, whole, framework)


def other(card: Card, said: Mapping[str, object]) -> dict[str, str]:
    """The options, by name, that are not as the card has them anyway; without the one that says how much to do."""
    known = ((name.replace("-", "_"), str(value)) for name, value in said.items())
    return {
        name: value
        for name, value in known
        if name not in {card.size, "size"} and not (name in card.options and value == str(card.options[name].default))
    }


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
