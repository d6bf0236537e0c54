"""Reads graphs as lists of edges: text as people write it, packed or not, or Parquet.

A line of text holds an edge, source first: two columns apart by spaces or tabs, or by commas or semicolons. Ids are
decimal integers, 0 to 2**64 - 1, or, where an id of the first edge is no number, words (dialect.py). There may be a
header. Lines that are blank or start with ``#`` are comments, line ends may be CRLF, and gzip, Zstandard and Parquet
are known by their content. Anything else is refused with its line number: a third column too, since a weight or a time
that is passed over in silence would change what the answer means.

In the comments before the first edge, a line ``# node <id> <name>`` names a node, and makes it one if no edge has it;
where ids are words, it is a comment like others.

Blocks of whole lines are read one after the other and taken apart by threads, in machine code (kernels.py) where ids
are numbers.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.common import compiled, storage, threads
from workloads.common.events import BadInput
from workloads.common.storage import packed
from workloads.ppr import dialect, fields, parquet, words
from workloads.ppr.dialect import Dialect
from workloads.ppr.words import Words

BLOCK_BYTES = 4 << 20
SNIFF_BYTES = 64 << 10
Ids = NDArray[Any]
"""Ids uint32 or, where one needs them, uint64 (2 m,): source and target of an edge, one after the other."""

_SHORTEST_LINE = 4

kernels = compiled.load("workloads.ppr.kernels")


@dataclass(frozen=True)
class EdgeList:
    """`blocks`: the edges in the file's order; `names`: of nodes that the file names, by id; `header`: its text, or "".

    `words`: where ids are words, those of these blocks, sorted by their bytes; an id is a word's place there.
    """

    blocks: list[Ids]
    names: dict[int, bytes] = field(default_factory=dict)
    words: Words | None = None
    header: str = ""

    @property
    def edges(self) -> NDArray[np.uint64]:
        """Source and target of each edge in the file's order, (m, 2). Raises ValueError where there is no edge."""
        return np.concatenate(self.blocks).astype(np.uint64).reshape(-1, 2)


Taken = tuple[Ids, Words | None]
"""The edges of a block; where ids are words, those of the block, and places in them."""


def read(path: Path | str, block_bytes: int = BLOCK_BYTES) -> EdgeList:
    """Read an edge list whole, from a file or ``hdfs://``.

    Raises :class:`BadInput` with file, line number and content of the first line that is malformed, and where the file
    is missing, unreadable, damaged or without edges.
    """
    found = read_part(path, 0, 1, block_bytes)
    if not found.blocks:
        raise dialect.no_edges(path, found.header)
    return found


def read_part(path: Path | str, part: int, parts: int, block_bytes: int = BLOCK_BYTES) -> EdgeList:
    """As :func:`read`, one of `parts` parts of about equal size, which may be empty.

    A plain file is read in ranges of bytes, a compressed one by every part whole, each keeping its own blocks, and of
    Parquet each part reads its row groups. Only part 0 knows the names of nodes. `block_bytes`: how much text
    a thread takes apart at a time, in bytes.
    """
    with packed.opened(path) as (stream, kind):
        if kind == packed.PARQUET:
            columns, taken = parquet.edges(path, stream, part, parts)
            return _joined(list(taken), {}, columns)
        shared = parts > 1 and not kind
        size = SNIFF_BYTES if shared else block_bytes
        found, begun = dialect.sniff(path, lambda: stream.read(size))
        if shared:
            start, blocks = storage.placed_share(path, part, parts)
            blocks = dialect.passed_over(blocks, start, found.passed)
        else:
            rest = iter(lambda: stream.read(block_bytes), b"")
            blocks = dialect.passed_over(storage.whole_lines(itertools.chain(begun, rest)), 0, found.passed)
            blocks = itertools.islice(blocks, part, None, parts)
        names = dialect.names(path, found) if part == 0 else {}
        lines_known = parts == 1 or (shared and part == 0)
        return _joined(_parse_all(path, found, blocks, lines_known=lines_known), names, found)


def _joined(taken: list[Taken], names: dict[int, bytes], found: Dialect) -> EdgeList:
    """Return what the blocks hold, with one numbering of words."""
    blocks = [ids for ids, _ in taken]
    known: Words | None = None
    if found.words:
        known, places = words.merged([own for _, own in taken if own is not None])
        blocks = [place[ids] for place, ids in zip(places, blocks, strict=True)]
    if found.swapped:
        blocks = [np.ascontiguousarray(ids.reshape(-1, 2)[:, ::-1]).ravel() for ids in blocks]
    return EdgeList(blocks, names, known, found.header)


class _Malformed(Exception):
    """A line that holds no edge."""


Parsed = tuple[Taken | bytes, int]
"""A block and how many lines it has; or its first malformed line and how many come before."""


def _parse_all(path: Path | str, found: Dialect, blocks: Iterable[bytes], *, lines_known: bool) -> list[Taken]:
    parse: Callable[[bytes], Parsed] = _parse if found.plain else lambda block: _parse_split(block, found)
    kept: list[Taken] = []
    line = 1
    with threads.pool() as pool:
        try:
            for taken, lines in threads.in_order(pool, parse, blocks, ahead=2 * threads.count()):
                if isinstance(taken, bytes):
                    if not lines_known:
                        raise _Malformed
                    raise BadInput(f"{path}: line {line + lines}: {fields.described(taken, found)}")
                line += lines
                if len(taken[0]):
                    kept.append(taken)
        except _Malformed:
            pool.shutdown(cancel_futures=True)
            read(path)
            raise BadInput(f"{path}: has changed while it was read; try again") from None
    return kept


def _parse(block: bytes) -> Parsed:
    """Numbers apart by blanks."""
    text = np.frombuffer(block, np.uint8)
    for dtype in (np.uint32, np.uint64):
        ids = np.empty(2 * (len(text) // _SHORTEST_LINE + 1), dtype)
        status, count, lines, begin = kernels.parse(text, ids, np.iinfo(dtype).max)
        if status == kernels.OK:
            return (ids[:count].copy(), None), lines
        if status == kernels.MALFORMED:
            break
    end = block.find(b"\n", begin)
    return block[begin : end if end >= 0 else len(block)], lines


def _parse_split(block: bytes, found: Dialect) -> Parsed:
    """Words, or numbers that are quoted or not apart by blanks."""
    split = fields.split(block, found)
    if fault := fields.fault_of(split, words=found.words):
        return fault[1], fault[0]
    if found.words:
        return words.encoded(split.values, split.offsets), split.line_count
    taken, _ = _parse(fields.lines(split))
    return taken, split.line_count
