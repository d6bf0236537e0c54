"""Edge lists as people have them: whatever is between the columns, with a header or not, of numbers or of words."""

from __future__ import annotations

import csv
import gzip
import io
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workloads.common.events import BadInput
from workloads.ppr import check, edgelist, graph, words
from workloads.ppr.edgelist import EdgeList

relaxed = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
Named = list[tuple[str, str]]


def zstd(data: bytes) -> bytes:
    packed: bytes = pa.Codec("zstd").compress(data).to_pybytes()
    return packed


def written(folder: Path, data: bytes | str, name: str = "my.csv") -> Path:
    path = folder / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def names_of(read: EdgeList) -> list[str]:
    """The words of an edge list, by number."""
    assert read.words is not None
    text, ends = read.words.table()
    assert ends.tolist()[-1:] == [len(text) - 1]
    return bytes(text).decode().split("\n")[1:-1]


def named(read: EdgeList) -> Named:
    known = names_of(read)
    return [(known[source], known[target]) for source, target in read.edges.tolist()]


def in_parts(path: Path, parts: int, block: int) -> tuple[list[Any], str]:
    """The edges of all parts, by their words where ids are words, and the header."""
    reads = [edgelist.read_part(path, part, parts, block) for part in range(parts)]
    edges: list[Any] = []
    for read in reads:
        if read.words is not None:
            edges += named(read) if read.blocks else []
        elif read.blocks:
            edges += [tuple(edge) for edge in read.edges.tolist()]
    (header,) = {read.header for read in reads}
    return edges, header


@pytest.mark.parametrize(
    ("text", "edges", "header"),
    [
        ("from,to\n1,2\n3,4\n", [(1, 2), (3, 4)], "from,to"),
        ("\ufefffrom,to\r\n1,2\r\n3,4\r\n", [(1, 2), (3, 4)], "from,to"),
        ("to,from\n1,2\n3,4\n", [(2, 1), (4, 3)], "to,from"),
        ("a;b\n1; 2\n 3 ;4", [(1, 2), (3, 4)], "a;b"),
        ("# top\nFromNodeId\tToNodeId\n1\t2\n", [(1, 2)], "FromNodeId\tToNodeId"),
        ("1,2\n3,4\n", [(1, 2), (3, 4)], ""),
        ('"1","2"\n3,"4"\n', [(1, 2), (3, 4)], ""),
        ('"x" "y"\n"1" 2\n', [(1, 2)], '"x" "y"'),
        (f"007,{2**64 - 1}\n\n# a comment, 1\n5,6\n", [(7, 2**64 - 1), (5, 6)], ""),
    ],
)
def test_numbers(tmp_path: Path, text: str, edges: Any, header: str) -> None:
    path = written(tmp_path, text)
    for block in (1, 5, 1 << 20):
        read = edgelist.read(path, block)
        assert [tuple(edge) for edge in read.edges.tolist()] == edges
        assert (read.header, read.words) == (header.replace("\t", " "), None)
        assert in_parts(path, 3, block) == (edges, header.replace("\t", " "))
    assert check.check(path).startswith(f"{len(edges)} edge")


