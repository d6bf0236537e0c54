"""The edge list reader against a plain one, line by line."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workloads.common.events import BadInput
from workloads.ppr import edgelist
from workloads.ppr.dialect import How

Edges = list[tuple[int, int]]


def plain(data: bytes) -> Edges | int:
    """Edges of a file, or the number of its first malformed line."""
    edges = []
    for number, ended in enumerate(data.split(b"\n"), 1):
        line = ended.removesuffix(b"\r")
        if not line.strip(b" \t") or line.strip(b" \t").startswith(b"#"):
            continue
        match = re.fullmatch(rb"[ \t]*([0-9]+)(?:\.0*)?[ \t]+([0-9]+)(?:\.0*)?[ \t]*", line)
        if not match:
            return number
        edges.append((int(match[1]), int(match[2])))
    return edges


def written(folder: Path, data: bytes, name: str = "g.txt") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def agrees(path: Path, data: bytes, block: int) -> None:
    path.write_bytes(data)
    expected = plain(data)
    if isinstance(expected, list) and expected:
        read = edgelist.read(path, block, How(first_line="edge"))
        edges = read.edges.tolist()
        if read.words is not None:
            assert max(map(max, expected)) >= 2**64
            known = bytes(read.words.table()[0]).split(b"\n")[1:-1]
            edges = [[int(known[node]) for node in edge] for edge in edges]
        assert [tuple(edge) for edge in edges] == expected
        return
    with pytest.raises(BadInput, match="is empty" if expected == [] else f"line {expected}:"):
        edgelist.read(path, block, How(first_line="edge"))


ids = st.one_of(st.integers(0, 120), st.integers(0, 2**64 - 1), st.sampled_from([10**8, 10**16 - 1, 10**19]))
blanks = st.sampled_from([" ", "\t", "  ", " \t "])
edge_lines = st.builds(lambda a, gap, b: f"{a}{gap}{b}", ids, blanks, ids)
lines = st.one_of(edge_lines, edge_lines, st.sampled_from(["", "# a comment 1 2", "  # one", " \t", "007 0"]))
files = st.lists(st.tuples(lines, st.sampled_from(["\n", "\n", "\r\n"])), max_size=30).map(
    lambda pairs: "".join(line + end for line, end in pairs).encode()
)
relaxed = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@relaxed
@given(data=files, cut=st.integers(0, 2), block=st.integers(1, 200))
def test_reads_what_a_plain_reader_reads(tmp_path: Path, data: bytes, cut: int, block: int) -> None:
    agrees(tmp_path / "g.txt", data[: len(data) - cut], block)


@relaxed
@given(data=st.text(alphabet="0123456789 \t\r\n#-x.+\v\0é", max_size=60).map(str.encode), block=st.integers(1, 40))
def test_refuses_what_a_plain_reader_refuses(tmp_path: Path, data: bytes, block: int) -> None:
    agrees(tmp_path / "g.txt", b"1 2\n" + data, block)


@pytest.mark.parametrize("largest", [2**64 - 1, 2**64, 2**64 + 9, 10**19, 10**20 - 1, 10**20, 10**30])
def test_ids_of_any_length(tmp_path: Path, largest: int) -> None:
    agrees(tmp_path / "g.txt", f"0 1\n2 {largest}\n".encode(), 1 << 20)


def test_many_leading_zeros_are_a_number(tmp_path: Path) -> None:
    agrees(tmp_path / "g.txt", b"0" * 40 + b"7 8\n", 1 << 20)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("5", "exactly two node ids, here is 1: '5'"),
        ("1 2 0.5", "exactly two node ids, here are 3: '1 2 0.5'"),
        ("1 -2", "a negative node id: '1 -2'"),
        ("a b", "a node id that is not an integer: 'a b'"),
        ("1 2.5", "a node id that is not an integer: '1 2.5'"),
        ("1,2", "exactly two node ids, here is 1: '1,2'"),
        ("1\v2", "here is 1: '1\\x0b2'"),
        ("x" * 500, "'" + "x" * 60 + "...'"),
    ],
)
def test_a_malformed_line_is_shown_with_its_number(tmp_path: Path, line: str, fault: str) -> None:
    path = written(tmp_path, f"# top\n1 2\n\n3 4\n{line}\n5 6\n".encode())
    with pytest.raises(BadInput, match=re.escape(f"{path}: line 5: ") + ".*" + re.escape(fault)):
        edgelist.read(path)


def test_a_malformed_line_far_into_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, b"1 2\n" * 300_000 + b"oops\n" + b"1 2\n" * 10)
    with pytest.raises(BadInput, match=r"line 300001: .*'oops'"):
        edgelist.read(path)


def test_gzip_and_crlf_and_a_byte_order_mark_equal_plain(tmp_path: Path) -> None:
    text = b"# node 7 seven\n" + b"".join(b"%d\t%d\n" % (i * i, i) for i in range(1000))
    plainly = edgelist.read(written(tmp_path, text))
    for name, data in {
        "crlf": text.replace(b"\n", b"\r\n"),
        "gz": gzip.compress(text),
        "crlf.gz": gzip.compress(text.replace(b"\n", b"\r\n")),
        "mark": b"\xef\xbb\xbf" + text,
        "no end": text.removesuffix(b"\n"),
    }.items():
        other = edgelist.read(written(tmp_path, data, name))
        assert np.array_equal(other.edges, plainly.edges)
        assert other.names == plainly.names == {7: b"seven"}


def test_gzip_of_several_members(tmp_path: Path) -> None:
    path = written(tmp_path, gzip.compress(b"1 2\n3 ") + gzip.compress(b"4\n"))
    assert edgelist.read(path).edges.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("damage", ["truncated", "flipped"])
def test_damaged_gzip(tmp_path: Path, damage: str) -> None:
    data = bytearray(gzip.compress(b"".join(b"%d %d\n" % (i, i * 7919 % 1000) for i in range(2000))))
    if damage == "truncated":
        del data[len(data) // 2 :]
    else:
        data[len(data) // 2] ^= 0xFF
    with pytest.raises(BadInput, match=r"damaged or truncated gzip|line "):
        edgelist.read(written(tmp_path, bytes(data), "g.txt.gz"))


@pytest.mark.parametrize("data", [b"", b"\n\n", b"# node 1 a\n# nothing else\n", b"  \r\n"])
def test_a_graph_without_edges(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(BadInput, match=r"g.txt: the graph is empty"):
        edgelist.read(written(tmp_path, data))


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"gone.txt: No such file"):
        edgelist.read(tmp_path / "gone.txt")
    with pytest.raises(BadInput, match="Is a directory"):
        edgelist.read(tmp_path)


def test_names_come_from_the_comments_at_the_top(tmp_path: Path) -> None:
    text = "# Nodes: 3 Edges: 2\n#node\t2  two words \n\n  # node 9 nine\n1 2\n# node 1 too late\n2 1\n"
    for block in (8, 1 << 20):
        read = edgelist.read(written(tmp_path, text.encode()), block)
        assert read.names == {2: b"two words", 9: b"nine"}


def test_a_node_named_twice(tmp_path: Path) -> None:
    path = written(tmp_path, b"# node 1 a\n# node 2 b\n# node 1 c\n1 2\n")
    with pytest.raises(BadInput, match="line 3: node 1 is named twice: '# node 1 c'"):
        edgelist.read(path)
