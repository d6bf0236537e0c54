"""Finds the dialect of a graph file by its first lines. Only the standard library, as the controller reads this too."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from workloads.common.events import BadInput
from workloads.ppr import dialects
from workloads.ppr.dialect import (
    BLANKS,
    BYTE_ORDER_MARK,
    COMMA,
    EDGE,
    KIND,
    LONGEST_LINE,
    SEMICOLON,
    SIZE,
    TAB,
    WEIGHTS,
    Dialect,
    Size,
    columns,
    named_pair,
)
from workloads.ppr.dialects import Form

_LONGEST_HEADER = 80
_LONGEST_HEAD = 1 << 30
_DATA = re.compile(rb"(?m)^[ \t]*(?![#%\s]|//)[^\n]+")
_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
ARROWS = {b"->", b"-->", b"=>", b"--", b"-", b"<->", "\N{RIGHTWARDS ARROW}".encode()}
_DATA_OF_EDGE = re.compile(rb"[^\s,;{}]+[ \t,;]+[^\s,;{}]+[ \t,;]+\{.*\}")


def sniff(
    path: object, read: Callable[[], bytes], *, weights: bool = False, first_line: str | None = None
) -> tuple[Dialect, list[bytes]]:
    """The dialect of the file from which `read` gives one block after the other, and the blocks that it took to know.

    `weights`: they are to be read; `first_line`: SIZE or EDGE, where a person has said what it is. Raises BadInput,
    which names `path`, for a kind of file that is not read, and where a line is so long that this is no edge list.
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
        found = of(path, text, complete=not block, first_line=first_line)
        if found:
            return with_weights(path, found) if weights else replace(found, weight=None), taken
        if len(text) - text.rfind(b"\n") > LONGEST_LINE:
            raise BadInput(f"{path}: line {text.count(10) + 1}: is longer than 1 MB, so this is no edge list; give one")


def with_weights(path: object, found: Dialect) -> Dialect:
    """The same where the file has weights. Raises BadInput where it has none."""
    if found.weight is None and not found.data:
        has = f"its columns are {found.header}" if found.header else f"a line has {found.count} columns"
        known = ", ".join(WEIGHTS)
        raise BadInput(
            f"{path}: --weights: there is no column of weights ({has}): name it {known} in a header, or leave out "
            "--weights"
        )
    return replace(found, plain=False, weight=max(found.ends) + 1 if found.data else found.weight)


def of(path: object, text: bytes, *, complete: bool, first_line: str | None = None) -> Dialect | None:
    """The dialect of a file that begins with `text`; None where it takes more to know. `complete`: this is all."""
    marked = text.startswith(BYTE_ORDER_MARK)
    if marked:
        text = b"   " + text[3:]
    if text[257:262] == b"ustar":
        raise BadInput(f"{path}: is a tar archive: unpack it by 'tar xf', and give the file of edges in it")
    start = len(text) - len(text.lstrip())
    whole = text if complete else text[: text.rfind(b"\n") + 1]
    if len(whole) <= start and not complete:
        return None
    if not complete and dialects.NEEDS_MORE.match(text):
        return None
    form = next((form for form in dialects.FORMS if form.begins.match(whole)), None)
    if form:
        return _of_form(path, form, text, complete=complete)
    lines: list[re.Match[bytes]] = []
    for match in _DATA.finditer(text):
        if match.end() == len(text) and not complete:
            return None
        lines.append(match)
        if len(lines) == 3:
            break
    if len(lines) < 2 and not complete:
        return None
    passed = ((0, 3),) if marked else ()
    return _of_lines(path, text, lines, passed, first_line)


