"""Rows in columns, as plain text."""

from collections.abc import Sequence


def aligned(rows: Sequence[Sequence[str]], *, numbers: bool = False) -> list[str]:
    """A line for each row, its cells below those of the others; `numbers`: to the right, but for the first column."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(_padded(row, widths, numbers)).rstrip() for row in rows]


def _padded(row: Sequence[str], widths: Sequence[int], numbers: bool) -> list[str]:
    cells = zip(row, widths, strict=True)
    return [cell.rjust(width) if numbers and place else cell.ljust(width) for place, (cell, width) in enumerate(cells)]


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Print rows, the first of which are headings, in columns."""
    print("\n".join(aligned(rows)))
