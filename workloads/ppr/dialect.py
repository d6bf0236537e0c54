"""The format of an edge list: what is between its columns, whether it has a header, whether ids are numbers or words.

The first two lines that are no comments decide, for the whole file, so that every reader of a part of it decides alike.
Only the standard library, as the controller reads this too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from workloads.common.events import BadInput

BLANKS, TAB, COMMA, SEMICOLON = b" ", b"\t", b",", b";"
LARGEST_ID = 2**64 - 1
LONGEST_LINE = 1 << 20
_SHOWN = 60
_LONGEST_HEADER = 80
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

HEADERS = (
    ("source", "target"),
    ("src", "dst"),
    ("from", "to"),
    ("start", "end"),
    ("origin", "destination"),
    ("follower", "followee"),
    ("citing", "cited"),
    ("parent", "child"),
    ("sender", "receiver"),
)
"""Names of two columns that are no edge, even where ids are words: source first; `FromNodeId` is `from`."""
_SAID_TOO = re.compile(r"[^a-z0-9]|nodeid|node|vertex|id(?=$)")
_NAME = re.compile(rb"(?m)^[ \t]*#[ \t]*node[ \t]+(\d+)[ \t]+([^\n]*\S)")
_DATA = re.compile(rb"(?m)^[ \t]*[^#\s][^\n]*")
_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_COLUMN = {
    separator: re.compile(
        rb'(?:%(b)s"((?:[^"]|"")*)"%(b)s|(?!%(b)s")([^%(s)s]*))(%(s)s|\Z)'
        % {b"b": b"[ ]*" if separator == TAB else b"[ \t]*", b"s": separator}
    )
    for separator in (TAB, COMMA, SEMICOLON)
} | {BLANKS: re.compile(rb'(?:"((?:[^"]|"")*)"|(?!")([^ \t]+))([ \t]+|\Z)')}
"""A column, quoted or not, and what follows it."""


@dataclass(frozen=True)
class Dialect:
    """`separator`: what is between columns; BLANKS means spaces and tabs. `words`: ids are words, else numbers.

    `header`: the header's line as text, empty without one; `swapped`: it names the target first. `plain`: numbers
    apart by blanks and without quotes, which machine code reads. `passed`: ranges of bytes that are not to be read,
    the header and a byte order mark. `comments`: all bytes before the first edge.
    """

    separator: bytes = BLANKS
    words: bool = False
    header: str = ""
    swapped: bool = False
    plain: bool = True
    passed: tuple[tuple[int, int], ...] = ()
    comments: bytes = b""


def sniff(path: object, read: Callable[[], bytes]) -> tuple[Dialect, list[bytes]]:
    """The dialect of the file from which `read` gives one block after the other, and the blocks that it took to know.

    Raises BadInput, which names `path`, where a line is so long that this is no edge list.
    """
    taken: list[bytes] = []
    text, due = b"", 0
    while True:
        block = read()
        taken += [block] if block else []
        due -= len(block)
        if block and due > 0:
            continue
        text = b"".join(taken)
        due = len(text)
        found = of(text, complete=not block)
        if found:
            return found, taken
        if len(text) - text.rfind(b"\n") > LONGEST_LINE:
            raise BadInput(f"{path}: line {text.count(10) + 1}: is longer than 1 MB, so this is no edge list; give one")


def of(text: bytes, *, complete: bool) -> Dialect | None:
    """The dialect of a file that begins with `text`; None where it takes more to know. `complete`: this is all."""
    marked = text.startswith(BYTE_ORDER_MARK)
    if marked:
        text = b"   " + text[3:]
    lines: list[re.Match[bytes]] = []
    for match in _DATA.finditer(text):
        if match.end() == len(text) and not complete:
            return None
        lines.append(match)
        if len(lines) == 2:
            break
    if len(lines) < 2 and not complete:
        return None
    passed = ((0, 3),) if marked else ()
    shown = [match[0].removesuffix(b"\r").strip(b" \t") for match in lines]
    if not shown:
        return Dialect(passed=passed, comments=text)
    separator = _separator(shown)
    fields = [columns(line, separator) or [] for line in shown]
    header, swapped = _header(fields)
    edge = fields[1:] if header else fields
    if header:
        passed = (*passed, lines[0].span())
    start = lines[1].start() if header and len(lines) > 1 else len(text) if header else lines[0].start()
    words = bool(edge) and len(edge[0]) == 2 and not all(map(_is_number, edge[0]))
    quotes = any(b'"' in line for line in shown[len(shown) - len(edge) :])
    return Dialect(
        separator=separator if words or quotes or separator not in (BLANKS, TAB) else BLANKS,
        words=words,
        header=_printable(shown[0]) if header else "",
        swapped=swapped,
        plain=not words and not quotes and separator in (BLANKS, TAB),
        passed=passed,
        comments=text[:start],
    )


def columns(line: bytes, separator: bytes, *, quotes: bool = True) -> list[bytes] | None:
    """The columns of a line without its end, blanks around them and `quotes` taken off; None where a quote stays open.

    Only a column that begins with a quote is quoted; two in it are one. Only the next column may follow a quoted one.
    """
    line = line.strip(b" \t")
    if not quotes or b'"' not in line:
        if separator == BLANKS:
            return re.split(rb"[ \t]+", line)
        return [column.strip(b" \t") for column in line.split(separator)]
    found, place = [], 0
    while True:
        column = _COLUMN[separator].match(line, place)
        if not column:
            return None
        text = column[2] if column[1] is None else column[1].replace(b'""', b'"')
        found.append(text.strip(b" \t"))
        if not column[3]:
            return found
        place = column.end()


def read_as(edges: int, names: int | None, header: str) -> str:
    """Return what was read, as one line for a person; `names`: how many, where ids are words."""
    said = [f"{edges:,} edge{'s' if edges != 1 else ''}"]
    if names is not None:
        said.append(f"{names:,} names")
    if header or names is not None:
        said.append(f"header `{header}`" if header else "no header")
    return ", ".join(said)


def names(path: object, found: Dialect) -> dict[int, bytes]:
    """Names of nodes in the comments before the first edge, by id; none where ids are words. Raises BadInput."""
    names: dict[int, bytes] = {}
    for match in _NAME.finditer(found.comments) if not found.words else ():
        node = int(match[1])
        if node in names or node > LARGEST_ID:
            line = 1 + found.comments.count(b"\n", 0, match.start())
            fault = f"node {node} is named twice" if node in names else "a node id of more than 64 bits"
            raise BadInput(f"{path}: line {line}: {fault}: {shown(match[0])}")
        names[node] = match[2]
    return names


def no_edges(path: object, header: str = "") -> BadInput:
    """The error that says that a graph has no edges, to be raised."""
    only = f" (only the header `{header}`)" if header else ""
    return BadInput(f"{path}: the graph is empty: give a file with an edge a line{only}")


def passed_over(blocks: Iterator[bytes], start: int, ranges: Iterable[tuple[int, int]]) -> Iterator[bytes]:
    """The same blocks, of which the first begins at byte `start`, with blanks in some ranges of the file's bytes."""
    waiting = sorted(ranges)
    for block in blocks:
        whole = block
        for first, last in waiting:
            low, high = max(first - start, 0), min(last - start, len(block))
            if low < high:
                whole = whole[:low] + b" " * (high - low) + whole[high:]
        start += len(block)
        yield whole
        if all(last <= start for _, last in waiting):
            break
    yield from blocks


