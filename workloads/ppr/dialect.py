"""The format of a graph file: what is between its columns, whether it has a header, whether ids are numbers or words.

The first lines decide, for the whole file, so that every reader of a part of it decides alike: they begin a kind that
has a name (dialects.py), else the first two that are no comments say which columns there are. Only the standard
library, as the controller reads this too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from workloads.common.events import BadInput
from workloads.ppr.dialects import COMMENTS, Form

BLANKS, TAB, COMMA, SEMICOLON = b" ", b"\t", b",", b";"
LARGEST_ID = 2**64 - 1
LONGEST_LINE = 1 << 20
_SHOWN = 60
_FILLED = re.compile(rb"[^\n]")
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
_WHOLE = re.compile(rb"(\d+)(?:\.(\d*))?(?:[eE]([+-]?\d{1,3}))?")
_DATA_WEIGHT = re.compile(rb"""['"]weight['"]: *([^,}]+)""")
WEIGHTS = ("weight", "weights", "w", "value", "strength")
"""Names of a column of weights."""
KIND = "type"
"""The name of a column that says of each edge whether it is directed."""
SECTIONS = (b"arcs", b"edges")
"""What may follow in a file of sections after its first edge."""
SIZE, EDGE = "size", "edge"
"""The answers to the question what the first line is."""
_COLUMN = {
    separator: re.compile(
        rb'(?:%(b)s"((?:[^"]|"")*)"%(b)s|(?!%(b)s")([^%(s)s]*))(%(s)s|\Z)'
        % {b"b": b"[ ]*" if separator == TAB else b"[ \t]*", b"s": separator}
    )
    for separator in (TAB, COMMA, SEMICOLON)
} | {BLANKS: re.compile(rb'(?:"((?:[^"]|"")*)"|(?!")([^ \t]+))([ \t]+|\Z)')}
"""A column, quoted or not, and what follows it."""


@dataclass(frozen=True)
class Size:
    """The number of nodes, from 1, and of edges that a file says it has, and in which line; `edges` -1: not said."""

    nodes: int
    edges: int
    line: int
    lenient: bool = False


@dataclass(frozen=True)
class Dialect:
    """`separator`: what is between columns; BLANKS means spaces and tabs. `words`: ids are words, else numbers.

    `header`: the header's line as text, empty without one. `count`: how many columns a line has, or with `rest` at
    least as far as `ends`, those of source and target. `weight`: the column of weights; `data`: weights are in what
    networkx writes, ``{'weight': 2}``. `kind`: the column that says of each edge whether it is directed. `others`: the
    names of the columns that are not read. `plain`: two columns of numbers apart by blanks and without quotes, which
    machine code reads. `passed`: ranges of bytes that are not to be read. `comments`: all bytes before the first edge;
    `start`: where it begins. `form`: the kind that has a name; `size`: what the file says of its size; `both`: edges
    lead both ways. `asked`: a first line that may be a size and not an edge; `asked_passed`: it is not read, as it has
    not the columns of the others.
    """

    separator: bytes = BLANKS
    words: bool = False
    header: str = ""
    plain: bool = True
    passed: tuple[tuple[int, int], ...] = ()
    comments: bytes = b""
    count: int = 2
    ends: tuple[int, int] = (0, 1)
    weight: int | None = None
    data: bool = False
    kind: int | None = None
    rest: bool = False
    others: tuple[str, ...] = ()
    form: Form | None = None
    size: Size | None = None
    both: bool = False
    asked: Size | None = None
    asked_passed: bool = False
    first: bytes = b""

    @property
    def wanted(self) -> tuple[int, ...]:
        """The columns that are read: the ends, then the weight and the kind, where these are."""
        more = [column for column in (self.weight, self.kind) if column is not None]
        return (*self.ends, *more)

    @property
    def pairs(self) -> bool:
        """Whether a line has two numbers and nothing else, the source first."""
        return self.wanted == (0, 1) and self.count == 2 and not (self.words or self.rest or self.data)

    @property
    def least(self) -> int:
        """The least number of columns of a line."""
        return max(self.ends) + 1 + self.data if self.rest else self.count

    def is_comment(self, line: bytes) -> bool:
        """Whether a line that is not blank is a comment: where ids are words, one that has not the columns of an edge.

        `line`: without blanks at its ends.
        """
        if self.form and self.form.letters:
            return line[:1].isalpha() and line[:1] not in self.form.letters and line[1:2] in (b"", b" ", b"\t")
        mark = next((mark for mark in COMMENTS if line.startswith(mark)), None)
        if mark is None or not self.words:
            return mark is not None
        after = line[len(mark) :]
        apart = not after.lstrip(b"#%/") or after[:1] in (b" ", b"\t")
        return apart or len(columns(line, self.separator) or ()) != self.count

    def picked(self, found: Sequence[bytes]) -> list[bytes] | None:
        """Those columns of a line that are read, as in `wanted`; None where it has not as many as it should."""
        if len(found) != self.count and not (self.rest and len(found) >= self.least):
            return None
        chosen = [found[column] if column < len(found) else b"" for column in self.wanted]
        return chosen if all(chosen[:2]) else None


