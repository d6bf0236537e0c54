"""Reads the values of a TOML table and collects what is wrong with them, each fault with its place."""

import difflib
from collections.abc import Mapping, Sequence
from typing import Any


class Reader:
    """Reads a table's values and collects the faults, each with its place."""

    def __init__(self, table: Mapping[str, Any], where: str, faults: list[str] | None = None) -> None:
        self.table = table
        self.where = where
        self.faults: list[str] = [] if faults is None else faults

    def at(self, key: str) -> str:
        """Where a key is, for a person."""
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
        """Whole numbers of at least 1, each once; one by itself may stand without a list."""
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
