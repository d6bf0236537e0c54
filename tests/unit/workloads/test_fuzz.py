"""Files from outside are data: whatever is in them, the readers end with values or with one sentence."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.common.events import BadInput
from workloads.digits import idx
from workloads.ppr import check, edgelist
from workloads.ppr.dialect import How
from workloads.stars import columns, table


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz") / "file"


def packed(data: bytes, how: int) -> bytes:
    """Plain, compressed, or compressed and damaged."""
    return data if how == 0 else gzip.compress(data, 1) if how == 1 else gzip.compress(data, 1)[:-3]


lines = st.lists(
    st.one_of(
        st.binary(max_size=20), st.sampled_from([b"1 2", b"1\t2\r", b"# node 1 a;$(b)", b"-1 2", b"1 2 3", b"1e3 2"])
    )
)


heads = st.sampled_from(
    [
        *(b"", b"%%MatrixMarket matrix coordinate real symmetric\n3 3 2\n", b"*Vertices 3\n*Arcs\n", b"*Edges\n"),
        *(b"c x\np edge 3 2\n", b"p sp 3 2\n", b"% sym positive\n", b"Source,Target,Type,Weight\n", b"1 2 {}\n"),
        *(b"3 2\n", b"3 3 2\n", b"1 2 0.5\n", b"a,b,1\n", b'"","from","to"\n'),
    ]
)
more = st.lists(
    st.sampled_from(
        [
            b"1 2 3",
            b"3 1 nan",
            b"1 2",
            b"e 1 2",
            b"a 1 2 7",
            b"1,2,Directed,1",
            b"2,1,undirected,x",
            b"1 2 {'weight': 2}",
            b"*Edges",
            b"# x",
            b"b,c,",
            b'"a, b",c,2',
            b"1e+05 2 1",
            b"1.0 2.0",
            b"2 0 1",
            b"9" * 21 + b" 2",
            b"% bip x",
        ]
    ),
    max_size=5,
)


@given(
    st.one_of(
        st.binary(max_size=200),
        lines.map(b"\n".join),
        st.builds(lambda head, rest: head + b"\n".join(rest), heads, more),
    ),
    st.integers(0, 2),
    st.integers(1, 64),
    st.booleans(),
)
def test_edge_lists(file: Path, data: bytes, how: int, block: int, weights: bool) -> None:
    file.write_bytes(packed(data, how))
    try:
        read = edgelist.read(file, block, How(weights))
    except BadInput as error:
        assert "\n" not in str(error)
        with pytest.raises(BadInput) as caught:
            check.check(file, block, How(weights))
        assert str(caught.value) == str(error)
        return
    assert check.check(file, block, How(weights)).startswith(f"{read.listed:,} edge")
    assert not weights or [len(of) for of in read.weights or ()] == [len(of) // 2 for of in read.blocks]


sizes = st.lists(st.one_of(st.integers(0, 5), st.sampled_from([2**31, 2**32 - 1, 4])), min_size=3, max_size=3)
images = st.builds(lambda shape, body: struct.pack(">BBBB3I", 0, 0, 8, 3, *shape) + body, sizes, st.binary(max_size=30))


@given(st.one_of(st.binary(max_size=40), images), st.integers(0, 2), st.sampled_from([1, 3]))
def test_idx(file: Path, data: bytes, how: int, dimensions: int) -> None:
    file.write_bytes(packed(data, how))
    try:
        assert idx.read(file, dimensions).ndim == dimensions
    except BadInput as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize("shape", [(2**31, 2**31, 4), (0, 2**32 - 1, 2**32 - 1), (2**32 - 1, 2**32 - 1, 0)])
def test_idx_whose_sizes_multiply_to_nothing(file: Path, shape: tuple[int, int, int]) -> None:
    file.write_bytes(struct.pack(">BBBB3I", 0, 0, 8, 3, *shape))
    with pytest.raises(BadInput, match="the header says"):
        idx.read(file, 3)


names = ",".join([*columns.FEATURES, columns.LABEL])
cells = st.one_of(
    st.sampled_from(["1", "-2.5", "nan", "inf", "", "1e999", "STAR", "GALAXY", '"', "a,b", "\0"]), st.text(max_size=3)
)
width = len(columns.FEATURES) + 1
odd = st.lists(cells, min_size=width, max_size=width)
nearly = st.builds(
    lambda number, kind, place, cell: [cell if at == place else number for at in range(width - 1)] + [kind],
    st.sampled_from(["1", "-2.5", "0.001"]),
    st.sampled_from(["STAR", "GALAXY", "3", "6"]),
    st.integers(0, width),
    cells,
)
rows = st.lists(st.one_of(odd, nearly), max_size=4)
tables = rows.map(lambda found: "\n".join([names, *(",".join(row) for row in found)]).encode("utf-8", "surrogatepass"))


@given(st.one_of(st.binary(max_size=100), tables), st.integers(0, 2), st.integers(1, 400))
def test_csv(file: Path, data: bytes, how: int, block: int) -> None:
    file.write_bytes(packed(data, how))
    try:
        for features, labels in table.blocks_of_csv(str(file), block):
            assert features.shape == (len(columns.FEATURES), len(labels))
    except BadInput as error:
        assert "\n" not in str(error)