def whole_number(field: bytes) -> bytes | None:
    """A node's id as digits without zeros before them: of ``7``, ``7.0`` or ``1e+05``; None for another one."""
    found = _WHOLE.fullmatch(field)
    if not found:
        return None
    digits, fraction, power = found[1], found[2] or b"", int(found[3] or 0)
    digits += fraction
    power -= len(fraction)
    if power < 0:
        if digits[power:].strip(b"0") or (digits[:power] == b"" and digits.strip(b"0")):
            return None
        digits = digits[:power]
    return (digits + b"0" * max(power, 0)).lstrip(b"0") or b"0"


def weight_in(line: bytes) -> bytes:
    """The weight in networkx's data of an edge; 1 where they have none."""
    found = _DATA_WEIGHT.search(line)
    return found[1].strip() if found else b"1"


@dataclass(frozen=True)
class How:
    """What a person asks of a file: to read its `weights`; what its `first_line` is (SIZE, EDGE).

    `undirected`: who reads takes all edges both ways, so that none is to be doubled here.
    """

    weights: bool = False
    first_line: str | None = None
    undirected: bool = False


PLAIN = How()


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


def in_sections(blocks: Iterator[bytes], found: Dialect) -> Iterator[tuple[bytes, bool]]:
    """Each block, and whether its edges lead both ways; blocks are cut where a line of the file says what follows.

    Another such line than SECTIONS stays in its block: no edge can be read from it.
    """
    both = found.both
    if not found.form or not found.form.sections:
        yield from ((block, both) for block in blocks)
        return
    for block in blocks:
        begin = 0
        for section in found.form.sections.finditer(block) if b"*" in block else ():
            name = section[1].lower()
            if name in SECTIONS:
                yield block[begin : section.start()], both
                both, begin = name in found.form.undirected, section.end()
        yield block[begin:], both


def of_named(found: Dialect) -> dict[int, bytes]:
    """The names of nodes by id in the head of a kind of file that has them there."""
    assert found.form is not None
    assert found.form.names is not None
    return {
        int(match["id"]): match["quoted"] if match["quoted"] is not None else match["name"]
        for match in found.form.names.finditer(found.comments)
    }


def names(path: object, found: Dialect) -> dict[int, bytes]:
    """Names of nodes in the comments before the first edge, by id; none where ids are words. Raises BadInput."""
    if found.form:
        return of_named(found) if found.form.names else {}
    names: dict[int, bytes] = {}
    for match in _NAME.finditer(found.comments) if not found.words else ():
        node = int(match[1])
        if node in names or node > LARGEST_ID:
            line = 1 + found.comments.count(b"\n", 0, match.start())
            fault = f"node {node} is named twice" if node in names else "a node id of more than 64 bits"
            raise BadInput(f"{path}: line {line}: {fault}: {shown(match[0])}")
        names[node] = match[2]
    return names


def passed_over(blocks: Iterator[bytes], start: int, ranges: Iterable[tuple[int, int]]) -> Iterator[bytes]:
    """The same blocks, of which the first begins at byte `start`, with blanks in some ranges of the file's bytes."""
    waiting = sorted(ranges)
    for block in blocks:
        whole = block
        for first, last in waiting:
            low, high = max(first - start, 0), min(last - start, len(block))
            if low < high:
                blank = _FILLED.sub(b" ", whole[low:high])
                whole = whole[:low] + blank + whole[high:]
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
