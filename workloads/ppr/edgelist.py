"""Reads graphs in SNAP's edge list format.

A line holds the ids of an edge's two nodes, source first, apart by spaces or tabs: decimal integers, 0 to 2**64 - 1.
Lines that are blank or start with ``#`` are comments, line ends may be CRLF, and a file compressed by gzip is known by
its content. Anything else is refused with its line number: a third column too, since a weight or a time that is passed
over in silence would change what the answer means.

In the comments before the first edge, a line ``# node <id> <name>`` names a node, and makes it one if no edge has it.

Blocks of whole lines are read one after the other and taken apart by threads, in machine code (kernels.py).
"""

from __future__ import annotations

import gzip
import itertools
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from workloads.common import compiled, storage, threads
from workloads.common.events import BadInput

BLOCK_BYTES = 4 << 20
LARGEST_ID = 2**64 - 1
Ids = NDArray[Any]
"""Ids uint32 or, where one needs them, uint64 (2 m,): source and target of an edge, one after the other."""

_GZIP_MAGIC = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_FIRST_EDGE = re.compile(rb"(?m)^[ \t]*[^#\s]")
_NAME = re.compile(rb"(?m)^[ \t]*#[ \t]*node[ \t]+(\d+)[ \t]+([^\n]*\S)")
_SHORTEST_LINE = 4
_SHOWN = 60

kernels = compiled.load("workloads.ppr.kernels")


@dataclass(frozen=True)
class EdgeList:
    """`blocks`: the edges in the file's order; `names`: of nodes that the file names, by id."""

    blocks: list[Ids]
    names: dict[int, bytes] = field(default_factory=dict)

    @property
    def edges(self) -> NDArray[np.uint64]:
        """Source and target of each edge in the file's order, (m, 2). Raises ValueError where there is no edge."""
        return np.concatenate(self.blocks).astype(np.uint64).reshape(-1, 2)


def read(path: Path | str, block_bytes: int = BLOCK_BYTES) -> EdgeList:
    """Read an edge list whole, from a file or ``hdfs://``.

    Raises :class:`BadInput` with file, line number and content of the first line that is malformed, and where the file
    is missing, unreadable, damaged or without edges.
    """
    found = read_part(path, 0, 1, block_bytes)
    if not found.blocks:
        raise no_edges(path)
    return found


def read_part(path: Path | str, part: int, parts: int, block_bytes: int = BLOCK_BYTES) -> EdgeList:
    """As :func:`read`, one of `parts` parts of about equal size, which may be empty.

    A plain file is read in ranges of bytes, a compressed one by every part whole, each keeping its own blocks. What the
    names of nodes are only part 0 knows. `block_bytes`: how much text a thread takes apart at a time, in bytes.
    """
    try:
        with _open(path) as (stream, compressed):
            if parts == 1 or compressed:
                blocks = storage.whole_lines(iter(lambda: stream.read(block_bytes), b""))
                blocks = itertools.islice(blocks, part, None, parts)
                return _parse_all(path, blocks, named=part == 0, lines_known=parts == 1)
        return _parse_all(path, storage.share(path, part, parts), named=part == 0, lines_known=part == 0)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise BadInput(f"{path}: damaged or truncated gzip file ({error})") from error
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}") from error


def no_edges(path: Path | str) -> BadInput:
    """The error that says that a graph has no edges, to be raised."""
    return BadInput(f"{path}: the graph is empty, no line holds an edge")


class _open:
    """The text of a file, and whether it is compressed."""

    def __init__(self, path: Path | str) -> None:
        self._stream = storage.open(path)

    def __enter__(self) -> tuple[BinaryIO, bool]:
        magic = self._stream.read(len(_GZIP_MAGIC))
        self._stream.seek(0)
        compressed = magic == _GZIP_MAGIC
        return cast(BinaryIO, gzip.open(self._stream)) if compressed else self._stream, compressed

    def __exit__(self, *_: object) -> None:
        self._stream.close()


class _Malformed(Exception):
    """A line that holds no edge."""


def _parse_all(path: Path | str, blocks: Iterable[bytes], *, named: bool, lines_known: bool) -> EdgeList:
    names: dict[int, bytes] = {}
    if named:
        blocks = _names_taken(path, blocks, names)
    found: list[Ids] = []
    line = 1
    with threads.pool() as pool:
        try:
            for ids, lines in threads.in_order(pool, _parse, blocks, ahead=2 * threads.count()):
                if isinstance(ids, bytes):
                    if not lines_known:
                        raise _Malformed
                    raise _malformed(path, line + lines, ids)
                line += lines
                if len(ids):
                    found.append(ids)
        except _Malformed:
            pool.shutdown(cancel_futures=True)
            read(path)
            raise BadInput(f"{path}: has changed while it was read") from None
    return EdgeList(found, names)


def _parse(block: bytes) -> tuple[Ids | bytes, int]:
    """The ids of a block and how many lines it has; or its first malformed line and how many come before."""
    text = np.frombuffer(block, np.uint8)
    for dtype in (np.uint32, np.uint64):
        ids = np.empty(2 * (len(text) // _SHORTEST_LINE + 1), dtype)
        status, count, lines, begin = kernels.parse(text, ids, np.iinfo(dtype).max)
        if status == kernels.OK:
            return ids[:count].copy(), lines
        if status == kernels.MALFORMED:
            break
    end = block.find(b"\n", begin)
    return block[begin : end if end >= 0 else len(block)], lines


def _names_taken(path: Path | str, blocks: Iterable[bytes], names: dict[int, bytes]) -> Iterator[bytes]:
    """The same blocks, once what they say of names before the first edge is in `names`."""
    rest = iter(blocks)
    line = 1
    for number, whole in enumerate(rest):
        block = whole.removeprefix(_BYTE_ORDER_MARK) if number == 0 else whole
        first = _FIRST_EDGE.search(block)
        _collect_names(path, block[: first.start()] if first else block, line, names)
        line += block.count(b"\n")
        yield block
        if first:
            break
    yield from rest


def _collect_names(path: Path | str, comments: bytes, first_line: int, names: dict[int, bytes]) -> None:
    for match in _NAME.finditer(comments):
        node = int(match[1])
        if node in names or node > LARGEST_ID:
            line = first_line + comments.count(b"\n", 0, match.start())
            fault = f"node {node} is named twice" if node in names else "a node id of more than 64 bits"
            raise BadInput(f"{path}: line {line}: {fault}: {_shown(match[0])}")
        names[node] = match[2]


def _malformed(path: Path | str, line: int, content: bytes) -> BadInput:
    text = content.removesuffix(b"\r").strip(b" \t")
    return BadInput(f"{path}: line {line}: {_fault(text)}: {_shown(text)}")


def _fault(text: bytes) -> str:
    columns = re.split(rb"[ \t]+", text)
    if len(columns) != 2:
        return f"an edge is exactly two node ids, here {'is' if len(columns) == 1 else 'are'} {len(columns)}"
    for column in columns:
        if re.fullmatch(rb"-\d+", column):
            return "a negative node id"
        if not re.fullmatch(rb"\d+", column):
            return "a node id that is not an integer"
    return "a node id of more than 64 bits"


def _shown(text: bytes) -> str:
    shown = text.decode("utf-8", "backslashreplace")
    return repr(shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "...")
