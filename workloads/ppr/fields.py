"""Takes lines of two columns apart, whatever is between them, with only numpy: on nodes and on the controller."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.ppr.dialect import BLANKS, LARGEST_ID, Dialect, columns, shown

_NEWLINE, _TAB, _SPACE, _QUOTE, _HASH, _DELETE = 10, 9, 32, 34, 35, 127
_MOST_BLANKS = 4
_SHORT_ID = 19
_NUMBERS = " (the first edge has numbers, so that all ids are; where they are words, let an edge of words come first)"

Places = NDArray[np.int64]


@dataclass(frozen=True)
class Split:
    """The fields of m edges: `values` uint8, one after the other, as far as `offsets` int32 (2 m + 1,); `lines` (m,).

    Lines are counted from 0, `line_count` of them. `fault`: the first line that has not two fields, and its text; no
    edge after it is in here.
    """

    values: NDArray[np.uint8]
    offsets: NDArray[np.int32]
    lines: Places
    line_count: int
    fault: tuple[int, bytes] | None
    block: bytes

    def text(self, line: int) -> bytes:
        """A line of the block, from 0, without its end."""
        return self.block.split(b"\n", line + 1)[line]


def split(block: bytes, dialect: Dialect) -> Split:
    """Take whole lines apart into two fields each; the ends of lines may be CRLF, and the last may have none."""
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n").removesuffix(b"\r")
    text = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(text == _NEWLINE)
    if block and not block.endswith(b"\n"):
        ends = np.append(ends, len(block))
    starts = np.concatenate([np.zeros(min(1, len(ends)), np.int64), ends[:-1] + 1])
    if dialect.separator == BLANKS:
        begins, stops, good = _apart_by_blanks(text, starts, ends)
    else:
        begins, stops, good = _apart_by(dialect.separator[0], text, starts, ends)
    if not dialect.plain and b'"' in block:
        good &= _unquoted(text, begins, stops)
    extra, fault = _others(block, dialect, (starts, ends), (begins, stops), good)
    lines = np.flatnonzero(good)
    if fault:
        lines = lines[: np.searchsorted(lines, fault[0])]
    if extra:
        text = np.concatenate([text, np.frombuffer(extra, np.uint8)])
    values, offsets = _gathered(text, begins[lines].ravel(), stops[lines].ravel())
    return Split(values, offsets, lines, len(ends), fault, block)


def lines(found: Split) -> bytes:
    """The fields as lines of two columns with a space between."""
    fields = len(found.offsets) - 1
    text = np.full(len(found.values) + fields, _SPACE, np.uint8)
    filled = np.ones(len(text), bool)
    ends = found.offsets[1:].astype(np.int64) + np.arange(fields)
    filled[ends] = False
    text[filled] = found.values
    text[ends[1::2]] = _NEWLINE
    return text.tobytes()


def plain_edges(block: bytes) -> int | None:
    """Return how many edges are in lines of two short numbers apart by blanks, or none; None where there is anything
    else.
    """
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n").removesuffix(b"\r")
    if not block.endswith(b"\n"):
        block += b"\n"
    text = np.frombuffer(block, np.uint8)
    digits = (text - np.uint8(48)) <= 9
    ends = np.flatnonzero(text == _NEWLINE)
    if np.count_nonzero(digits) + len(ends) + block.count(b" ") + block.count(b"\t") != len(text):
        return None
    edges = np.flatnonzero(digits[1:] != digits[:-1]) + 1
    if digits[0]:
        edges = np.append(0, edges)
    begins, stops = edges[::2], edges[1::2]
    if len(begins) and (stops - begins).max() > _SHORT_ID:
        return None
    if len(begins) == 2 * len(ends) and (begins[1::2] < ends).all() and (begins[2::2] > ends[:-1]).all():
        return len(ends)
    counts = np.diff(np.searchsorted(begins, ends), prepend=0)
    return int(np.count_nonzero(counts)) if ((counts == 0) | (counts == 2)).all() else None


def not_a_number(found: Split) -> int | None:
    """The first edge of which an id is no decimal integer of at most 64 bits."""
    wrong: list[int] = []
    odd = (found.values - np.uint8(48)) > 9
    if odd.any():
        place = int(np.argmax(odd))
        wrong.append((int(np.searchsorted(found.offsets, place, "right")) - 1) // 2)
    for field in np.flatnonzero(np.diff(found.offsets) > _SHORT_ID).tolist():
        if wrong and field // 2 >= wrong[0]:
            break
        digits = found.values[found.offsets[field] : found.offsets[field + 1]].tobytes().lstrip(b"0")
        if len(digits) > _SHORT_ID + 1 or int(digits or b"0") > LARGEST_ID:
            wrong.append(field // 2)
            break
    return min(wrong, default=None)


def not_a_word(found: Split) -> int | None:
    """The first edge of which an id has a control character, or is not UTF-8."""
    wrong: list[int] = []
    control = (found.values < _SPACE) | (found.values == _DELETE)
    if control.any():
        place = int(np.argmax(control))
        wrong.append((int(np.searchsorted(found.offsets, place, "right")) - 1) // 2)
    if (found.values >= 128).any():
        high = np.unique((np.searchsorted(found.offsets, np.flatnonzero(found.values >= 128), "right") - 1) // 2)
        for edge in high.tolist():
            first, middle, last = found.offsets[2 * edge : 2 * edge + 3].tolist()
            if not (_is_utf8(found.values[first:middle]) and _is_utf8(found.values[middle:last])):
                wrong.append(edge)
                break
    return min(wrong, default=None)


def fault_of(found: Split, *, words: bool) -> tuple[int, bytes] | None:
    """The first line that is at fault, from 0, and its text; None where all edges are as they should be."""
    edge = not_a_word(found) if words else not_a_number(found)
    if edge is None:
        return found.fault
    line = int(found.lines[edge])
    return line, found.text(line)


def described(line: bytes, dialect: Dialect) -> str:
    """Return what is wrong with a line, and the line."""
    text = line.removesuffix(b"\r").strip(b" \t")
    found = columns(text, dialect.separator, quotes=not dialect.plain)
    fault, way = _fault(found, dialect)
    return f"{fault}: {shown(text)}{way}"


def _fault(found: list[bytes] | None, dialect: Dialect) -> tuple[str, str]:
    if found is None:
        return "a quote that does not end, or text after it", " (a quote within quotes is written twice)"
    if len(found) != 2:
        few = len(found) == 1
        way = "" if few else " (a third column, as a weight or a time, is not read: keep two, as cut or awk can)"
        return f"an edge is exactly two node ids, here {'is' if few else 'are'} {len(found)}", way
    if not all(found):
        return "a node id is missing", ""
    for column in found:
        if dialect.words:
            if re.search(rb"[\x00-\x1f\x7f]", column):
                return "a control character in a node id", ""
            try:
                column.decode()
            except UnicodeDecodeError:
                return "not UTF-8", " (if it is Latin-1: iconv -f latin1 -t utf-8)"
        elif re.fullmatch(rb"-\d+", column):
            return "a negative node id", ""
        elif not re.fullmatch(rb"\d+", column):
            return "a node id that is not an integer", _NUMBERS
    return "a node id of more than 64 bits", ""


def _apart_by(separator: int, text: NDArray[np.uint8], starts: Places, ends: Places) -> tuple[Any, Any, Any]:
    """Begins and ends of two fields a line, (lines, 2), and which lines have just them, without blanks around."""
    found = np.flatnonzero(text == separator)
    first = np.searchsorted(found, starts)
    good = np.searchsorted(found, ends) - first == 1
    middle = np.append(found, 0)[np.where(good, first, len(found))]
    begins, stops = np.stack((starts, middle + 1), axis=1), np.stack((middle, ends), axis=1)
    begins[~good] = stops[~good] = 0
    padded = np.append(text, np.uint8(_NEWLINE))
    flat_begins, flat_stops = begins.reshape(-1), stops.reshape(-1)
    for places, last, step in ((flat_begins, 0, 1), (flat_stops, 1, -1)):
        there = np.flatnonzero(_blank(padded[places - last]) & (flat_begins < flat_stops))
        for _ in range(_MOST_BLANKS):
            if not there.size:
                break
            places[there] += step
            there = there[_blank(padded[places[there] - last]) & (flat_begins[there] < flat_stops[there])]
        good[there // 2] = False
    good &= (begins < stops).all(axis=1)
    good &= padded[begins[:, 0]] != _HASH
    return begins, stops, good


def _apart_by_blanks(text: NDArray[np.uint8], starts: Places, ends: Places) -> tuple[Any, Any, Any]:
    """As `_apart_by`, where any number of spaces and tabs are between the fields and around them."""
    filled = ~(_blank(text) | (text == _NEWLINE))
    edges = np.flatnonzero(np.diff(filled, prepend=False, append=False))
    token_begins, token_stops = edges[::2], edges[1::2]
    first = np.searchsorted(token_begins, starts)
    good = np.searchsorted(token_begins, ends) - first == 2
    chosen = np.where(good, first, 0)[:, None] + np.arange(2)
    if len(token_begins) < 2:
        return np.zeros((len(starts), 2), np.int64), np.zeros((len(starts), 2), np.int64), np.zeros(len(starts), bool)
    begins, stops = token_begins[chosen], token_stops[chosen]
    good &= text[begins[:, 0]] != _HASH
    return begins, stops, good


def _unquoted(text: NDArray[np.uint8], begins: Places, stops: Places) -> NDArray[np.bool_]:
    """Take off the quotes of fields that begin and end with one and have no other; which lines have no quote left."""
    quotes = np.flatnonzero(text == _QUOTE)
    flat_begins, flat_stops = begins.reshape(-1), stops.reshape(-1)
    counts = np.searchsorted(quotes, flat_stops) - np.searchsorted(quotes, flat_begins)
    two = np.flatnonzero((counts == 2) & (flat_stops - flat_begins > 2))
    two = two[(text[flat_begins[two]] == _QUOTE) & (text[flat_stops[two] - 1] == _QUOTE)]
    two = two[~(_blank(text[flat_begins[two] + 1]) | _blank(text[flat_stops[two] - 2]))]
    flat_begins[two] += 1
    flat_stops[two] -= 1
    counts[two] = 0
    none: NDArray[np.bool_] = (counts.reshape(-1, 2) == 0).all(axis=1)
    return none


def _others(
    block: bytes,
    dialect: Dialect,
    lines: tuple[Places, Places],
    fields: tuple[Places, Places],
    good: NDArray[np.bool_],
) -> tuple[bytes, tuple[int, bytes] | None]:
    """Look at the lines that are not `good` one by one: their fields go behind the block, as the bytes that are given.

    What is a comment stays as it is; the first of the rest is the fault.
    """
    (starts, ends), (begins, stops) = lines, fields
    extra = bytearray()
    for number in np.flatnonzero(~good).tolist():
        line = block[starts[number] : ends[number]]
        text = line.strip(b" \t")
        if not text or text.startswith(b"#"):
            continue
        found = columns(text, dialect.separator, quotes=not dialect.plain)
        if found is None or len(found) != 2 or not all(found):
            return bytes(extra), (number, line)
        for place, field in enumerate(found):
            begins[number, place] = len(block) + len(extra)
            extra += field
            stops[number, place] = len(block) + len(extra)
        good[number] = True
    return bytes(extra), None


def _gathered(text: NDArray[np.uint8], begins: Places, stops: Places) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    """The bytes [begins, stops) of `text`, one after the other, and where each ends."""
    lengths = (stops - begins).astype(np.int32)
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    places = np.repeat(begins.astype(np.int32) - offsets[:-1], lengths)
    places += np.arange(len(places), dtype=np.int32)
    return text[places], offsets


def _blank(text: NDArray[np.uint8]) -> NDArray[np.bool_]:
    blank: NDArray[np.bool_] = (text == _SPACE) | (text == _TAB)
    return blank


def _is_utf8(values: NDArray[np.uint8]) -> bool:
    try:
        values.tobytes().decode()
    except UnicodeDecodeError:
        return False
    return True
