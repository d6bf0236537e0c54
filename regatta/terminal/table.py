"""Rows in columns, as plain text."""

import sys
import textwrap
from collections.abc import Sequence

from regatta.terminal import screen

_INDENT = 4
"""The columns by which a row's further lines are moved to the right."""


def aligned(rows: Sequence[Sequence[str]], *, numbers: bool = False, width: int | None = None) -> list[str]:
    """Each row with its cells below those of the others; `numbers`: to the right, but for the first column.

    A row that is wider than `width` has further lines for its last columns; of `numbers` there are further tables.
    """
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    groups = _groups(widths, width, [0] if numbers else [])
    if numbers:
        return [line for group in groups for line in _lines(rows, group, widths, numbers)]
    lines = [_lines(rows, group, widths, numbers) for group in groups]
    return [line for parts in zip(*lines, strict=True) for line in _row(parts, width)]


def _groups(widths: Sequence[int], width: int | None, each: list[int]) -> list[list[int]]:
    """The columns that have room next to each other; `each` are in all groups."""
    groups, room = [each[:]], width
    for column in range(len(each), len(widths)):
        group = groups[-1]
        needed = sum(widths[one] + 2 for one in group) + widths[column]
        if room is not None and width is not None and needed > room and len(group) > len(each):
            group, room = each[:], width if each else width - _INDENT
            groups.append(group)
        group.append(column)
    return groups


def _lines(rows: Sequence[Sequence[str]], group: Sequence[int], widths: Sequence[int], numbers: bool) -> list[str]:
    made = []
    for row in rows:
        cells = [
            row[column].rjust(widths[column]) if numbers and column else row[column].ljust(widths[column])
            for column in group
        ]
        made.append("  ".join(cells).rstrip())
    return made


def _row(parts: Sequence[str], width: int | None) -> list[str]:
    """The first part, and all others below it; one that is too wide is broken between words."""
    lines = [parts[0]]
    for part in parts[1:]:
        broken = width and len(part) > width - _INDENT
        pieces = textwrap.wrap(part, width - _INDENT, break_long_words=False) if width and broken else [part]
        lines += [" " * _INDENT + piece for piece in pieces]
    return lines


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Print rows, the first of which are headings, in columns; on a terminal none is wider than that."""
    print("\n".join(aligned(rows, width=screen.width(sys.stdout))))
