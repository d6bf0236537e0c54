"""A workload's card: its file, and how it takes over what it includes, as the controller and the workload read it."""

from typing import Any, Dict, Mapping, Tuple

NAME, PROJECT = "card.toml", "regatta.toml"
"""The file of a card beside the code of a workload; that of a person's project, which may hold cards."""
OF_FUNCTIONS, OF_SEARCHES = ("function", "items"), ("search",)
"""What cards of functions, and of searches, include without saying so."""


def includes(table: Mapping[str, Any]) -> Tuple[str, ...]:
    """The names of what a card includes, each once; a module of Regatta's own says all of them."""
    own = OF_SEARCHES if "search" in table else OF_FUNCTIONS if "function" in table else ()
    return tuple(dict.fromkeys((*table.get("include", ()), *(own if "module" not in table else ()))))


def merged(own: Mapping[str, Any], included: Mapping[str, Any]) -> Dict[str, Any]:
    """A card with what it includes: tables key by key, faults one after the other, and else its own value counts.

    What is only its own stands first, then what both have and what is included, in the order of that.
    """
    made = {key: value for key, value in own.items() if key not in included}
    for key, value in included.items():
        mine = own.get(key)
        if isinstance(mine, Mapping) and isinstance(value, Mapping):
            made[key] = merged(mine, value)
        elif key == "faults" and isinstance(mine, list) and isinstance(value, list):
            made[key] = [*mine, *value]
        else:
            made[key] = own.get(key, value)
    return made
