"""A graph in Spark: an RDD of blocks of rows, which executors read, number and keep; the driver has only its nodes.

Each partition reads its part of the edges. The one thing to agree on, the numbering of nodes, goes through the driver;
edges go to the block of their target's row by a shuffle. A block holds the rows of some of the graph's chunks
(rows.py), so that all sums are bit-identical to those of one process.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.common import threads
from workloads.common.events import BadInput
from workloads.common.spark import carried
from workloads.ppr import edgelist, ids, rows, words
from workloads.ppr import graph as graphs
from workloads.ppr.blocks import Block, Bounds, Layout, block_of
from workloads.ppr.dialect import PLAIN, How
from workloads.ppr.edgelist import EdgeList
from workloads.ppr.graph import Graph


@dataclass(frozen=True)
class Blocks:
    """`nodes`: the graph without its rows; `rdd`: pairs of a block's number and the block, in memory by then.

    `bounds`: the rows of each block.
    """

    nodes: Graph
    rdd: Any
    bounds: Bounds


@dataclass(frozen=True)
class _Part:
    """A part of the file as it was read, or what is wrong with it."""

    number: int
    read: EdgeList
    fault: str | None


@dataclass(frozen=True)
class _Said:
    """The driver's knowledge of a part; `edges`: how many are read of it, in both directions where they lead so."""

    fault: str | None
    told: edgelist.Told
    edges: int


def build(
    context: Any, path: str, undirected: bool, partitions: int, *, co_partitioned: bool, how: How = PLAIN
) -> Blocks:
    """Have executors read an edge list into so many blocks. Raises :class:`BadInput` as :func:`edgelist.read` does.

    `co_partitioned`: Spark knows where each block is, so that what is joined with them comes to them; else whatever
    is joined with them moves them, too.
    """
    if graphs.is_prepared(path):
        nodes, blocks = _mapped(context, path, undirected, partitions)
    else:
        nodes, blocks = _read(context, path, undirected, partitions, replace(how, undirected=undirected))
    blocks = kept(blocks)
    wanted = blocks.flatMap(_wanted).partitionBy(partitions)
    joined = blocks.union(wanted).partitionBy(partitions).mapPartitions(_joined, preservesPartitioning=True)
    rdd = kept(joined if co_partitioned else joined.map(_as_it_is))
    rdd.count()
    blocks.unpersist()
    layout = Layout(nodes.cuts, partitions)
    return Blocks(layout.applied(nodes), rdd, layout.bounds)


def kept(rdd: Any) -> Any:
    """The same, kept in the executors' memory, or on their disks where that is too small."""
    from pyspark import StorageLevel

    return rdd.persist(StorageLevel.MEMORY_AND_DISK)


def _mapped(context: Any, path: str, undirected: bool, partitions: int) -> tuple[Graph, Any]:
    """The blocks of a folder that every host has."""
    graph = graphs.open_prepared(path, undirected)
    make = functools.partial(_mapped_block, path, undirected, partitions)
    blocks = context.parallelize([(number, None) for number in range(partitions)], partitions)
    return graph, blocks.partitionBy(partitions).mapPartitions(make, preservesPartitioning=True)


def _mapped_block(path: str, undirected: bool, partitions: int, numbers: Iterator[tuple[int, None]]) -> Iterator[Any]:
    graph = graphs.open_prepared(path, undirected)
    layout = Layout(graph.cuts, partitions)
    degrees = graph.degrees[layout.order]
    for number, _ in numbers:
        yield number, block_of(number, layout, *layout.rows(number, graph.indptr, graph.columns), degrees)


def _read(context: Any, path: str, undirected: bool, partitions: int, how: How) -> tuple[Graph, Any]:
    """The blocks of a file, of which each partition reads a part."""
    parts = kept(
        context.parallelize(range(partitions), partitions).map(functools.partial(_part, path, partitions, how))
    )
    read, edges, largest, renumbered = _agreed(parts.map(_said).collect(), path)
    alike = parts.map(functools.partial(_numbered_words, carried.to_all(context, renumbered))) if renumbered else parts
    places = _places(alike, largest, edges)
    placed = kept(alike.map(functools.partial(_placed, carried.to_all(context, places))))
    nodes = len(places.ids)
    out, into = placed.map(functools.partial(_degrees, nodes)).reduce(_added)
    parts.unpersist()
    numbers, degrees = graphs.number(out + into if undirected else out)
    sizes = np.empty(nodes, np.int64)
    sizes[numbers] = out + into if undirected else into
    cuts = rows.chunk_cuts(rows.pointers(sizes))
    deliver = functools.partial(_delivered, partitions, cuts, undirected, carried.to_all(context, numbers))
    make = functools.partial(_made, partitions, cuts, carried.to_all(context, degrees))
    blocks = placed.flatMap(deliver).partitionBy(partitions).mapPartitions(make, preservesPartitioning=True)
    return _without_rows(places.ids, numbers, degrees, cuts, undirected, read), blocks


def _agreed(said: Sequence[_Said], path: str) -> tuple[EdgeList, int, int, list[NDArray[np.uint32]] | None]:
    """Return what is known of the file but its edges, how many these are, the largest id, and each part's words
    again.
    """
    if faults := [one.fault for one in said if one.fault]:
        raise BadInput(faults[0])
    parts = [one.told for one in said]
    read, edges = edgelist.agreed(path, parts), sum(one.edges for one in said)
    own = [part.read.words for part in parts if part.read.words is not None]
    if not own:
        return read, edges, max(part.largest for part in parts), None
    if len(own) < len(parts):
        raise BadInput(
            f"{path}: only some parts of it have ids of more than 64 bits: use another --framework than spark"
        )
    known, numbers = words.merged(own)
    return replace(read, words=known), edges, len(known) - 1, numbers


