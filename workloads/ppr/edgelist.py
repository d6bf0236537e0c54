"""Reads graphs as files of edges: text as people write it, packed or not, or Parquet.

A line of text holds an edge, source first, in two columns or more, apart by spaces or tabs, or by commas or semicolons;
kinds of files that have a name are known by their first lines (dialects.py). Ids are decimal integers of any length or,
where an id of the first edge is no number, words (dialect.py). There may be a header. Blank lines and comments are left
out, line ends may be CRLF, and what packs a file is known by its content. Anything else is refused with its line
number. Columns beyond the two are left out, and named; weights are read if they are asked for.

In the comments before the first edge, a line ``# node <id> <name>`` names a node, and makes it one if no edge has it;
where ids are words, it is a comment like others.

Blocks of whole lines are read one after the other and taken apart by threads, in machine code (kernels.py) where ids
are numbers.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.common import compiled, storage, threads
from workloads.common.events import BadInput
from workloads.common.storage import packed
from workloads.ppr import dialect, fields, parquet, said, sniffing, words
from workloads.ppr.dialect import PLAIN, Dialect, How
from workloads.ppr.words import Words

BLOCK_BYTES = 4 << 20
SNIFF_BYTES = 64 << 10
Ids = NDArray[Any]
"""Ids uint32 or, where one needs them, uint64 (2 m,): source and target of an edge, one after the other."""

_SHORTEST_LINE = 4

kernels = compiled.load("workloads.ppr.kernels")


@dataclass(frozen=True)
class Taken:
    """The edges of a block of text, (2 m,); where ids are words, those of the block, and places in them.

    `weights` float64 (m,), where they are read. `listed`: how many edges the text has, of which `both` lead both ways;
    these may be here in both directions; `undirected` (m,): which. `lines` of the text, and `comments` among them.
    """

    ids: Ids
    words: Words | None = None
    weights: NDArray[np.float64] | None = None
    listed: int = 0
    both: int = 0
    lines: int = 0
    comments: int = 0
    undirected: NDArray[np.bool_] | None = None


@dataclass(frozen=True)
class EdgeList:
    """`blocks`: the edges in the file's order; `names`: of nodes that the file names, by id; `header`: its text, or "".

    `words`: where ids are words, those of these blocks, sorted by their bytes; an id is a word's place there.
    `weights`: those of each block. `listed`, `both`, `comments`: see :class:`Taken`. `nodes`: where not 0, the nodes
    from 1 to this one are there even without edges. `found`: the file's dialect; `first`: the
    file's first line is in here.
    """

    blocks: list[Ids]
    names: dict[int, bytes] = field(default_factory=dict)
    words: Words | None = None
    header: str = ""
    weights: list[NDArray[np.float64]] | None = None
    listed: int = 0
    both: int = 0
    comments: int = 0
    nodes: int = 0
    found: Dialect = field(default_factory=Dialect)
    first: bool = False

    @property
    def edges(self) -> NDArray[np.uint64]:
        """Source and target of each edge in the file's order, (m, 2). Raises ValueError where there is no edge."""
        return np.concatenate(self.blocks).astype(np.uint64).reshape(-1, 2)

    @property
    def named(self) -> NDArray[np.uint64]:
        """The ids of nodes that are there even if no edge has them, uint64 (k,), perhaps twice."""
        if self.words is not None:
            return np.zeros(0, np.uint64)
        names = np.fromiter(self.names, np.uint64, len(self.names))
        numbered = np.arange(1, self.nodes + 1, dtype=np.uint64)
        return np.concatenate([names, numbered]) if self.names else numbered

    @property
    def largest(self) -> int:
        """The largest id of an edge or of a node that is there without one; -1 where there is none."""
        found = [int(block.max()) for block in self.blocks if len(block)]
        if self.words is None:
            found += [*self.names, *([self.nodes] if self.nodes else [])]
        return max(found, default=-1)

    def notes(self, undirected: bool) -> list[str]:
        """Notes for a person on the reading; see :func:`said.notes`."""
        weighted = self.weights is not None
        return said.notes(self.found, self.listed, self.comments, self.both, weighted=weighted, doubled=not undirected)


def read(path: Path | str, block_bytes: int = BLOCK_BYTES, how: How = PLAIN) -> EdgeList:
    """Read a graph file whole, from a file or ``hdfs://``.

    Raises :class:`BadInput` with file, line number and content of the first line that is malformed, and where the file
    is missing, unreadable, damaged, without edges, or not as long as it says.
    """
    found = read_part(path, 0, 1, block_bytes, how)
    agreed(path, [told(found)])
    return found


@dataclass(frozen=True)
class Told:
    """All that others have to know of a part: the same without its edges, and its largest id, -1 where it has none.

    `after`: the largest but for the file's first line, if that is read as an edge.
    """

    read: EdgeList
    largest: int
    after: int


