"""Whether two answers are the same: every leaf in which they differ beyond its tolerance."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from regatta.records.plain import plain
from regatta.text import clean


class _Absent:
    def __repr__(self) -> str:
        return "absent"


ABSENT = _Absent()
"""In place of the value of a name that an answer does not have."""


@dataclass(frozen=True)
class Difference:
    """A leaf in which two answers differ beyond its absolute tolerance; None: it had to be equal."""

    path: str
    a: Any
    b: Any
    tolerance: float | None = None
    run_a: str = ""
    run_b: str = ""

    def __str__(self) -> str:
        allowed = "must be equal" if self.tolerance is None else f"tolerance {self.tolerance:g}"
        return f"{clean(self.path)}: {self.run_a} {show(self.a)}, {self.run_b} {show(self.b)} ({allowed})"


def differences(a: object, b: object, tolerance: Mapping[str, float]) -> list[Difference]:
    """Every leaf in which the JSON values `a` and `b` differ.

    `tolerance` maps dotted names to absolute tolerances of numbers. Lists do not count in a name: `sources.sum` is the
    `sum` of every element of the list `sources`. Leaves that are not named must be equal; 1 and 1.0 are, true and 1
    are not. NaN equals NaN.
    """
    return list(_walk(a, b, tolerance, "", ""))


def _walk(a: Any, b: Any, tolerance: Mapping[str, float], path: str, name: str) -> Iterator[Difference]:
    if isinstance(a, dict) and isinstance(b, dict):
        for key in [*a, *(key for key in b if key not in a)]:
            below = (_join(path, key), _join(name, key))
            if key in a and key in b:
                yield from _walk(a[key], b[key], tolerance, *below)
            else:
                yield Difference(below[0], a.get(key, ABSENT), b.get(key, ABSENT))
    elif isinstance(a, list) and isinstance(b, list):
        if len(a) != len(b):
            yield Difference(f"{path} (number of elements)", len(a), len(b))
        for index, (left, right) in enumerate(zip(a, b, strict=False)):
            yield from _walk(left, right, tolerance, f"{path}[{index}]", name)
    elif not _same(a, b, tolerance.get(name)):
        yield Difference(path or "answer", a, b, tolerance.get(name) if _is_number(a) and _is_number(b) else None)


def _same(a: Any, b: Any, tolerance: float | None) -> bool:
    if not (_is_number(a) and _is_number(b)):
        return type(a) is type(b) and bool(a == b)
    if a == b or (_is_nan(a) and _is_nan(b)):
        return True
    try:
        return tolerance is not None and bool(abs(a - b) <= tolerance)
    except OverflowError:
        return False


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_nan(value: float) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _join(name: str, key: str) -> str:
    return f"{name}.{key}" if name else key


def leaf_names(value: Any, name: str = "") -> Iterator[str]:
    """Names of all leaves of a JSON value, as `differences` takes them."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaf_names(item, _join(name, key))
    elif isinstance(value, list):
        for item in value:
            yield from leaf_names(item, name)
    else:
        yield name


def show(value: Any) -> str:
    """A value as JSON, the middle of a long one left out."""
    if value is ABSENT:
        return "absent"
    text = json.dumps(plain(value))
    return text if len(text) <= 60 else f"{text[:45]} ... {text[-10:]}"
