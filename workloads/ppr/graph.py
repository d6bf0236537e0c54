"""A graph with compact ids, ready to be iterated, as arrays that ranks of a host map from the same files."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.common.events import BadInput
from workloads.ppr import edgelist

_TABLE_SLACK = 4


@dataclass(frozen=True)
class Graph:
    """A graph of n nodes, numbered by ascending id, and the transition matrix of a walk on it.

    `ids`: uint64 (n,), ascending, of the file. `indptr` (n + 2,), `indices` (nnz,), `weights` float64 (nnz,): CSR of
    the (n + 1, n) matrix whose row v < n holds the probability of each step u -> v, so that the matrix times a
    distribution is the distribution one step later; row n marks the dangling nodes, which have no step to take, so that
    it yields their mass.
    `edge_count`: the file's edges. `steps`: int64 (2, m), these edges by node number, or (2, 0) where not kept.
    `name_text`: the names as UTF-8, node by node, each between newlines; `name_ends` int64 (n,): where each ends.
    """

    ids: NDArray[np.uint64]
    indptr: NDArray[Any]
    indices: NDArray[Any]
    weights: NDArray[np.float64]
    edge_count: NDArray[np.int64]
    steps: NDArray[np.int64]
    name_text: NDArray[np.uint8]
    name_ends: NDArray[np.int64]

    @property
    def nodes(self) -> int:
        return len(self.ids)

    @property
    def edges(self) -> int:
        return int(self.edge_count)

    def save(self, folder: Path) -> None:
        """Write each array as a file ``<name>.npy``."""
        for field in fields(self):
            np.save(folder / f"{field.name}.npy", getattr(self, field.name))

    @classmethod
    def open(cls, folder: Path) -> Graph:
        """Map what :meth:`save` wrote, read-only: the pages are shared by all processes that do."""
        return cls(**{field.name: _map(folder / f"{field.name}.npy") for field in fields(cls)})

    def name(self, node: int) -> str | None:
        """Name of a node number, or None where the file names no nodes or not this one."""
        if not len(self.name_ends):
            return None
        start = int(self.name_ends[node - 1]) + 1 if node else 1
        return bytes(self.name_text[start : int(self.name_ends[node])]).decode("utf-8", "replace") or None

    def find(self, wanted: str) -> int:
        """Node number of an id or, where no node has that id, of a name. Raises :class:`BadInput` if there is none."""
        if wanted.isascii() and wanted.isdigit() and int(wanted) <= edgelist.LARGEST_ID:
            value = np.uint64(int(wanted))
            node = int(np.searchsorted(self.ids, value))
            if node < self.nodes and self.ids[node] == value:
                return node
        text = self.name_text.tobytes()
        pattern = b"\n" + wanted.encode() + b"\n"
        start = text.find(pattern) if wanted else -1
        if start < 0:
            raise BadInput(f"source {wanted!r} is not in the graph")
        if text.find(pattern, start + 1) >= 0:
            raise BadInput(f"source {wanted!r} is the name of more than one node: give its id")
        return int(np.searchsorted(self.name_ends, start + 1))


def build(path: Path | str, undirected: bool, keep_steps: bool = False) -> Graph:
    """Read an edge list into a graph. An edge that it holds k times has k times the probability, as in torch-ppr.

    `undirected`: the walk takes each edge both ways (A + A^T as torch-ppr: a self-loop, and an edge that the file holds
    in both directions, count twice).
    """
    read = edgelist.read(path)
    ids, steps = _compact(read.edges, np.fromiter(read.names, np.uint64, len(read.names)))
    indptr, indices, weights = _transitions(steps, len(ids), undirected)
    name_text, name_ends = _name_table(ids, read.names)
    edge_count = np.array(steps.shape[1])
    return Graph(ids, indptr, indices, weights, edge_count, steps if keep_steps else steps[:, :0], name_text, name_ends)


def _compact(edges: NDArray[np.uint64], named: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Ascending ids of all nodes, and the edges (2, m) by their place in them."""
    every = np.concatenate((edges.ravel(), named))
    largest = int(every.max())
    if largest < _TABLE_SLACK * len(every):
        present = np.zeros(largest + 1, bool)
        present[every] = True
        ids = np.flatnonzero(present).astype(np.uint64)
        numbers = (np.cumsum(present) - 1)[edges]
    else:
        ids, places = np.unique(every, return_inverse=True)
        numbers = places[: edges.size].reshape(edges.shape)
    return ids, np.ascontiguousarray(numbers.T, np.int64)


def _transitions(
    steps: NDArray[np.int64], nodes: int, undirected: bool
) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.float64]]:
    from scipy.sparse import coo_matrix

    source, target = np.concatenate((steps, steps[::-1]), axis=1) if undirected else steps
    degrees = np.bincount(source, minlength=nodes)
    dangling = np.flatnonzero(degrees == 0)
    counts = np.ones(len(source))
    moves = coo_matrix((counts, (target, source)), shape=(nodes, nodes)).tocsr()
    weights = moves.data / degrees[moves.indices]
    indptr = np.append(moves.indptr, moves.indptr[-1] + len(dangling)).astype(moves.indptr.dtype)
    indices = np.concatenate((moves.indices, dangling)).astype(moves.indices.dtype)
    return indptr, indices, np.concatenate((weights, np.ones(len(dangling))))


def _name_table(ids: NDArray[np.uint64], names: dict[int, bytes]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    if not names:
        return np.zeros(0, np.uint8), np.zeros(0, np.int64)
    ordered = [names.get(node, b"") for node in ids.tolist()]
    lengths = np.fromiter(map(len, ordered), np.int64, len(ordered))
    text = b"\n" + b"\n".join(ordered) + b"\n"
    return np.frombuffer(text, np.uint8), np.cumsum(lengths + 1)


def _map(file: Path) -> NDArray[Any]:
    array: NDArray[Any] = np.load(file, mmap_mode="r")
    return array
