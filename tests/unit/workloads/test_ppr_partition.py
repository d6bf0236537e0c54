"""What a rank has: the model that chooses it, and the layout of rows over ranks."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from workloads.ppr import graph, partition, rmat
from workloads.ppr.blocks import NOWHERE, Block, Layout, block_of
from workloads.ppr.partition import Size, Speed

SIZE = Size(1_200_000, 14_000_000)
GIGABIT = Speed(step=0.6e-9, bandwidth=118e6, latency=1e-3)
LOCAL = Speed(step=0.6e-9, bandwidth=2e9, latency=1e-4)


@pytest.mark.parametrize(
    ("size", "sources", "speed", "wanted"),
    [
        (SIZE, 4, LOCAL, "graph"),
        (SIZE, 64, GIGABIT, "sources"),
        (SIZE, 4, Speed(0.6e-9, 1e6, 1e-3), "sources"),
        (SIZE, 1, Speed(1.5e-9, 118e6, 1e-3), "graph-overlapped"),
        (Size(100, 300), 4, LOCAL, "sources"),
    ],
)
def test_the_faster_partition_is_chosen(size: Size, sources: int, speed: Speed, wanted: str) -> None:
    chosen, why = partition._chosen(size, sources, 4, speed)
    assert chosen == wanted
    assert f"an iteration of {sources} sources on 4 ranks is expected to take" in why
    assert f"about {size.nodes:,} nodes and {size.edges:,} steps" in why


def test_sources_go_through_in_turn() -> None:
    by_sources, by_graph = partition.seconds(SIZE, 20, 2, LOCAL)
    assert by_sources == pytest.approx(sum(partition.computing(SIZE, width, LOCAL) for width in (8, 2)))
    exchanged = 2 * LOCAL.latency + LOCAL.latency + SIZE.nodes / 2 * 20 * 2 / LOCAL.bandwidth
    assert by_graph == pytest.approx(
        exchanged + sum(partition.computing(SIZE, width, LOCAL) / 2 for width in (8, 8, 4))
    )


def test_sizes_are_known_or_estimated(tmp_path: Path) -> None:
    text = "".join(f"{a}\t{a + 1}\n" for a in range(1000, 6000))
    (tmp_path / "g.txt").write_text(text)
    assert partition.size_of(str(tmp_path / "g.txt"), False) == Size(1000, 5000)
    assert partition.size_of(str(tmp_path / "g.txt"), True) == Size(1000, 10_000)
    (tmp_path / "g.gz").write_bytes(gzip.compress(text.encode()))
    assert 1000 < partition.size_of(str(tmp_path / "g.gz"), False).edges < 20_000
    assert partition.size_of(str(tmp_path / "none.txt"), False) == Size(1, 1)
    built = rmat.build(200, 3000, 0)
    (tmp_path / "made").mkdir()
    built.save(tmp_path / "made")
    assert partition.size_of(str(tmp_path / "made"), False) == Size(built.nodes, 3000, known=True)


@pytest.mark.parametrize("parts", [1, 3, 7])
def test_every_row_and_edge_is_in_one_block(parts: int) -> None:
    whole = rmat.build(500, 4000, 1)
    cuts = np.unique(np.append(np.arange(0, whole.nodes, 100), whole.nodes))
    layout = Layout(cuts, parts)
    made = layout.applied(whole)
    assert sorted(layout.order.tolist()) == list(range(whole.nodes))
    edges = np.random.default_rng(0).integers(0, whole.nodes, (2, 600), np.uint32)
    for undirected in (False, True):
        dealt, lengths = layout.dealt([*edges], undirected)
        own_of_each = np.split(dealt, np.cumsum(lengths)[:-1])
        for (low, high), own in zip(layout.bounds, own_of_each, strict=True):
            assert set(own[1::2].tolist()) <= set(layout.order[low:high].tolist())
        ways = edges.reshape(-1, 2).tolist()
        ways += [way[::-1] for way in ways] if undirected else []
        assert sorted(dealt.reshape(-1, 2).tolist()) == sorted(ways)
    rows = {}
    for part, (low, high) in enumerate(layout.bounds):
        block = block_of(part, layout, *layout.rows(part, whole.indptr, whole.columns), made.degrees)
        assert block.rows == high - low == block.cuts[-1] - block.own
        for row in range(block.rows):
            places = block.columns[block.indptr[row] : block.indptr[row + 1]]
            rows[int(layout.order[low + row])] = layout.order[block.nodes[places]].tolist()
    for row in range(whole.nodes):
        assert rows[row] == whole.columns[whole.indptr[row] : whole.indptr[row + 1]].tolist()
    assert graph.no_rows()[1].tolist() == made.columns.tolist()


def test_a_block_without_rows_needs_no_nodes() -> None:
    whole = rmat.build(50, 400, 2)
    layout = Layout(whole.cuts, 4)
    made = layout.applied(whole)
    block = block_of(3, layout, *layout.rows(3, whole.indptr, whole.columns), made.degrees)
    assert (len(whole.cuts), block.rows, block.place(7)) == (2, 0, NOWHERE)
    assert Block.whole(whole).place(7) == 7