def _part(path: str, partitions: int, how: How, number: int) -> _Part:
    try:
        return _Part(number, edgelist.read_part(path, number, partitions, how=how), None)
    except BadInput as error:
        return _Part(number, EdgeList([]), str(error))


def _said(part: _Part) -> _Said:
    return _Said(part.fault, edgelist.told(part.read), sum(map(len, part.read.blocks)) // 2)


def _numbered_words(numbers: Any, part: _Part) -> _Part:
    """The same with words numbered as all parts have them."""
    mine = numbers.value[part.number]
    return replace(part, read=replace(part.read, blocks=[mine[block] for block in part.read.blocks], words=None))


def _places(parts: Any, largest: int, edges: int) -> ids.Places:
    if ids.affords_bits(largest, edges):
        return ids.Bits.of(parts.map(functools.partial(_marked, largest)).reduce(np.bitwise_or))
    return ids.Sorted(np.unique(np.concatenate(parts.map(_unique).collect())))


def _marked(largest: int, part: _Part) -> NDArray[np.uint64]:
    return ids.mark(part.read.blocks, part.read.named, largest)


def _unique(part: _Part) -> NDArray[Any]:
    with threads.pool() as pool:
        return ids.unique(part.read.blocks, part.read.named, pool)


def _placed(places: Any, part: _Part) -> list[NDArray[np.uint32]]:
    """The edges of a part by the places of their ends, (2 m,) each."""
    known: ids.Places = places.value
    with threads.pool() as pool:
        return list(pool.map(known.places, part.read.blocks))


def _degrees(nodes: int, pairs: list[NDArray[np.uint32]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return how many of the edges lead out of each node, and into it."""
    with threads.pool() as pool:
        return rows.degrees(pairs, nodes, (0,), pool), rows.degrees(pairs, nodes, (1,), pool)


def _added(one: tuple[Any, Any], other: tuple[Any, Any]) -> tuple[Any, Any]:
    return one[0] + other[0], one[1] + other[1]


def _delivered(
    partitions: int, cuts: NDArray[np.int64], undirected: bool, numbers: Any, pairs: list[NDArray[np.uint32]]
) -> Iterator[tuple[int, NDArray[np.uint32]]]:
    """For each block the edges of its rows, by the numbers of their ends."""
    edges = np.concatenate([np.zeros(0, np.uint32), *pairs])
    graphs.kernels.renumber(edges, numbers.value)
    dealt, lengths = Layout(cuts, partitions).dealt([edges], undirected)
    yield from enumerate(np.split(dealt, np.cumsum(lengths)[:-1]))


def _made(
    partitions: int, cuts: NDArray[np.int64], degrees: Any, edges: Iterator[tuple[int, NDArray[np.uint32]]]
) -> Iterator[tuple[int, Block]]:
    """The block of a partition, of all edges that came to it."""
    nodes, layout = len(degrees.value), Layout(cuts, partitions)
    for number, group in itertools.groupby(sorted(edges, key=_key), key=_key):
        own = np.concatenate([pairs for _, pairs in group])
        with threads.pool() as pool:
            indptr, columns = rows.transposed(*rows.by_source([own], nodes, False, pool), nodes, pool)
        yield number, block_of(number, layout, *layout.rows(number, indptr, columns), degrees.value[layout.order])


def _key(pair: tuple[int, Any]) -> int:
    return pair[0]


def _wanted(pair: tuple[int, Block]) -> Iterator[tuple[int, tuple[int, NDArray[np.uint32]]]]:
    """To each block which of its rows this one needs."""
    number, block = pair
    for other, theirs in block.wanted.items():
        yield other, (number, theirs)


def _joined(records: Iterator[tuple[int, Any]]) -> Iterator[tuple[int, Block]]:
    """The blocks of a partition, with what others need of them."""
    blocks: dict[int, Block] = {}
    read: dict[int, dict[int, NDArray[np.uint32]]] = {}
    for number, one in records:
        if isinstance(one, Block):
            blocks[number] = one
        else:
            read.setdefault(number, {})[one[0]] = one[1]
    for number, block in blocks.items():
        yield number, replace(block, wanted={}, read=read.get(number, {}))


def _as_it_is(pair: tuple[int, Block]) -> tuple[int, Block]:
    """The same: what Spark has mapped it takes to be anywhere."""
    return pair


def _without_rows(
    places: NDArray[Any],
    numbers: NDArray[np.uint32],
    degrees: NDArray[np.uint32],
    cuts: NDArray[np.int64],
    undirected: bool,
    read: EdgeList,
) -> Graph:
    indptr, columns = graphs.no_rows()
    forward_indptr, forward_columns = graphs.no_rows()
    return Graph(
        ids=places,
        numbers=numbers,
        degrees=degrees,
        indptr=indptr,
        columns=columns,
        forward_indptr=forward_indptr,
        forward_columns=forward_columns,
        cuts=cuts,
        first_row=np.array(0),
        edge_count=np.array(read.listed),
        undirected=np.array(undirected),
        **graphs.said_of(places, read, undirected)._asdict(),
    )
