"""``python -m workloads.ppr.check FILE``: read an edge list as the nodes will, and say what it is or what is wrong.

One line on standard output, and status 2 where a node would refuse the file. Without torch and machine code: this runs
where the controller runs, before the file goes to the nodes. It takes all that `edgelist` takes, by the same rules
(dialect.py, fields.py, parquet.py), but it makes no graph of it.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from workloads.common import storage, threads
from workloads.common.events import BAD_INPUT_STATUS, BadInput
from workloads.common.storage import packed
from workloads.ppr import dialect, fields, parquet, words
from workloads.ppr.dialect import Dialect
from workloads.ppr.words import Words

BLOCK_BYTES = 1 << 20
MERGED = 32
"""So many blocks' words are made one list at a time."""


def check(path: Path | str, block_bytes: int = BLOCK_BYTES) -> str:
    """Return what the file holds, in a line. Raises :class:`BadInput` as `edgelist.read` does, with the same words."""
    with packed.opened(path) as (stream, kind):
        if kind == packed.PARQUET:
            found, taken = parquet.edges(path, stream, 0, 1)
            return _said(path, found, ((len(ids) // 2, known) for ids, known in taken))
        found, begun = dialect.sniff(path, lambda: stream.read(block_bytes))
        dialect.names(path, found)
        rest = iter(lambda: stream.read(block_bytes), b"")
        blocks = dialect.passed_over(storage.whole_lines(itertools.chain(begun, rest)), 0, found.passed)
        return _said(path, found, _counted(path, found, blocks))


def _counted(path: Path | str, found: Dialect, blocks: Iterable[bytes]) -> Iterator[tuple[int, Words | None]]:
    """Yield how many edges each block has, and the words in it."""

    def look(block: bytes) -> tuple[int, Words | None, int, bytes | None]:
        if found.plain and (edges := fields.plain_edges(block)) is not None:
            return edges, None, block.count(b"\n"), None
        split = fields.split(block, found)
        if fault := fields.fault_of(split, words=found.words):
            return 0, None, *fault
        known = words.encoded(split.values, split.offsets)[1] if found.words else None
        return len(split.lines), known, split.line_count, None

    line = 1
    with threads.pool() as pool:
        for edges, known, lines, wrong in threads.in_order(pool, look, blocks, ahead=2 * threads.count()):
            if wrong is not None:
                raise BadInput(f"{path}: line {line + lines}: {fields.described(wrong, found)}")
            line += lines
            yield edges, known


def _said(path: Path | str, found: Dialect, counted: Iterable[tuple[int, Words | None]]) -> str:
    edges, known = 0, [words.NONE]
    for count, some in counted:
        edges += count
        if some is not None:
            known.append(some)
        if len(known) == MERGED:
            known = [words.merged(known)[0]]
    if not edges:
        raise dialect.no_edges(path, found.header)
    return dialect.read_as(edges, len(words.merged(known)[0]) if found.words else None, found.header)


def main() -> None:
    """Run with the path that is given."""
    try:
        print(check(sys.argv[1]))
    except BadInput as error:
        print(error)
        sys.exit(BAD_INPUT_STATUS)


if __name__ == "__main__":
    main()
