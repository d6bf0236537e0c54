"""The items that a card names: a range, a list in a file, the lines of a file, or a grid."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from workloads.common import storage
from workloads.common.events import BadInput

KINDS = ("range", "list", "lines", "grid")


def items(table: Mapping[str, Any]) -> Sequence[Any]:
    """The items of a card's table `items`. Raises :class:`BadInput`."""
    (kind,) = [name for name in KINDS if name in table] or [""]
    if kind == "range":
        return range(*table["range"])
    if kind == "grid":
        return _grid(table["grid"])
    return _listed(table["list"]) if kind == "list" else _lines(table["lines"])


def _grid(axes: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """All combinations, the last axis the fastest."""
    if empty := [name for name, values in axes.items() if not values]:
        raise BadInput(f"items.grid: the axis {empty[0]} has no value: give it a list of values")
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


def _listed(path: str) -> list[Any]:
    try:
        found = json.loads(_text(path))
    except ValueError as error:
        raise BadInput(f"{path}: no JSON: write a list in JSON there ({error})") from None
    if not isinstance(found, list):
        raise BadInput(f"{path}: a list in JSON is meant, not {type(found).__name__}")
    return found


def _lines(path: str) -> list[str]:
    return [line for line in _text(path).splitlines() if line.strip()]


def _text(path: str) -> str:
    try:
        if storage.is_remote(path):
            with storage.open(path) as file:
                return file.read().decode("utf-8")
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: cannot be read: give a file of text that is there ({error})") from None
