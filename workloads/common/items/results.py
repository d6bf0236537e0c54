"""The results of a user's function as files of the run's working directory: JSON lines, and Parquet."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

LINES, PARQUET = Path("results.jsonl"), Path("results.parquet")


def write(items: Sequence[Any], results: Sequence[str]) -> list[Path]:
    """Write ``{"item": .., "result": ..}`` for each item, in their order; `results` are JSON. Gives the files."""
    with LINES.open("w", encoding="utf-8") as file:
        for item, result in zip(items, results, strict=True):
            file.write(f'{{"item": {json.dumps(item)}, "result": {result}}}\n')
    return [LINES, PARQUET] if _parquet(items, results) else [LINES]


def _parquet(items: Sequence[Any], results: Sequence[str]) -> bool:
    """Write the same as a table of two columns, where pyarrow is there; values that fit no type as JSON text."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        return False

    def column(values: list[Any]) -> Any:
        try:
            return pyarrow.array(values)
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, OverflowError):
            return pyarrow.array([json.dumps(value) for value in values])

    made = {"item": column([*items]), "result": column([json.loads(result) for result in results])}
    parquet.write_table(pyarrow.table(made), PARQUET)
    return True