def _of_lines(
    path: object,
    text: bytes,
    lines: list[re.Match[bytes]],
    passed: tuple[tuple[int, int], ...],
    first_line: str | None,
) -> Dialect:
    """The dialect of a list of edges, by its first lines that are no comments."""
    if not lines:
        return Dialect(passed=passed, comments=text)
    shown = [match[0].removesuffix(b"\r").strip(b" \t") for match in lines[:2]]
    asked = None if first_line == EDGE else _size_of(text, lines, shown)
    if asked and (first_line == SIZE or len(shown[0].split()) != len(shown[-1].split())):
        rest = _of_lines(path, text, lines[1:], (*passed, (0, lines[0].end())), EDGE)
        if first_line == SIZE:
            return replace(rest, first=shown[0], size=asked)
        return replace(rest, first=shown[0], asked=asked, asked_passed=True)
    if (
        first_line != EDGE
        and re.fullmatch(rb"\d+", shown[0])
        and len(shown) > 1
        and re.fullmatch(rb"[\d \t]*", shown[1])
    ):
        raise BadInput(
            f"{path}: line {_line(text, lines[0])}: is one number: LAW's ASCII graphs begin so, with the number of "
            "nodes, and then name the successors of each in a line; these are not read: write an edge a line"
        )
    separator = _separator(shown)
    fields = [columns(line, separator) or [] for line in shown]
    if fault := _no_edges(fields):
        raise BadInput(f"{path}: line {_line(text, lines[0])}: {fault}")
    header, pair = _header(fields)
    edge = fields[1:] if header else fields
    count = max(2, len(edge[0]) if edge else len(fields[0]))
    ends = pair or (0, 1)
    if header:
        passed = (*passed, lines[0].span())
    start = lines[1].start() if header and len(lines) > 1 else len(text) if header else lines[0].start()
    if start:
        passed = (*passed, (0, start))
    has_ends = bool(edge) and len(edge[0]) > max(ends)
    words = has_ends and not all(_is_number(edge[0][end]) for end in ends)
    quotes = any(b'"' in line for line in shown[len(shown) - len(edge) :])
    data = bool(edge) and bool(_DATA_OF_EDGE.fullmatch(shown[-1] if header else shown[0]))
    names = [name.decode("utf-8", "replace").strip().lower() for name in fields[0][:count]] if header else []
    weight, kind = _weight_and_kind(names, edge, count)
    others = (
        []
        if count == 2
        else [
            (fields[0][place].decode("utf-8", "replace") if header and place < len(fields[0]) else "") or f"{place + 1}"
            for place in range(count)
            if place not in (*ends, kind)
        ]
    )
    plain = not words and not quotes and separator in (BLANKS, TAB) and count == 2 and ends == (0, 1)
    return Dialect(
        separator=separator if words or quotes or (not plain and separator != TAB) else BLANKS,
        words=words,
        header=_printable(shown[0]) if header else "",
        plain=plain,
        passed=passed,
        comments=text[:start],
        count=count,
        ends=ends,
        weight=None if data else weight,
        data=data,
        kind=kind,
        rest=data,
        others=("data",) if data else tuple(others),
        asked=asked if not header and not words else None,
        first=shown[0],
    )


def _of_form(path: object, form: Form, text: bytes, *, complete: bool) -> Dialect | None:
    """The dialect of a kind of file that has a name. Raises BadInput where it is not read."""
    found = form.head.match(text) if form.head else None
    if found is None or (found.end() == len(text) and not complete):
        unread = form.head is not None and form.sections is None
        if not complete and form.head is not None and len(text) < _LONGEST_HEAD:
            return None
        if unread and not form.refused:
            raise BadInput(f"{path}: is {form.name}, and the line of its size is missing or torn: copy it again")
        if found is None:
            raise BadInput(f"{path}: is {form.name}, which {form.refused.format(path=path)}")
    groups = found.groupdict()
    nodes, edges = groups.get("nodes"), groups.get("edges")
    size = None
    if nodes is not None:
        at = found.start("edges") if edges is not None else found.start("nodes")
        size = Size(int(nodes), int(edges) if edges is not None else -1, text.count(b"\n", 0, at) + 1, form.lenient)
        wide = groups.get("columns")
        if wide is not None and int(wide) != int(nodes):
            raise BadInput(
                f"{path}: line {size.line}: is a matrix of {int(nodes)} x {int(wide)}, and that of a graph is square"
            )
    field = (groups.get("field") or b"").lower()
    both = (groups.get("both") or b"").lower() in form.undirected
    edge = re.compile(rb"(?m)^[ \t]*%s[ \t][^\n]*" % form.letters[0]) if form.letters else _DATA
    second = edge.search(text, found.end())
    if not complete and (second is None or second.end() == len(text)):
        return None
    fields = columns(second[0].removesuffix(b"\r"), BLANKS) or [] if second else []
    least = max(form.ends) + 1
    count = len(fields) if len(fields) >= least else least
    weight = (
        form.weight if form.weight is not None and (count > form.weight or form.rest) and field != b"pattern" else None
    )
    words = size is None and len(fields) >= least and not all(_is_number(fields[end]) for end in form.ends)
    return Dialect(
        words=words,
        plain=not words and form.letters == () and not form.rest and count == 2,
        passed=((0, found.end()),),
        comments=text[: found.end()] if form.names else b"",
        count=count,
        ends=form.ends,
        weight=weight,
        rest=form.rest,
        others=tuple(f"{place + 1}" for place in range(least, count)),
        form=form,
        size=size,
        both=both,
    )


