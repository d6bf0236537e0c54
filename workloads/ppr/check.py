"""``python -m workloads.ppr.check FILE``: read an edge list as the nodes will, and say what it is or what is wrong.

One line on standard output, and status 2 where a node would refuse the file. Without torch and machine code: this runs
where the controller runs, before the file goes to the nodes. It takes all that `edgelist` takes, by the same rules
(dialect.py, fields.py, parquet.py), but it makes no graph of it.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from workloads.common import storage, threads
from workloads.common.events import BAD_INPUT_STATUS, BadInput
from workloads.common.storage import packed
from workloads.ppr import dialect, fields, parquet, said, sniffing, words
from workloads.ppr.dialect import EDGE, PLAIN, SIZE, Dialect, How
from workloads.ppr.words import Words

BLOCK_BYTES = 1 << 20
MERGED = 32
"""The number of blocks whose words are made one list at a time."""


def check(path: Path | str, block_bytes: int = BLOCK_BYTES, how: How = PLAIN) -> str:
    """Return what the file holds, in a line. Raises :class:`BadInput` as `edgelist.read` does, with the same words."""
    with packed.opened(path) as (stream, kind):
        if kind == packed.PARQUET:
            found, taken = parquet.edges(path, stream, 0, 1, weights=how.weights)
            return _said(path, found, how, (Looked(len(ids) // 2, known) for ids, known, _ in taken))
    found, blocks = _blocks(path, block_bytes, how)
    dialect.names(path, found)
    try:
        return _said(path, found, how, _looked(path, found, blocks))
    except _LongIds:
        return _said(path, found, how, _looked(path, found, _blocks(path, block_bytes, how)[1], as_words=True))


def _blocks(path: Path | str, block_bytes: int, how: How) -> tuple[Dialect, Iterator[tuple[bytes, bool]]]:
    """The dialect of a file, and its blocks."""
    source = _text(path, block_bytes)
    found, begun = sniffing.sniff(path, lambda: next(source, b""), weights=how.weights, first_line=how.first_line)
    whole = storage.whole_lines(itertools.chain(begun, source))
    return found, dialect.in_sections(dialect.passed_over(whole, 0, found.passed), found)


def _text(path: Path | str, block_bytes: int) -> Iterator[bytes]:
    with packed.opened(path) as (stream, _):
        yield from iter(lambda: stream.read(block_bytes), b"")


class _LongIds(Exception):
    """An id has more than 64 bits, so that all of them are to be read as words."""


@dataclass(frozen=True)
class Looked:
    """A block: how many edges it has, of which `both` lead both ways; its words; its `comments`."""

    edges: int
    words: Words | None = None
    both: int = 0
    comments: int = 0
    lines: int = 0
    fault: tuple[int, bytes] | None = None


def _looked(
    path: Path | str, found: Dialect, blocks: Iterable[tuple[bytes, bool]], *, as_words: bool = False
) -> Iterator[Looked]:
    """Yield what each block holds."""
    line = 1
    with threads.pool() as pool:
        look = functools.partial(_look, found, as_words)
        for looked in threads.in_order(pool, look, blocks, ahead=2 * threads.count()):
            if looked.fault:
                raise BadInput(f"{path}: line {line + looked.fault[0]}: {fields.described(looked.fault[1], found)}")
            line += looked.lines
            yield looked


def _look(found: Dialect, as_words: bool, given: tuple[bytes, bool]) -> Looked:
    block, both = given
    if found.plain and not found.size and not as_words and (edges := fields.plain_edges(block)) is not None:
        return Looked(edges, both=edges if both else 0, lines=block.count(b"\n"))
    split, numbers, fault = fields.looked_at(fields.split(block, found), found)
    if fault:
        return Looked(0, fault=fault)
    if numbers is None and not found.words and not as_words:
        raise _LongIds
    known = words.encoded(split.values, split.offsets)[1] if found.words or as_words else None
    undirected = 0 if split.undirected is None else int(np.count_nonzero(split.undirected))
    edges = len(split.lines)
    return Looked(edges, known, edges if both else undirected, split.comments, split.line_count)


def _said(path: Path | str, found: Dialect, how: How, looked: Iterable[Looked]) -> str:
    edges = both = comments = 0
    known, named = [words.NONE], found.words
    for one in looked:
        edges, both, comments = edges + one.edges, both + one.both, comments + one.comments
        if one.words is not None:
            named = True
            known.append(one.words)
        if len(known) == MERGED:
            known = [words.merged(known)[0]]
    if not edges:
        raise said.no_edges(path, found.header)
    said.checked(path, found, edges)
    if found.asked and not named:
        _ask(path, found, how, edges)
    names = len(words.merged(known)[0]) if named else None
    return said.read_as(edges, names, found.header, said.notes(found, edges, comments, both, weighted=how.weights))


def _ask(path: Path | str, found: Dialect, how: How, edges: int) -> None:
    """Raise BadInput where the first line may be no edge."""
    asked = found.asked
    assert asked is not None
    after = edges if found.asked_passed else edges - 1
    if after == asked.edges and _largest_after(path, found, how) <= asked.nodes:
        raise said.asks(path, asked, after)
    if found.asked_passed:
        raise said.odd_first(path, found)


def _largest_after(path: Path | str, found: Dialect, how: How) -> int:
    """The largest id of a file that is in order, but for those of its first edge if that is the line asked about."""
    skipped, largest = 0 if found.asked_passed else 2, 0
    for block, _ in _blocks(path, BLOCK_BYTES, how)[1]:
        _, numbers, _ = fields.looked_at(fields.split(block, found), found)
        if numbers is not None and len(numbers) > skipped:
            largest = max(largest, int(numbers[skipped:].max()))
            skipped = 0
    return largest


def main() -> None:
    """Run with the path that is given."""
    parser = argparse.ArgumentParser(prog="python -m workloads.ppr.check", description="What is in a graph file.")
    parser.add_argument("graph")
    parser.add_argument("--weights", action="store_true", help="they are to be read")
    parser.add_argument("--first-line", choices=(SIZE, EDGE), help="what it is")
    given = parser.parse_args()
    try:
        print(check(given.graph, how=How(given.weights, given.first_line)))
    except BadInput as error:
        print(error)
        sys.exit(BAD_INPUT_STATUS)


if __name__ == "__main__":
    main()
