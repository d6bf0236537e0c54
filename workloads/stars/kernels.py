"""Machine code that takes rows of plain decimal numbers apart (loaded by workloads/common/compiled.py)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types

SKIPPED, TYPE = -1, -2
"""The value in the place of a column that is no feature."""

_COMMA, _DOT, _MINUS, _PLUS, _ZERO, _END, _RETURN, _LOWER = 44, 46, 45, 43, 48, 10, 13, 32
_MOST_DIGITS = 15
_POWERS = tuple(10.0**power for power in range(_MOST_DIGITS + 1))
_u1, _i8, _f4 = types.uint8, types.int64, types.float32


def _read(dtype: Any) -> Any:
    return types.Array(dtype, 1, "C", readonly=True)


@njit(inline="always")
def _label(text, begin, end):  # type: ignore[no-untyped-def]
    """1 for a galaxy, 0 for a star, -1 for anything else."""
    length = end - begin
    if length == 1:
        return 1 if text[begin] == 51 else 0 if text[begin] == 54 else -1
    name = b"galaxy" if length == 6 else b"star"
    if length != len(name):
        return -1
    for place in range(length):
        if text[begin + place] | _LOWER != name[place]:
            return -1
    return 1 if length == 6 else 0


@njit([types.int64(_read(_u1), _read(_i8), types.Array(_f4, 2, "C"), types.Array(_u1, 1, "C"))], nogil=True, cache=True)
def parse(text, places, features, labels):  # type: ignore[no-untyped-def]
    """Take whole lines apart: column c goes to row `places[c]` of `features`, or to `labels`, or nowhere.

    `text`: uint8 (b,); `features`: float32 (features, r), `labels`: uint8 (r,), r at least the number of lines.

    Returns how many rows there are, or -1 where a line has anything but so many numbers of at most 15 digits and one
    type: then nothing of what is in the arrays counts. With so few digits a value is exact up to float64's rounding.
    """
    n = len(text)
    columns = len(places)
    row = 0
    i = 0
    while i < n:
        if text[i] == _END:
            i += 1
            continue
        for column in range(columns):
            begin = i
            if places[column] == TYPE or places[column] == SKIPPED:
                while i < n and text[i] != _COMMA and text[i] != _END and text[i] != _RETURN:
                    i += 1
                if places[column] == TYPE:
                    label = _label(text, begin, i)
                    if label < 0:
                        return -1
                    labels[row] = label
            else:
                negative = text[i] == _MINUS
                if negative or text[i] == _PLUS:
                    i += 1
                value = np.uint64(0)
                digits = 0
                behind = -1
                while i < n:
                    digit = np.uint64(text[i]) - np.uint64(_ZERO)
                    if digit <= np.uint64(9):
                        value = value * np.uint64(10) + digit
                        digits += 1
                    elif text[i] == _DOT and behind < 0:
                        behind = digits
                    else:
                        break
                    i += 1
                if digits == 0 or digits > _MOST_DIGITS:
                    return -1
                number = float(value)
                if behind >= 0:
                    number /= _POWERS[digits - behind]
                features[places[column], row] = -number if negative else number
            if column + 1 < columns:
                if i >= n or text[i] != _COMMA:
                    return -1
                i += 1
                if i >= n:
                    return -1
        if i < n and text[i] == _RETURN:
            i += 1
        if i < n and text[i] != _END:
            return -1
        i += 1
        row += 1
    return row