def _no_edges(fields: Sequence[Sequence[bytes]]) -> str:
    """Why the first two lines are none of a list of edges though they look so, and what to do; empty where they are."""
    names = [name.strip().lower() for name in fields[0]]
    if set(names[:2]) in ({b"id", b"label"}, {b"id", b"name"}) or names[:3] == [b"nodes", b"id", b"label"]:
        return "is a table of nodes, as Gephi exports it: give that of edges, whose columns are Source and Target"
    if all(len(line) > 2 and line[1] in ARROWS for line in fields):
        arrow = fields[0][1].decode()
        return f"the second column is '{arrow}': leave it out, as awk '{{print $1, $3}}' does"
    if all(len(line) > 1 and len(line[0]) > 1 and line[0].endswith(b":") for line in fields):
        return "names the neighbours of a node after a colon: write an edge a line"
    return ""


def _line(text: bytes, found: re.Match[bytes]) -> int:
    return text.count(b"\n", 0, found.start()) + 1


def _size_of(text: bytes, lines: list[re.Match[bytes]], shown: Sequence[bytes]) -> Size | None:
    """The size that the first line would be, if it is one: two or three whole numbers above lines of numbers."""
    numbers = shown[0].split()
    if len(numbers) not in (2, 3) or len(shown) < 2 or not all(re.fullmatch(rb"\d{1,18}", word) for word in numbers):
        return None
    return Size(max(map(int, numbers[:-1])), int(numbers[-1]), _line(text, lines[0]))


def _weight_and_kind(
    names: Sequence[str], edge: Sequence[Sequence[bytes]], count: int
) -> tuple[int | None, int | None]:
    """The columns of weights and of the kind of an edge, by the header's names; without one the third is weights."""
    weight = next((names.index(name) for name in WEIGHTS if name in names), None) if count > 2 else None
    if not names and count > 2 and edge and (_is_number(edge[0][2]) or edge[0][2].lower() in (b"nan", b"inf")):
        weight = 2
    kind = names.index(KIND) if count > 2 and KIND in names else None
    if kind is not None and not (
        edge and len(edge[0]) > kind and edge[0][kind].lower() in (b"directed", b"undirected")
    ):
        kind = None
    return weight, kind


def _separator(lines: Sequence[bytes]) -> bytes:
    """Return what splits the lines into two columns each, or as many of them; else what splits the first at all."""

    def count(line: bytes, separator: bytes) -> int:
        found = columns(line, separator) or []
        return len(found) if all(found) or len(found) > 2 else 0

    if all(_DATA_OF_EDGE.fullmatch(line) for line in lines[-1:]):
        return next((mark for mark in (COMMA, SEMICOLON) if re.match(rb"[^\s,;]+" + mark, lines[-1])), BLANKS)
    kinds = (TAB, COMMA, SEMICOLON)
    for separator in kinds:
        if all(count(line, separator) == 2 for line in lines):
            return separator
    for separator in kinds:
        if 2 < count(lines[0], separator) == count(lines[-1], separator):
            return separator
    if all(count(line, BLANKS) == 2 for line in lines):
        return BLANKS
    for separator in (*kinds, BLANKS):
        if count(lines[0], separator) == 2:
            return separator
    return next((separator for separator in (*kinds, BLANKS) if len(columns(lines[0], separator) or []) > 1), BLANKS)


def _header(fields: Sequence[Sequence[bytes]]) -> tuple[bool, tuple[int, int] | None]:
    """Whether the first of two lines is a header, and the columns that it names as source and target."""
    if len(fields[0]) < 2 or any(map(_is_number, fields[0])):
        return False, None
    pair = named_pair([name.decode("utf-8", "replace") for name in fields[0]])
    numbers = len(fields) > 1 and len(fields[1]) == len(fields[0]) and all(map(_is_number, fields[1][:2]))
    return pair is not None or numbers, pair


def _printable(line: bytes) -> str:
    return "".join(sign if sign.isprintable() else " " for sign in line.decode("utf-8", "replace"))[:_LONGEST_HEADER]


def _is_number(field: bytes) -> bool:
    return bool(_NUMBER.fullmatch(field))