def told(read: EdgeList) -> Told:
    """Return what others have to know of a part."""
    first = 2 if read.first and not read.found.asked_passed else 0
    blocks = [read.blocks[0][first:], *read.blocks[1:]] if read.blocks and read.found.asked else []
    return Told(
        replace(read, blocks=[], weights=None),
        read.largest,
        max((int(block.max()) for block in blocks if len(block)), default=-1),
    )


def agreed(path: Path | str, parts: Sequence[Told]) -> EdgeList:
    """The facts about a file of which all parts have been read, but for its edges and its words.

    Raises BadInput: it is empty, not as long as it says, or its first line may be no edge.
    """
    first = parts[0].read
    counts = {name: sum(getattr(part.read, name) for part in parts) for name in ("listed", "both", "comments")}
    listed, found = counts["listed"], first.found
    if not listed:
        raise said.no_edges(path, first.header)
    said.checked(path, found, listed)
    by_words = any(part.read.words is not None for part in parts)
    if found.asked and not by_words:
        after = listed if found.asked_passed else listed - 1
        if after == found.asked.edges and all(part.after <= found.asked.nodes for part in parts):
            raise said.asks(path, found.asked, after)
        if found.asked_passed:
            raise said.odd_first(path, found)
    return replace(first, names={} if by_words else first.names, **counts)


def as_words(read: EdgeList) -> EdgeList:
    """The same with words, which are digits where ids are numbers."""
    return read if read.words is not None else by_words(read, [None] * len(read.blocks))


