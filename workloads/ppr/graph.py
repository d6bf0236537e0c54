"""A graph with compact ids, ready to be iterated, as arrays that ranks of a host map from the same files."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from workloads.common import compiled, storage, threads
from workloads.common.events import BadInput
from workloads.ppr import edgelist, rows
from workloads.ppr import ids as places_of_ids
from workloads.ppr.dialect import PLAIN, How
from workloads.ppr.edgelist import EdgeList
from workloads.ppr.ids import Bits, Places, Sorted

kernels = compiled.load("workloads.ppr.kernels")

_MOST_ALIKE = 20_000


@dataclass(frozen=True)
class Graph:
    """A graph of n nodes for a walk on it. A node has a place, by ascending id, and a number, by descending out-degree.

    The values of nodes with a high out-degree are read most often; so numbered, they are close and stay in the caches.

    `ids`: (n,), ascending, by place. `numbers`: uint32 (n,), place -> number. `degrees`: uint32 (n,), out-degree by
    number; dangling nodes come last. `indptr` int64, `columns` uint32: CSR by number, whose row v holds the u of each
    step u -> v, sorted, as often as there are edges. A step's probability is 1 / degrees[u].
    `forward_indptr`, `forward_columns`: the transposed rows, u -> v, where they are kept and not the same.
    `cuts`: the chunks of rows, of the whole graph; `first_row`: where only some rows are held, the number of the first.
    `edge_count`: edges of the file; `undirected`: whether the rows take each both ways.
    `name_text`: the names as UTF-8, place by place, each between newlines; `name_ends` int64 (n,): where each ends.
    `by_words`: ids are places of the words that the file has for nodes; `header`: that of the file, as UTF-8; `notes`:
    what else to say of how it was read, as lines.
    `weights` float64, one for each of `columns`, and `strengths` (n,), by number, the sum of those that leave a node:
    where the file's weights count, a step's probability is weight / strength.
    """

    ids: NDArray[Any]
    numbers: NDArray[np.uint32]
    degrees: NDArray[np.uint32]
    indptr: NDArray[np.int64]
    columns: NDArray[np.uint32]
    forward_indptr: NDArray[np.int64]
    forward_columns: NDArray[np.uint32]
    cuts: NDArray[np.int64]
    first_row: NDArray[np.int64]
    edge_count: NDArray[np.int64]
    undirected: NDArray[np.bool_]
    name_text: NDArray[np.uint8]
    name_ends: NDArray[np.int64]
    by_words: NDArray[np.bool_] = field(default_factory=lambda: np.array(False))
    header: NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, np.uint8))
    notes: NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, np.uint8))
    weights: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    strengths: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))

    @property
    def nodes(self) -> int:
        """n: how many nodes the whole graph has."""
        return len(self.ids)

    @property
    def edges(self) -> int:
        """Return how many edges the file has; `undirected` does not double them."""
        return int(self.edge_count)

    def save(self, folder: Path) -> None:
        """Write each array as a file ``<name>.npy``."""
        for one in fields(self):
            np.save(folder / f"{one.name}.npy", getattr(self, one.name))

    @classmethod
    def open(cls, folder: Path) -> Graph:
        """Map what :meth:`save` wrote, read-only: the pages are shared by all processes that do.

        Folders of before there were words, notes or weights are read too.
        """
        files = {one.name: folder / f"{one.name}.npy" for one in fields(cls)}
        later = ("by_words", "header", "notes", "weights", "strengths")
        old = [name for name in later if not files[name].exists()]
        return cls(**{name: _map(file) for name, file in files.items() if name not in old})

    def rows(self, first: int, last: int) -> Graph:
        """The same graph with the rows of only chunks [first, last); its `columns` are still mapped from the files."""
        low, high = int(self.cuts[first]), int(self.cuts[last])
        indptr = self.indptr[low : high + 1]
        columns = self.columns[indptr[0] : indptr[-1]]
        return replace(self, indptr=indptr - indptr[0], columns=columns, first_row=np.array(low))

    def name(self, place: int) -> str | None:
        """Name of the node at a place, or None where the file names no nodes or not this one."""
        if not len(self.name_ends):
            return None
        start = int(self.name_ends[place - 1]) + 1 if place else 1
        return bytes(self.name_text[start : int(self.name_ends[place])]).decode("utf-8", "replace") or None

    def find(self, wanted: str) -> int:
        """Place of an id or, where no node has that id, of a name. Raises :class:`BadInput` if there is none.

        Where nodes are words, only those are looked for.
        """
        if not self.by_words and wanted.isascii() and wanted.isdigit() and int(wanted) <= int(self.ids[-1]):
            value = self.ids.dtype.type(int(wanted))
            place = int(np.searchsorted(self.ids, value))
            if self.ids[place] == value:
                return place
        text = self.name_text.tobytes()
        pattern = b"\n" + wanted.encode() + b"\n"
        start = text.find(pattern) if wanted else -1
        if start < 0:
            raise BadInput(
                f"source {wanted!r} is not in the graph: {self._near(wanted) or 'give the id or name of a node'}"
            )
        if text.find(pattern, start + 1) >= 0:
            raise BadInput(f"source {wanted!r} is the name of more than one node: give its id")
        return int(np.searchsorted(self.name_ends, start + 1))

    def _near(self, wanted: str) -> str:
        """Return which names are meant perhaps, as the end of a sentence; nothing where none is like it."""
        import difflib

        low = wanted.lower()
        known = bytes(self.name_text).decode("utf-8", "replace").split("\n")[1:-1] if len(self.name_ends) else []
        alike = [name for name in known if name.lower().startswith(low) or low.startswith(name.lower() or "\n")]
        alike += [name for name in known if name and abs(len(name) - len(low)) < 3 and name[0].lower() == low[:1]]
        found = dict.fromkeys(difflib.get_close_matches(wanted, alike[:_MOST_ALIKE], 3, 0.6) + alike[:1])
        shown = (f'"{name}"' if "," in name else name for name in list(found)[:3])
        return f"did you mean {' or '.join(shown)}?" if found else ""


def is_prepared(path: Path | str) -> bool:
    """Whether this is a folder that :meth:`Graph.save` has filled."""
    return not storage.is_remote(str(path)) and (Path(path) / "ids.npy").is_file()


def open_prepared(path: Path | str, undirected: bool, *, weights: bool = False) -> Graph:
    """Map such a folder. Raises :class:`BadInput` where it holds the other kind of graph, or not all of one."""
    try:
        graph = Graph.open(Path(path))
    except (OSError, EOFError, ValueError) as error:
        raise BadInput(f"{path}: not a whole prepared graph ({error}): make it again") from error
    if bool(graph.undirected) != undirected:
        kind = "with --undirected" if graph.undirected else "without --undirected"
        raise BadInput(f"{path}: this graph was prepared {kind}: run it {kind}")
    if weights and not len(graph.weights):
        raise BadInput(f"{path}: this graph has no weights: leave --weights out")
    return graph


def build(path: Path | str, undirected: bool, forward: bool = False, how: How = PLAIN) -> Graph:
    """Read an edge list into a graph. An edge that it holds k times has k times the probability, as in torch-ppr.

    `undirected`: the walk takes each edge both ways (A + A^T as torch-ppr: a self-loop, and an edge that the file holds
    in both directions, count twice). `forward`: keep the transposed rows too. `how`: see
    :func:`edgelist.read`. Raises :class:`BadInput` as
    :func:`edgelist.read` does.
    """
    read = edgelist.read(path, how=replace(how, undirected=undirected))
    with threads.pool() as pool:
        places, pairs = _placed(read, pool)
        nodes = len(places.ids)
        numbers, degrees = number(rows.degrees(pairs, nodes, (0, 1) if undirected else (0,), pool))
        for _ in pool.map(lambda block: kernels.renumber(block, numbers), pairs):
            pass
        kept = no_rows()
        weights, strengths = np.zeros(0), np.zeros(0)
        if read.weights is not None:
            ways = rows.weighted(pairs, read.weights, nodes, undirected=undirected)
            indptr, columns, weights, strengths = ways
        else:
            out_indptr, out_columns = rows.by_source(pairs, nodes, undirected, pool)
            pairs.clear()
            indptr, columns = rows.transposed(out_indptr, out_columns, nodes, pool)
            kept = (out_indptr, out_columns) if forward and not undirected else kept
        said = said_of(places.ids, read, undirected)
        return Graph(
            places.ids,
            numbers,
            degrees,
            indptr,
            columns,
            *kept,
            rows.chunk_cuts(indptr),
            np.array(0),
            np.array(read.listed),
            np.array(undirected),
            said.name_text,
            said.name_ends,
            said.by_words,
            said.header,
            said.notes,
            weights,
            strengths,
        )


class Said(NamedTuple):
    """The fields of a graph with these names that say how its file was read."""

    name_text: NDArray[np.uint8]
    name_ends: NDArray[np.int64]
    by_words: NDArray[np.bool_]
    header: NDArray[np.uint8]
    notes: NDArray[np.uint8]


def said_of(ids: NDArray[Any], read: EdgeList, undirected: bool) -> Said:
    """Return what to say of a graph with these `ids` (n,)."""
    table = name_table(ids, read.names) if read.words is None else read.words.table()
    notes = "\n".join(read.notes(undirected))
    return Said(*table, np.array(read.words is not None), _text(read.header), _text(notes))


def _text(text: str) -> NDArray[np.uint8]:
    return np.frombuffer(text.encode(), np.uint8)


def number(out_degrees: NDArray[np.int64]) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Number n nodes by descending out-degree, and by place where equal, from their out-degrees by place, (n,).

    Gives the numbers by place, uint32 (n,), and the out-degrees by number, uint32 (n,).
    """
    frequency = np.bincount(out_degrees)
    positions = np.append(np.cumsum(frequency[::-1])[::-1][1:], 0)
    numbers = np.empty(len(out_degrees), np.uint32)
    kernels.number(out_degrees, positions, numbers)
    values = np.arange(len(frequency) - 1, -1, -1, dtype=np.uint32)
    return numbers, np.repeat(values, frequency[::-1])


