"""Reads graphs in SNAP's edge list format.

A line holds the ids of an edge's two nodes, source first, apart by spaces or tabs: decimal integers, 0 to 2**64 - 1.
Lines that are blank or start with ``#`` are comments, line ends may be CRLF, and a file compressed by gzip is known by
its content. Anything else is refused with its line number: a third column too, since a weight or a time that is passed
over in silence would change what the answer means.

In the comments before the first edge, a line ``# node <id> <name>`` names a node, and makes it one if no edge has it.

The bytes of a block are taken apart by numpy as a whole; lines are looked at one by one only where a block has
something that this cannot read, which finds the offending line.
"""

from __future__ import annotations

import gzip
import itertools
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from workloads.common import storage
from workloads.common.events import BadInput

BLOCK_BYTES = 256 << 10
LARGEST_ID = 2**64 - 1

_GZIP_MAGIC = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_COMMENT = re.compile(rb"(?m)^[ \t]*#[^\n]*")
_FIRST_EDGE = re.compile(rb"(?m)^[ \t]*[^#\s]")
_NAME = re.compile(rb"(?m)^[ \t]*#[ \t]*node[ \t]+(\d+)[ \t]+([^\n]*\S)")
_EDGE = re.compile(rb"[ \t]*(\d+)[ \t]+(\d+)[ \t]*")
_LONGEST_ID = 20
_SHOWN = 60


@dataclass(frozen=True)
class EdgeList:
    """`edges`: uint64 of shape (m, 2), in the file's order; `names`: of nodes that the file names, by id."""

    edges: NDArray[np.uint64]
    names: dict[int, bytes]


def read(path: Path | str, block_bytes: int = BLOCK_BYTES) -> EdgeList:
    """Read an edge list whole, from a file or ``hdfs://``.

    Raises :class:`BadInput` with file, line number and content of the first line that is malformed, and where the file
    is missing, unreadable, damaged or without edges.
    """
    try:
        with _open(path) as stream:
            edges, names = _read_blocks(path, stream, block_bytes)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise BadInput(f"{path}: damaged or truncated gzip file ({error})") from error
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}") from error
    if not edges:
        raise BadInput(f"{path}: the graph is empty, no line holds an edge")
    return EdgeList(np.concatenate(edges), names)


def _open(path: Path | str) -> BinaryIO:
    stream = storage.open(path)
    magic = stream.read(len(_GZIP_MAGIC))
    stream.seek(0)
    return stream if magic != _GZIP_MAGIC else cast(BinaryIO, gzip.open(stream))


def _read_blocks(
    path: Path | str, stream: BinaryIO, block_bytes: int
) -> tuple[list[NDArray[np.uint64]], dict[int, bytes]]:
    edges: list[NDArray[np.uint64]] = []
    names: dict[int, bytes] = {}
    before_edges = True
    line = 1
    for block in _whole_lines(stream, block_bytes):
        if before_edges:
            first = _FIRST_EDGE.search(block)
            _collect_names(path, block[: first.start()] if first else block, line, names)
            before_edges = first is None
        found = _parse(block)
        if found is None:
            found = _parse_lines(path, block, line)
        if len(found):
            edges.append(found)
        line += block.count(b"\n")
    return edges, names


def _whole_lines(stream: BinaryIO, block_bytes: int) -> Iterator[bytes]:
    """Blocks of about `block_bytes` that end at the end of a line, with CRLF as LF."""
    rest = bytearray()
    for number in itertools.count():
        read = stream.read(block_bytes)
        if number == 0 and read.startswith(_BYTE_ORDER_MARK):
            read = read[len(_BYTE_ORDER_MARK) :]
        end = read.rfind(b"\n") + 1
        if read and not end:
            rest += read
            continue
        block, rest = bytes(rest + read[:end]), bytearray(read[end:])
        if not read and block:
            block += b"\n"
        if block:
            yield block.replace(b"\r\n", b"\n") if b"\r" in block else block
        if not read:
            return


def _collect_names(path: Path | str, comments: bytes, first_line: int, names: dict[int, bytes]) -> None:
    for match in _NAME.finditer(comments):
        node = int(match[1])
        if node in names or node > LARGEST_ID:
            line = first_line + comments.count(b"\n", 0, match.start())
            fault = f"node {node} is named twice" if node in names else "a node id of more than 64 bits"
            raise BadInput(f"{path}: line {line}: {fault}: {_shown(match[0])}")
        names[node] = match[2]