def read_part(path: Path | str, part: int, parts: int, block_bytes: int = BLOCK_BYTES, how: How = PLAIN) -> EdgeList:
    """As :func:`read`, one of `parts` parts of about equal size, which may be empty.

    A plain file is read in ranges of bytes, a compressed one by every part whole, each keeping its own blocks, and of
    Parquet each part reads its row groups. Only part 0 knows the names of nodes. `block_bytes`: how much text
    a thread takes apart at a time, in bytes.
    """
    with packed.opened(path) as (stream, kind):
        if kind == packed.PARQUET:
            columns, batches = parquet.edges(path, stream, part, parts, weights=how.weights)
            taken = [Taken(read, known, weights, len(read) // 2) for read, known, weights in batches]
            return _joined(taken, {}, columns)
        size = SNIFF_BYTES if parts > 1 and not kind else block_bytes
        found, begun = sniffing.sniff(path, lambda: stream.read(size), weights=how.weights, first_line=how.first_line)
        shared = parts > 1 and not kind and not (found.form and found.form.sections)
        if shared:
            start, blocks = storage.placed_share(path, part, parts)
            blocks = dialect.passed_over(blocks, start, found.passed)
        else:
            rest = iter(lambda: stream.read(block_bytes), b"")
            blocks = dialect.passed_over(storage.whole_lines(itertools.chain(begun, rest)), 0, found.passed)
        sections = dialect.in_sections(blocks, found)
        if not shared:
            sections = itertools.islice(sections, part, None, parts)
        names = dialect.names(path, found) if part == 0 else {}
        lines_known = parts == 1 or (shared and part == 0)
        taken = _parse_all(path, found, sections, how, lines_known=lines_known)
        return replace(_joined(taken, names, found), first=part == 0)


def _joined(taken: list[Taken], names: dict[int, bytes], found: Dialect) -> EdgeList:
    """Return what the blocks hold, with one numbering of words."""
    counts = {name: sum(getattr(one, name) for one in taken) for name in ("listed", "both", "comments")}
    taken = [one for one in taken if len(one.ids)]
    weighted = any(one.weights is not None for one in taken)
    made = EdgeList(
        [one.ids for one in taken],
        names,
        words.NONE if found.words else None,
        found.header,
        weights=[one.weights for one in taken if one.weights is not None] if weighted else None,
        nodes=found.size.nodes if found.size else 0,
        found=found,
        **counts,
    )
    own = [one.words for one in taken]
    return by_words(made, own) if found.words or any(one is not None for one in own) else made


def by_words(read: EdgeList, own: Sequence[Words | None]) -> EdgeList:
    """The same with one numbering of words: those of each block; a block without has numbers, which become words."""
    blocks, parts = [], []
    for block, known in zip(read.blocks, own, strict=True):
        codes, some = (block, known) if known is not None else words.of_numbers(block)
        blocks.append(codes)
        parts.append(some)
    merged, places = words.merged(parts)
    blocks = [place[block] for place, block in zip(places, blocks, strict=True)]
    return replace(read, blocks=blocks, words=merged, names={})


class _Malformed(Exception):
    """A line that holds no edge."""


Wrong = tuple[bytes, int]
"""The first malformed line of a block, and how many lines come before."""


def _parse_all(
    path: Path | str, found: Dialect, blocks: Iterable[tuple[bytes, bool]], how: How, *, lines_known: bool
) -> list[Taken]:
    def parse(block: tuple[bytes, bool]) -> Taken | Wrong:
        text, both = block
        taken = _parse(text, found)
        return _both_ways(taken, both, how) if isinstance(taken, Taken) else taken

    kept: list[Taken] = []
    line = 1
    with threads.pool() as pool:
        try:
            for taken in threads.in_order(pool, parse, blocks, ahead=2 * threads.count()):
                if not isinstance(taken, Taken):
                    if not lines_known:
                        raise _Malformed
                    raise BadInput(f"{path}: line {line + taken[1]}: {fields.described(taken[0], found)}")
                line += taken.lines
                kept.append(taken)
        except _Malformed:
            pool.shutdown(cancel_futures=True)
            read(path, how=how)
            raise BadInput(f"{path}: has changed while it was read; try again") from None
    return kept


def _both_ways(taken: Taken, both: bool, how: How) -> Taken:
    """The same with each edge that leads both ways in both directions, if the reader does not do that to all."""
    edges = len(taken.ids) // 2
    undirected = taken.undirected if taken.undirected is not None else np.zeros(0, bool)
    count = edges if both else int(np.count_nonzero(undirected))
    if not count or how.undirected:
        return replace(taken, both=count, undirected=None)
    weights = taken.weights if taken.weights is not None else np.zeros(0)
    doubled, their_weights = np.empty(4 * edges, taken.ids.dtype), np.empty(2 * len(weights))
    ids = kernels.both_ways(taken.ids, both, undirected.view(np.uint8), weights, doubled, their_weights)
    return replace(
        taken,
        ids=doubled[:ids],
        weights=taken.weights if taken.weights is None else their_weights[: ids // 2],
        both=count,
        undirected=None,
    )


def _parse(block: bytes, found: Dialect) -> Taken | Wrong:
    """Take a block apart in machine code, if it is of numbers without anything rare, else by numpy."""
    taken = _parse_pairs(block, found) if found.pairs else None
    if taken is None and not found.words and not (found.plain and b'"' in block):
        taken = _parse_columns(block, found)
    if (
        taken is None
        or fields.out_of_range(taken.ids, found) is not None
        or (taken.comments and fields.begins_again(block))
    ):
        return _parse_split(block, found)
    return taken


def _parse_pairs(block: bytes, found: Dialect) -> Taken | None:
    """Two numbers a line, without a point."""
    text = np.frombuffer(block, np.uint8)
    for dtype in (np.uint32, np.uint64):
        ids = np.empty(2 * (len(text) // _SHORTEST_LINE + 1), dtype)
        status, count, lines, comments = kernels.parse(text, found.separator[0], ids, np.iinfo(dtype).max)
        if status == kernels.OK:
            return Taken(ids[:count].copy(), listed=count // 2, lines=lines, comments=comments)
        if status == kernels.MALFORMED:
            break
    return None


def _parse_columns(block: bytes, found: Dialect) -> Taken | None:
    """Numbers in some of the columns."""
    if found.data and found.weight is not None:
        return None
    text = np.frombuffer(block, np.uint8)
    most = len(text) // _SHORTEST_LINE + 1
    read = np.empty(2 * most, np.uint64)
    weights = np.empty(most if found.weight is not None else 0)
    undirected = np.empty(most if found.kind is not None else 0, np.uint8)
    weight, kind = (-1 if column is None else column for column in (found.weight, found.kind))
    letter = found.form.letters[0][0] if found.form and found.form.letters else 0
    status, count, lines, comments = kernels.columns(
        *(text, found.separator[0], *found.ends, weight, kind, found.least, found.rest, letter),
        *(read, weights, undirected),
    )
    if status != kernels.OK:
        return None
    edges = count // 2
    return Taken(
        narrow(read[:count]),
        None,
        weights[:edges].copy() if found.weight is not None else None,
        edges,
        lines=lines,
        comments=comments,
        undirected=undirected[:edges].astype(bool) if found.kind is not None else None,
    )


def narrow(read: NDArray[np.uint64]) -> Ids:
    """The same as uint32, where all are small enough."""
    return read.astype(np.uint32) if not len(read) or read.max() < 2**32 else read.copy()


def _parse_split(block: bytes, found: Dialect) -> Taken | Wrong:
    """Words, or numbers with something rare."""
    split, numbers, fault = fields.looked_at(fields.split(block, found), found)
    if fault:
        return fault[1], fault[0]
    known: Words | None = None
    if numbers is None:
        codes, known = words.encoded(split.values, split.offsets)
    return Taken(
        codes if numbers is None else narrow(numbers),
        known,
        split.weights,
        len(split.lines),
        lines=split.line_count,
        comments=split.comments,
        undirected=split.undirected,
    )