def named_pair(names: Sequence[str]) -> tuple[int, int] | None:
    """Return where among the names of columns those of the source and the target are; None where no pair is known."""
    plain = [_SAID_TOO.sub("", name.strip().lower()) for name in names]
    for source, target in HEADERS:
        if plain.count(source) == plain.count(target) == 1:
            return plain.index(source), plain.index(target)
    return None


def shown(text: bytes) -> str:
    """A line for a person, quoted, and not more of it than is needed to find it."""
    words = text.decode("utf-8", "backslashreplace")
    return repr(words if len(words) <= _SHOWN else words[:_SHOWN] + "...")


def _separator(lines: Sequence[bytes]) -> bytes:
    """Return what splits the lines into two columns each; else what splits the first at all."""

    def count(line: bytes, separator: bytes) -> int:
        found = columns(line, separator) or []
        return len(found) if all(found) else 0

    kinds = (TAB, COMMA, SEMICOLON, BLANKS)
    for known in (lines, lines[:1]):
        for separator in kinds:
            if all(count(line, separator) == 2 for line in known):
                return separator
    return next((separator for separator in kinds if len(columns(lines[0], separator) or []) > 1), BLANKS)


def _header(fields: Sequence[Sequence[bytes]]) -> tuple[bool, bool]:
    """Whether the first of two lines is a header, and whether it names the target first."""
    if len(fields[0]) != 2 or any(map(_is_number, fields[0])):
        return False, False
    pair = named_pair([name.decode("utf-8", "replace") for name in fields[0]])
    numbers = len(fields) > 1 and len(fields[1]) == 2 and all(map(_is_number, fields[1]))
    return pair is not None or numbers, pair == (1, 0)


def _printable(line: bytes) -> str:
    return "".join(sign if sign.isprintable() else " " for sign in line.decode("utf-8", "replace"))[:_LONGEST_HEADER]


def _is_number(field: bytes) -> bool:
    return bool(_NUMBER.fullmatch(field))