@pytest.mark.parametrize(
    ("text", "edges"),
    [
        ("from,to\nuser_0000,user_0115\n", [("user_0000", "user_0115")]),
        ("ann bob\nbob\tcee\n", [("ann", "bob"), ("bob", "cee")]),
        ("New York\tParis\nParis\tNew York\n", [("New York", "Paris"), ("Paris", "New York")]),
        ("Smith, Ann;Doe, Bob\n", [("Smith, Ann", "Doe, Bob")]),
        ('"a, b","say ""x"""\nc , " d"\n', [("a, b", 'say "x"'), ("c", "d")]),
        ('"#cats",dogs\n#cats,birds\n', [("#cats", "dogs"), ("#cats", "birds")]),
        ("12,ab\n3,4\n", [("12", "ab"), ("3", "4")]),
        ('5" disk,3" disk\n', [('5" disk', '3" disk')]),
        ("zoë,日本\r\n", [("zoë", "日本")]),
        ("target;source\na;b\n", [("b", "a")]),
        ("# node 1 one\na b\n", [("a", "b")]),
    ],
)
def test_words(tmp_path: Path, text: str, edges: Named) -> None:
    path = written(tmp_path, text)
    for block in (1, 7, 1 << 20):
        read = edgelist.read(path, block)
        assert named(read) == edges
        assert names_of(read) == sorted({word for edge in edges for word in edge}, key=str.encode)
        assert read.names == {}
        assert in_parts(path, 2, block)[0] == edges


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("a,b\nc\nd,e\n", "line 2: an edge is exactly two node ids, here is 1: 'c'"),
        ("a,b\nc,d\ne", "line 3: an edge is exactly two node ids, here is 1: 'e'"),
        ("1,2\n3,4\n5,", "line 3: a node id is missing: '5,'"),
        ("1 2\n3 4\n5", "line 3: an edge is exactly two node ids, here is 1: '5'"),
        ("x\ny\n", "line 1: an edge is exactly two node ids, here is 1: 'x'"),
        ("source,target,weight\na,b,1\na,b\n", "line 3: an edge has 3 columns in this file, here are 2: 'a,b'"),
        ("1,2\n1,2,0.5\n", "line 2: an edge is exactly two node ids, here are 3: '1,2,0.5' .* two columns"),
        ("1,2\n3,x\n", "line 2: a node id that is not an integer: '3,x' .* let an edge of words come first"),
        ("1,2\n-3,4\n", "line 2: a negative node id: '-3,4'"),
        ("-3 4\n", "line 1: a negative node id: '-3 4'"),
        ("1.5,2.5\n", "line 1: a node id that is not an integer: '1.5,2.5'"),
        ('"1","2"\n"#3",4\n', "line 2: a node id that is not an integer"),
        ("a,b\nc\0,d\n", r"line 2: a control character in a node id: 'c\\x00,d'"),
        ("1,2\n3\0,4\n", "line 2: a node id that is not an integer"),
        (b"a,b\n# caf\xe9\nc,d\ncaf\xe9,e\n", r"line 4: not UTF-8: 'caf\\\\xe9,e' .*iconv"),
        ('a,b\n"c,d\n', "line 2: a quote that does not end, or text after it: "),
        ('a,b\n"c"x,d\n', "line 2: a quote that does not end, or text after it: "),
        ('a,b\n"",d\n', "line 2: a node id is missing"),
        ("", "the graph is empty"),
        ("from,to\n", r"the graph is empty: give a file with an edge a line \(only the header `from,to`\)"),
        ("from,to\na,b\nc\n", "line 3: "),
        (zstd(b"1,2\n" * 9000)[:-4], "damaged or truncated zst"),
        (gzip.compress(b"1,2\n" * 9000)[:-9], "damaged or truncated gzip"),
        ("a,b\n".encode("utf-16"), "is UTF-16: save it as UTF-8"),
        (b"PK\x03\x04xxxx", "damaged or truncated zip"),
        (b"BZh91AY", "damaged or truncated bzip2"),
        (b"PAR1xxxx", "damaged or truncated Parquet file"),
        (b"\x01" * (3 << 20), "line 1: is longer than 1 MB"),
    ],
)
def test_what_is_wrong_is_said_alike_on_the_nodes_and_before(tmp_path: Path, data: bytes | str, said: str) -> None:
    path = written(tmp_path, data)
    for reader in (edgelist.read, check.check):
        with pytest.raises(BadInput, match=f"^{re.escape(str(path))}: {said}") as caught:
            reader(path)
        assert "\n" not in str(caught.value)


def test_a_torn_line_far_into_a_file_is_named_by_every_part(tmp_path: Path) -> None:
    path = written(tmp_path, "from,to\n" + "ann,bob\n" * 200_000 + "ann\n" + "ann,bob\n" * 10)
    for read in (edgelist.read, check.check, lambda path: edgelist.read_part(path, 1, 2)):
        with pytest.raises(BadInput, match=r"line 200002: .* here is 1: 'ann'"):
            read(path)