def no_rows() -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
    """In the place of the transposed rows that are not kept: `indptr` and `columns` of length 0."""
    return np.zeros(0, np.int64), np.zeros(0, np.uint32)


def _placed(read: EdgeList, pool: ThreadPoolExecutor) -> tuple[Places, list[NDArray[np.uint32]]]:
    """The places of ids, and the edges by place; `read`'s blocks are used up."""
    named = read.named
    blocks = read.blocks
    largest = read.largest
    places: Places
    if places_of_ids.affords_bits(largest, sum(map(len, blocks)) // 2):
        places = Bits.of(places_of_ids.mark(blocks, named, largest))
    else:
        places = Sorted(places_of_ids.unique(blocks, named, pool))
    pairs = list(pool.map(places.places, blocks))
    blocks.clear()
    return places, pairs


def name_table(ids: NDArray[Any], names: dict[int, bytes]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """`name_text` uint8 and `name_ends` int64 (n,) of a graph with these `ids` (n,); without names both are empty."""
    if not names:
        return np.zeros(0, np.uint8), np.zeros(0, np.int64)
    ordered = [names.get(node, b"") for node in ids.tolist()]
    lengths = np.fromiter(map(len, ordered), np.int64, len(ordered))
    text = b"\n" + b"\n".join(ordered) + b"\n"
    return np.frombuffer(text, np.uint8), np.cumsum(lengths + 1)


def _map(file: Path) -> NDArray[Any]:
    array: NDArray[Any] = np.load(file, mmap_mode="r")
    return array.view(np.ndarray)