def _parse(block: bytes) -> NDArray[np.uint64] | None:
    """Edges of a block of whole lines, shape (m, 2); None where some line is not two ids of at most 20 digits."""
    if b"#" in block:
        block = _COMMENT.sub(b"", block)
    text = np.frombuffer(block, np.uint8)
    digits = text - np.uint8(ord("0"))
    is_digit = digits < 10
    is_end = text == ord("\n")
    if np.count_nonzero(is_digit | is_end | (text == ord(" ")) | (text == ord("\t"))) < len(text):
        return None
    changes = np.flatnonzero(is_digit[1:] != is_digit[:-1]) + 1
    bounds = np.concatenate(([0], changes)) if is_digit[0] else changes
    starts, ends = bounds[0::2], bounds[1::2]
    if len(starts) % 2 or not _two_a_line(text, is_end, starts, ends):
        return None
    values = _integers(digits, starts, ends)
    return None if values is None else values.reshape(-1, 2)


def _two_a_line(
    text: NDArray[np.uint8], is_end: NDArray[np.bool_], starts: NDArray[np.intp], ends: NDArray[np.intp]
) -> bool:
    """Whether of an even count of numbers each line holds two or none."""
    if len(starts) and int((starts[1:] - ends[:-1]).max()) == 1:
        ends_line = text[ends] == ord("\n")
        return not ends_line[0::2].any() and bool(ends_line[1::2].all())
    line_of = np.cumsum(is_end, dtype=np.int32)[starts]
    return bool((line_of[0::2] == line_of[1::2]).all() and (line_of[1:-1:2] != line_of[2::2]).all())


def _integers(digits: NDArray[np.uint8], starts: NDArray[np.intp], ends: NDArray[np.intp]) -> NDArray[np.uint64] | None:
    """Values of the numbers in `digits` that lie at [start, end); None where one has over 20 digits or 64 bits.

    Eight digits are read as one word and summed pairwise within it (D. Lemire, "Quickly parsing eight digits", 2018).
    """
    lengths = ends - starts
    longest = int(lengths.max(initial=0))
    if longest > _LONGEST_ID:
        return None
    padded = np.concatenate((np.zeros(_LONGEST_ID + 4, np.uint8), digits))
    words = np.lib.stride_tricks.as_strided(padded[:8].view("<u8"), (len(padded) - 7,), (1,), writeable=False)
    parts = [_eight_digits(words[ends + (_LONGEST_ID - 4)], lengths)]
    for skipped in range(8, longest, 8):
        parts.append(_eight_digits(words[ends + (_LONGEST_ID - 4 - skipped)], lengths - skipped))
    if longest <= 8:
        return parts[0]
    low = parts[0] + parts[1] * np.uint64(10**8)
    if longest <= 16:
        return low
    high, lowest = np.uint64(LARGEST_ID // 10**16), np.uint64(LARGEST_ID % 10**16)
    if ((parts[2] > high) | ((parts[2] == high) & (low > lowest))).any():
        return None
    return low + parts[2] * np.uint64(10**16)


def _eight_digits(words: NDArray[np.uint64], lengths: NDArray[np.intp]) -> NDArray[np.uint64]:
    """Values of numbers whose last min(8, length) digits are the last bytes of little-endian words; 0 for no digits."""
    other_bits = ((8 - np.clip(lengths, 1, 8)) * 8).astype(np.uint64)
    words = (words >> other_bits) << other_bits
    for bits, mask in ((8, 0x00FF00FF00FF00FF), (16, 0x0000FFFF0000FFFF), (32, 0x00000000FFFFFFFF)):
        words = (words * np.uint64(10 ** (bits // 8)) + (words >> np.uint64(bits))) & np.uint64(mask)
    return np.where(lengths > 0, words, np.uint64(0)) if (lengths <= 0).any() else words


def _parse_lines(path: Path | str, block: bytes, first_line: int) -> NDArray[np.uint64]:
    """As :func:`_parse`, line by line, raising on the first that is malformed."""
    edges = []
    for number, line in enumerate(block.split(b"\n")[:-1], first_line):
        text = line.strip(b" \t")
        if not text or text.startswith(b"#"):
            continue
        match = _EDGE.fullmatch(line)
        ids = (int(match[1]), int(match[2])) if match else ()
        if not ids or max(ids) > LARGEST_ID:
            raise BadInput(f"{path}: line {number}: {_fault(text)}: {_shown(text)}")
        edges.append(ids)
    return np.array(edges, np.uint64).reshape(-1, 2)


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