def test_names_in_comments_that_reach_beyond_the_first_part(tmp_path: Path) -> None:
    comments = "".join(f"# node {node} name{node}\n" for node in range(100))
    path = written(tmp_path, comments + "1 2\n")
    assert edgelist.read_part(path, 0, 4).names == edgelist.read(path).names
    assert edgelist.read_part(path, 3, 4).names == {}


def test_packed_files_and_parts_of_them(tmp_path: Path) -> None:
    text = "from,to\n" + "".join(f"u{i % 97},u{i * i % 89}\n" for i in range(1, 3000))
    plain = named(edgelist.read(written(tmp_path, text)))
    two_frames = zstd(text[:7000].encode()) + zstd(text[7000:].encode())
    for name, data in {"gz": gzip.compress(text.encode()), "zst": two_frames}.items():
        path = written(tmp_path, data, name)
        assert named(edgelist.read(path)) == plain
        assert sorted(in_parts(path, 3, 500)[0]) == sorted(plain)
        assert check.check(path) == check.check(tmp_path / "my.csv") == "2,999 edges, 97 names, header `from,to`"


word = st.text(st.characters(exclude_categories=("Cc", "Cs", "Zs", "Zl", "Zp")), min_size=1, max_size=6)
spaced = st.builds(lambda a, gap, b: a + gap + b, word, st.sampled_from(["", " ", ",", ";", '"', '""', "  "]), word)


@relaxed
@given(
    edges=st.lists(st.tuples(spaced, spaced), min_size=1, max_size=20),
    separator=st.sampled_from(",;\t"),
    quoted=st.booleans(),
    ending=st.sampled_from(["\n", "\r\n"]),
    how=st.integers(0, 2),
    parts=st.integers(1, 4),
    block=st.integers(1, 60),
)
def test_what_a_csv_writer_writes_is_read(
    tmp_path: Path, edges: Named, separator: str, quoted: bool, ending: str, how: int, parts: int, block: int
) -> None:
    marks = any(text.startswith(("#", "%", "//", '"')) for edge in edges for text in edge)
    made = io.StringIO(newline="")
    quoting = csv.QUOTE_ALL if quoted or marks else csv.QUOTE_MINIMAL
    writer = csv.writer(made, delimiter=separator, quoting=quoting, lineterminator=ending)
    writer.writerows([("source", "target"), ("one", "two"), *edges])
    data = made.getvalue().encode()
    path = written(tmp_path, (data, gzip.compress(data), zstd(data))[how])
    expected = [("one", "two"), *edges]
    assert named(edgelist.read(path, block)) == expected
    read, header = in_parts(path, parts, block)
    assert sorted(read) == sorted(expected)
    assert header
    assert check.check(path, block).startswith(f"{len(expected)} edges, {len({*sum(expected, ())})} names, header")


@relaxed
@given(
    data=st.one_of(
        st.text(alphabet='0123456789ab"\t ,;\r\n#-x.+\v\0é', max_size=60).map(str.encode),
        st.lists(
            st.sampled_from([b"1,2", b"1 2", b'"1","2"', b"a,b", b'"a, b";c', b"# x", b"", b"from,to", b"1;2 "])
        ).map(b"\n".join),
    ),
    first=st.sampled_from([b"", b"1 2\n", b"1,2\n", b"a,b\n", b"a b\n", b"from;to\n", b"\xef\xbb\xbf"]),
    block=st.integers(1, 40),
    parts=st.integers(1, 3),
)
def test_the_check_takes_what_the_nodes_take(tmp_path: Path, data: bytes, first: bytes, block: int, parts: int) -> None:
    path = written(tmp_path, first + data)
    try:
        read = edgelist.read(path, block)
    except BadInput as error:
        with pytest.raises(BadInput) as caught:
            check.check(path, block)
        assert str(caught.value) == str(error)
        return
    counts = f"{len(read.edges):,} edge"
    assert check.check(path, block).startswith(counts)
    found, _ = in_parts(path, parts, block)
    assert found == (named(read) if read.words else [tuple(edge) for edge in read.edges.tolist()])


