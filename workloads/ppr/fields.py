"""Takes lines of columns apart, whatever is between them, with only numpy: on nodes and on the controller."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.ppr import dialect as dialects
from workloads.ppr.dialect import BLANKS, Dialect, columns, shown

_NEWLINE, _TAB, _SPACE, _QUOTE, _DELETE = 10, 9, 32, 34, 127
_ZERO, _NINE, _POINT = b"09."
_ENDS = np.zeros(256, bool)
_ENDS[list(b' \t,;"\n')] = True
_MARKS = np.zeros(256, bool)
_MARKS[list(b"#%/ \t")] = True
_ANOTHER = re.compile(rb"(?m)^(?:%%MatrixMarket\b|%[ \t]*(?:sym|asym|bip)\b)[^\n]*")
_DATA = re.compile(rb"\{[^\n]*\}")
_MOST_BLANKS = 4
_SHORT_ID = 19
_NUMBERS = " (the first edge has numbers, so that all ids are; where they are words, let an edge of words come first)"

Places = NDArray[np.int64]


@dataclass(frozen=True)
class Split:
    """The fields of m edges: `values` uint8, one after the other, as far as `offsets` int32 (2 m + 1,); `lines` (m,).

    Lines are counted from 0, `line_count` of them, of which `comments` are comments. `weights` float64 (m,), where they
    are read; `undirected` (m,), where the file says it of each edge. `fault`: the first line that is at fault, its
    text, and what is wrong if that is not to be seen in it; no edge after it is in here.
    """

    values: NDArray[np.uint8]
    offsets: NDArray[np.int32]
    lines: Places
    line_count: int
    fault: tuple[int, bytes] | None
    block: bytes
    comments: int = 0
    weights: NDArray[np.float64] | None = None
    undirected: NDArray[np.bool_] | None = None

    def text(self, line: int) -> bytes:
        """A line of the block, from 0, without its end."""
        return self.block.split(b"\n", line + 1)[line]


def _whole(block: bytes) -> bytes:
    """The text with whole numbers as such: `1.0` and `1.` become `1`."""
    text = np.frombuffer(block + b"\n", np.uint8)
    points = np.flatnonzero(text == _POINT)
    points = points[points > 0]
    before = text[points - 1]
    points = points[(before >= _ZERO) & (before <= _NINE)]
    stops = points + 1
    while (zeros := text[stops] == _ZERO).any():
        stops += zeros
    ended = _ENDS[text[stops]]
    points, stops = points[ended], stops[ended]
    kept = np.ones(len(text), bool)
    kept[-1] = False
    while len(points):
        kept[points] = False
        more = points + 1 < stops
        points, stops = points[more] + 1, stops[more]
    return text[kept].tobytes()


def split(block: bytes, dialect: Dialect) -> Split:
    """Take whole lines apart into their fields; the ends of lines may be CRLF, and the last may have none."""
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n").removesuffix(b"\r")
    given = block
    if not dialect.words and not dialect.data and b"." in block:
        block = _whole(block)
    if dialect.data and dialect.weight is not None:
        block = _DATA.sub(lambda found: dialects.weight_in(found[0]), block)
    text = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(text == _NEWLINE)
    if block and not block.endswith(b"\n"):
        ends = np.append(ends, len(block))
    starts = np.concatenate([np.zeros(min(1, len(ends)), np.int64), ends[:-1] + 1])
    apart = _apart_by_blanks if dialect.separator == BLANKS else _apart_by
    begins, stops, good = apart(text, starts, ends, dialect)
    if not dialect.plain and b'"' in block:
        good &= _unquoted(text, begins, stops)
    extra, fault, comments = _others(block, dialect, (starts, ends), (begins, stops), good)
    if (dialect.words and dialect.header) or comments:
        again = _begun_again(given, dialect)
        fault = (again, b"") if again is not None and (not fault or again < fault[0]) else fault
    lines = np.flatnonzero(good)
    if fault:
        lines = lines[: np.searchsorted(lines, fault[0])]
    if extra:
        text = np.concatenate([text, np.frombuffer(extra, np.uint8)])
    values, offsets = _gathered(text, begins[lines][:, :2].ravel(), stops[lines][:, :2].ravel())
    read: dict[int, NDArray[Any]] = {}
    for place, column in enumerate(dialect.wanted[2:], 2):
        parse = functools.partial(_weights, 1.0 if dialect.rest else np.nan) if column == dialect.weight else _kinds
        read[column], wrong = parse(text, begins[lines, place], stops[lines, place])
        if wrong is not None:
            fault = int(lines[wrong]), b""
            lines, offsets = lines[:wrong], offsets[: 2 * wrong + 1]
            values, read = values[: offsets[-1]], {known: of_all[:wrong] for known, of_all in read.items()}
    if fault:
        fault = fault[0], _line(given, fault[0])
    weights = read[dialect.weight] if dialect.weight is not None else None
    undirected = read[dialect.kind] if dialect.kind is not None else None
    return Split(values, offsets, lines, len(ends), fault, given, comments, weights, undirected)


def _line(block: bytes, number: int) -> bytes:
    return block.split(b"\n", number + 1)[number]


def begins_again(block: bytes) -> bool:
    """Whether the head of another file is in a block."""
    return _ANOTHER.search(block) is not None


def _begun_again(block: bytes, dialect: Dialect) -> int | None:
    """The line, from 0, in which another file begins: whoever puts two together leaves its head there."""
    found = _ANOTHER.search(block)
    places = [found.start()] if found else []
    if dialect.header and dialect.words:
        again = (b"\n" + block + b"\n").find(b"\n" + dialect.first + b"\n")
        places += [again] if again >= 0 else []
    return block.count(b"\n", 0, min(places)) if places else None


def _weights(
    none: float, text: NDArray[np.uint8], begins: Places, stops: Places
) -> tuple[NDArray[np.float64], int | None]:
    """Weights (m,), `none` where there is none, and the first that is no number from 0 on."""
    import pyarrow as pa

    there = np.flatnonzero(begins < stops)
    values, offsets = _gathered(text, begins[there], stops[there])
    found = np.full(len(begins), none)
    array = pa.StringArray.from_buffers(len(there), pa.py_buffer(offsets), pa.py_buffer(values))
    try:
        found[there] = _doubles(array)
    except pa.ArrowInvalid:
        found[there] = [_float(word) for word in array.cast(pa.binary()).to_pylist()]
    wrong = ~(found >= 0) | np.isinf(found)
    return found, int(np.argmax(wrong)) if wrong.any() else None


def _doubles(array: Any) -> NDArray[np.float64]:
    import pyarrow as pa

    return np.frombuffer(array.cast(pa.float64()).buffers()[1], np.float64, len(array)) if len(array) else np.zeros(0)


def _float(word: bytes) -> float:
    try:
        return float(word)
    except ValueError:
        return float("nan")


def _kinds(text: NDArray[np.uint8], begins: Places, stops: Places) -> tuple[NDArray[np.bool_], int | None]:
    """Whether each edge is undirected, (m,), by the first letter of its type, and the first that is neither."""
    letters = np.where(begins < stops, text[np.minimum(begins, len(text) - 1)], 0) | 0x20 if len(text) else begins
    wrong = (letters != ord("u")) & (letters != ord("d"))
    return letters == ord("u"), int(np.argmax(wrong)) if wrong.any() else None


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


def normal(found: Split) -> tuple[Split, int | None]:
    """The same with all ids as digits without zeros before them, up to the first edge of which an id is no number."""
    lengths = np.diff(found.offsets)
    odd = np.zeros(len(lengths), bool)
    if ((found.values - np.uint8(48)) > 9).any():
        places = np.flatnonzero((found.values - np.uint8(48)) > 9)
        odd[np.searchsorted(found.offsets, places, "right") - 1] = True
    odd |= (lengths > _SHORT_ID) & (found.values[np.minimum(found.offsets[:-1], len(found.values) - 1)] == ord("0"))
    if not odd.any():
        return found, None
    extra, wrong = bytearray(), None
    begins, stops = found.offsets[:-1].astype(np.int64), found.offsets[1:].astype(np.int64)
    for field in np.flatnonzero(odd).tolist():
        digits = dialects.whole_number(found.values[begins[field] : stops[field]].tobytes())
        if digits is None:
            wrong = field // 2
            begins, stops = begins[: 2 * wrong], stops[: 2 * wrong]
            break
        begins[field] = len(found.values) + len(extra)
        extra += digits
        stops[field] = len(found.values) + len(extra)
    text = np.concatenate([found.values, np.frombuffer(bytes(extra), np.uint8)])
    values, offsets = _gathered(text, begins, stops)
    return replace(found, values=values, offsets=offsets), wrong


def numbers(found: Split) -> NDArray[np.uint64] | None:
    """The ids of :func:`normal` fields, uint64 (2 m,); None where one has more than 64 bits."""
    import pyarrow as pa

    count = len(found.offsets) - 1
    array = pa.StringArray.from_buffers(count, pa.py_buffer(found.offsets), pa.py_buffer(found.values))
    try:
        return (
            np.frombuffer(array.cast(pa.uint64()).buffers()[1], np.uint64, count) if count else np.zeros(0, np.uint64)
        )
    except pa.ArrowInvalid:
        return None


def out_of_range(ids: NDArray[Any] | None, dialect: Dialect) -> int | None:
    """The first edge with a node that the size of the file does not have, whose ids, (2 m,), begin with 1."""
    if dialect.size is None or ids is None or not len(ids) or (ids.min() >= 1 and ids.max() <= dialect.size.nodes):
        return None
    return int(np.argmax((ids < 1) | (ids > dialect.size.nodes))) // 2


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


def looked_at(found: Split, dialect: Dialect) -> tuple[Split, NDArray[np.uint64] | None, tuple[int, bytes] | None]:
    """Fields as ids: with numbers also these, where they have at most 64 bits; and the first line that is at fault.

    A fault is the number of a line, from 0, and its text.
    """
    ids: NDArray[np.uint64] | None = None
    if dialect.words:
        edge = not_a_word(found)
    else:
        found, edge = normal(found)
        ids = numbers(found)
        beyond = out_of_range(ids, dialect)
        edge = beyond if edge is None or (beyond is not None and beyond < edge) else edge
    if edge is None:
        return found, ids, found.fault
    line = int(found.lines[edge])
    return found, ids, (line, found.text(line))


def described(line: bytes, dialect: Dialect) -> str:
    """Return what is wrong with a line, and the line."""
    text = line.removesuffix(b"\r").strip(b" \t")
    if _ANOTHER.match(text) or (dialect.header and text == dialect.first):
        return f"another file begins here: give one list of edges, or leave out this line: {shown(text)}"
    if dialect.form and dialect.form.sections and dialect.form.sections.match(text):
        return f"only *Arcs and *Edges are read after the first edge, one network a file: {shown(text)}"
    found = columns(text, dialect.separator, quotes=not dialect.plain)
    fault, way = _fault(text, found, dialect)
    return f"{fault}: {shown(text)}{way}"


def _fault(line: bytes, found: list[bytes] | None, dialect: Dialect) -> tuple[str, str]:
    if found is None:
        return "a quote that does not end, or text after it", " (a quote within quotes is written twice)"
    chosen = dialect.picked(found)
    if chosen is None and (len(found) == dialect.count or (dialect.rest and len(found) >= dialect.least)):
        return "a node id is missing", ""
    if chosen is None:
        return _columns_fault(line, len(found), dialect)
    for column in chosen[:2]:
        if fault := _id_fault(column, dialect):
            return fault
    if dialect.size is not None and all(re.fullmatch(rb"\d+", column) for column in chosen[:2]):
        for column in chosen[:2]:
            if not 1 <= int(column) <= dialect.size.nodes:
                size = f"line {dialect.size.line} says that there are {dialect.size.nodes:,}, from 1 on"
                return f"node {int(column)} is none of the graph's: {size}", ""
    if dialect.kind is not None and chosen[-1][:1].lower() not in (b"d", b"u"):
        return f"the type of an edge is Directed or Undirected, here {shown(chosen[-1])}", ""
    return "a weight is a number from 0 on", " (correct the line, or leave --weights out)"


def _columns_fault(line: bytes, count: int, dialect: Dialect) -> tuple[str, str]:
    be = "is" if count == 1 else "are"
    if dialect.count == 2 and not dialect.rest:
        fault = f"an edge is exactly two node ids, here {be} {count}"
    else:
        fault = f"an edge has {dialect.count} columns in this file, here {be} {count}"
    if dialect.form is None and not dialect.header and _like_metis(line.split(), dialect.first.split()):
        return (
            fault,
            " (METIS has the size in its first line, and then the neighbours of a node a line: it is not read)",
        )
    if count > dialect.count == 2:
        return fault, " (its first line has two columns, and so should all)"
    return fault, " (the file is cut, or the line is)" if count < dialect.count and dialect.count > 2 else ""


def _like_metis(line: list[bytes], first: list[bytes]) -> bool:
    """Whether a line could be of METIS: neighbours among as many nodes as the first line says, perhaps with weights."""
    if not 2 <= len(first) <= 4 or not all(map(bytes.isdigit, [*line, *first])):
        return False
    return len(first) > 2 or all(int(node) <= int(first[0]) for node in line)


def _id_fault(column: bytes, dialect: Dialect) -> tuple[str, str] | None:
    if dialect.words:
        if re.search(rb"[\x00-\x1f\x7f]", column):
            return "a control character in a node id", ""
        try:
            column.decode()
        except UnicodeDecodeError:
            return "not UTF-8", " (if it is Latin-1: iconv -f latin1 -t utf-8)"
    elif re.fullmatch(rb"-\d+", column):
        return "a negative node id", ""
    elif dialects.whole_number(column) is None:
        return "a node id that is not an integer", _NUMBERS
    return None


def _apart_by(text: NDArray[np.uint8], starts: Places, ends: Places, dialect: Dialect) -> tuple[Any, Any, Any]:
    """Begins and ends of the wanted fields a line, (lines, k), and which lines have just them, without blanks."""
    found = np.flatnonzero(text == dialect.separator[0])
    first = np.searchsorted(found, starts)
    between = np.searchsorted(found, ends) - first
    good = between >= dialect.least - 1 if dialect.rest else between == dialect.count - 1
    padded_found = np.append(found, 0)
    begins, stops = (np.zeros((len(starts), len(dialect.wanted)), np.int64) for _ in range(2))
    for place, column in enumerate(dialect.wanted):
        there = good & (between >= column)
        before, after = (np.where(there, first + column + step, len(found)) for step in (-1, 0))
        begin = starts if column == 0 else padded_found[before] + 1
        stop = np.where(between == column, ends, padded_found[np.minimum(after, len(found))])
        begins[:, place], stops[:, place] = np.where(there, begin, 0), np.where(there, stop, 0)
    padded = np.append(text, np.uint8(_NEWLINE))
    flat_begins, flat_stops = begins.reshape(-1), stops.reshape(-1)
    for places, last, step in ((flat_begins, 0, 1), (flat_stops, 1, -1)):
        there = np.flatnonzero(_blank(padded[places - last]) & (flat_begins < flat_stops))
        for _ in range(_MOST_BLANKS):
            if not there.size:
                break
            places[there] += step
            there = there[_blank(padded[places[there] - last]) & (flat_begins[there] < flat_stops[there])]
        good[there // len(dialect.wanted)] = False
    good &= (begins[:, :2] < stops[:, :2]).all(axis=1)
    good &= ~_MARKS[padded[starts]]
    return begins, stops, good


def _apart_by_blanks(text: NDArray[np.uint8], starts: Places, ends: Places, dialect: Dialect) -> tuple[Any, Any, Any]:
    """As `_apart_by`, where any number of spaces and tabs are between the fields and around them."""
    filled = ~(_blank(text) | (text == _NEWLINE))
    edges = np.flatnonzero(np.diff(filled, prepend=False, append=False))
    token_begins, token_stops = edges[::2], edges[1::2]
    first = np.searchsorted(token_begins, starts)
    tokens = np.searchsorted(token_begins, ends) - first
    good = tokens >= dialect.least if dialect.rest else tokens == dialect.count
    begins, stops = (np.zeros((len(starts), len(dialect.wanted)), np.int64) for _ in range(2))
    if not good.any():
        return begins, stops, good
    for place, column in enumerate(dialect.wanted):
        there = good & (tokens > column)
        chosen = np.where(there, first + column, 0)
        begins[:, place] = np.where(there, token_begins[chosen], 0)
        stops[:, place] = np.where(there, token_stops[chosen], 0)
    heads = np.where(good, first, 0)
    letters = text[token_begins[heads]]
    if dialect.form and dialect.form.letters:
        good &= np.isin(letters, [letter[0] for letter in dialect.form.letters])
        good &= token_stops[heads] - token_begins[heads] == 1
    else:
        good &= ~_MARKS[letters]
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
    none: NDArray[np.bool_] = (counts.reshape(begins.shape) == 0).all(axis=1)
    return none


def _others(
    block: bytes,
    dialect: Dialect,
    lines: tuple[Places, Places],
    fields: tuple[Places, Places],
    good: NDArray[np.bool_],
) -> tuple[bytes, tuple[int, bytes] | None, int]:
    """Look at the lines that are not `good` one by one: their fields go behind the block, as the bytes that are given.

    Gives the first line that is at fault, and how many comments there are.
    """
    (starts, ends), (begins, stops) = lines, fields
    extra, comments = bytearray(), 0
    for number in np.flatnonzero(~good).tolist():
        line = block[starts[number] : ends[number]]
        text = line.strip(b" \t")
        if not text:
            continue
        if dialect.is_comment(text):
            comments += 1
            continue
        found = columns(text, dialect.separator, quotes=not dialect.plain)
        picked = dialect.picked(found) if found is not None else None
        if picked is None:
            return bytes(extra), (number, line), comments
        for place, field in enumerate(picked):
            begins[number, place] = len(block) + len(extra)
            extra += field
            stops[number, place] = len(block) + len(extra)
        good[number] = True
    return bytes(extra), None, comments


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