def test_words_have_the_same_numbers_whatever_the_order_of_lines(tmp_path: Path) -> None:
    lines = [f"w{i % 31},v{i % 17}\n" for i in range(200)]
    one = graph.build(written(tmp_path, "".join(lines)), undirected=False)
    random.Random(1).shuffle(lines)
    two = graph.build(written(tmp_path, "".join(lines), "other.csv"), undirected=False)
    for name in ("ids", "numbers", "indptr", "columns", "name_text", "name_ends"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    assert [one.name(one.find(text)) for text in ("w3", "v16")] == ["w3", "v16"]
    with pytest.raises(BadInput, match="source '3' is not in the graph"):
        one.find("3")


def test_a_prepared_graph_of_before_there_were_words_is_read(tmp_path: Path) -> None:
    made = graph.build(written(tmp_path, "1 2\n"), undirected=False)
    folder = tmp_path / "made"
    folder.mkdir()
    made.save(folder)
    for name in ("by_words", "header"):
        (folder / f"{name}.npy").unlink()
    assert not graph.open_prepared(folder, undirected=False).by_words


def parquet(folder: Path, table: dict[str, Any], rows: int = 1000) -> Path:
    pq.write_table(pa.table(table), folder / "my.parquet", row_group_size=rows)
    return folder / "my.parquet"


def test_parquet(tmp_path: Path) -> None:
    numbers = [3, 1, 2**40, 2], [1, 2, 3, 4]
    path = parquet(tmp_path, {"a": numbers[0], "b": numbers[1]}, rows=2)
    assert edgelist.read(path).edges.tolist() == [list(edge) for edge in zip(*numbers, strict=True)]
    assert check.check(path) == "4 edges, header `a,b`"
    path = parquet(tmp_path, {"weight": [0.5] * 3, "dst": ["b", "c", "d"], "src": ["a", "b", "a"]}, rows=1)
    assert named(edgelist.read(path)) == [("a", "b"), ("b", "c"), ("a", "d")]
    assert in_parts(path, 2, 1)[0] == [("a", "b"), ("a", "d"), ("b", "c")]
    assert check.check(path) == "3 edges, 4 names, header `src,dst (without weight)`"
    path = parquet(tmp_path, {"src": pa.array(["a", "b"]).dictionary_encode(), "dst": [1, 2]})
    assert named(edgelist.read(path)) == [("a", "1"), ("b", "2")]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"a": [1]}, "an edge is exactly two node ids, here are the columns a: name the two source,target"),
        ({"a": [1], "b": [1], "c": [1]}, "here are the columns a, b, c"),
        ({"a": [1, None], "b": [1, 2]}, "row 2: column a: a node id is missing"),
        ({"a": [1, 2], "b": [1, -2]}, "row 2: column b: a negative node id: -2"),
        ({"a": [1.5], "b": [1]}, "column a is of type double: a node id is an integer or text"),
        ({"a": ["", "x"], "b": ["y", "z"]}, "a node id is missing"),
        ({"a": ["x\ny"], "b": ["y"]}, "a control character in a node id: 'x.ny'"),
        ({"a": pa.array([], pa.int64()), "b": pa.array([], pa.int64())}, "the graph is empty"),
    ],
)
def test_parquet_that_holds_no_edges(tmp_path: Path, table: dict[str, Any], said: str) -> None:
    path = parquet(tmp_path, table)
    for reader in (edgelist.read, check.check):
        with pytest.raises(BadInput, match=said) as caught:
            reader(path)
        assert "\n" not in str(caught.value)


def test_lists_of_words_that_are_empty_are_merged() -> None:
    all_words, numbers = words.merged([words.NONE, words.NONE])
    assert (len(all_words), [len(part) for part in numbers]) == (0, [0, 0])
    assert words.merged([]) == (words.NONE, [])
