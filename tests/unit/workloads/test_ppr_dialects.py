"""A file of each kind of graph file, its answers compared with networkx; and what is wrong with such files."""

from __future__ import annotations

import bz2
import csv
import gzip
import lzma
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import igraph
import networkx as nx
import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest
import scipy.io
from launching import ppr

from workloads.common.events import BadInput
from workloads.ppr import check, dialects, edgelist, graph, power, weighted
from workloads.ppr.dialect import How

FILES = Path(__file__).parent / "dialects"
ALPHA = 0.1


def lines(path: Path, kind: Any, **ways: Any) -> Any:
    return nx.read_edgelist(path, create_using=kind, **{"nodetype": int, **ways})


def whole(text: str) -> int:
    return int(float(text))


def gephi(path: Path) -> Any:
    made = nx.DiGraph()
    with path.open() as file:
        for row in csv.DictReader(file):
            ends = [int(row["Source"]), int(row["Target"])]
            for one, other in [ends, ends[::-1]][: 1 + (row["Type"] == "Undirected")]:
                made.add_edge(one, other, weight=float(row["Weight"]))
    return made


def table(path: Path) -> Any:
    made = nx.DiGraph()
    with path.open() as file:
        made.add_weighted_edges_from((row["from"], row["to"], float(row["weight"])) for row in csv.DictReader(file))
    return made


def dimacs(letter: str, kind: Any) -> Callable[[Path], Any]:
    def read(path: Path) -> Any:
        edges = [line[2:] for line in path.read_text().splitlines() if line.startswith(letter)]
        data = (("weight", float),) if letter == "a" else True
        return nx.parse_edgelist(edges, create_using=kind, nodetype=int, data=data)

    return read


def matrix(path: Path) -> Any:
    made = nx.from_scipy_sparse_array(scipy.io.mmread(path), create_using=nx.DiGraph)
    return nx.relabel_nodes(made, {node: node + 1 for node in made})


HEAVY = (("weight", float),)
NETWORKX: dict[str, tuple[Callable[[Path], Any], bool]] = {
    "matrix-market.mtx": (matrix, True),
    "konect.txt": (lambda path: lines(path, nx.Graph, comments="%", data=HEAVY).to_directed(), True),
    "pajek.net": (lambda path: nx.DiGraph(nx.read_pajek(path)), True),
    "dimacs.col": (dimacs("e", nx.Graph), False),
    "dimacs-arcs.gr": (dimacs("a", nx.DiGraph), True),
    "snap.txt": (lambda path: lines(path, nx.DiGraph), False),
    "gephi.csv": (gephi, True),
    "networkx.edgelist": (lambda path: lines(path, nx.DiGraph), True),
    "weighted.edgelist": (lambda path: lines(path, nx.DiGraph, data=HEAVY), True),
    "igraph.txt": (lambda path: lines(path, nx.DiGraph, nodetype=whole), False),
    "floats.csv": (lambda path: lines(path, nx.DiGraph, nodetype=whole, delimiter=","), False),
    "r.csv": (table, True),
}
"""A file's graph as networkx has it, and whether that has weights."""


def label(made: graph.Graph, place: int, named: bool) -> Any:
    return made.name(place) if named or made.by_words else int(made.ids[place])


def solved(path: Path, **ways: Any) -> tuple[graph.Graph, list[np.ndarray[Any, Any]]]:
    """The scores of every node as a source, by place."""
    made = graph.build(path, undirected=False, how=How(**ways))
    engine = weighted if ways.get("weights") else power
    found = engine.solve(made, np.arange(made.nodes), ALPHA, 1e-13, 1000)
    return made, [solution.scores for _, solution in sorted(found, key=lambda pair: pair[0])]


def same_as_networkx(path: Path, known: Any, weights: bool, named: bool = False) -> None:
    made, scores = solved(path, weights=weights)
    labels = [label(made, place, named) for place in range(made.nodes)]
    assert set(known) == set(labels)
    for source, found in zip(labels, scores, strict=True):
        ways = {"personalization": {source: 1}, "dangling": {source: 1}, "tol": 1e-13, "max_iter": 1000}
        expected = nx.pagerank(known, 1 - ALPHA, weight="weight" if weights else None, **ways)
        assert found == pytest.approx([expected[node] for node in labels], abs=1e-10)


def test_each_kind_has_a_file() -> None:
    names = {edgelist.read(FILES / name).found.form for name in NETWORKX}
    assert {form for form in dialects.FORMS if form.head} == names - {None}
    assert {path.name for path in FILES.iterdir()} == set(NETWORKX)


@pytest.mark.parametrize("name", NETWORKX)
def test_the_answers_are_those_of_networkx(name: str) -> None:
    read, weighted = NETWORKX[name]
    for weights in (False, True)[: 1 + weighted]:
        same_as_networkx(FILES / name, read(FILES / name), weights, named=name == "pajek.net")


@pytest.mark.parametrize("name", NETWORKX)
@pytest.mark.parametrize("weights", [False, True])
def test_parts_and_blocks_and_the_check_read_the_same(name: str, weights: bool) -> None:
    if weights and not NETWORKX[name][1]:
        return
    path = FILES / name
    whole_file = edgelist.read(path, how=How(weights))
    assert check.check(path).startswith(f"{whole_file.listed} edges")
    for block, parts in ((1, 1), (7, 1), (1 << 20, 3), (5, 2)):
        reads = [edgelist.read_part(path, part, parts, block, How(weights)) for part in range(parts)]
        edgelist.agreed(path, [edgelist.told(read) for read in reads])
        assert sorted(listed(whole_file)) == sorted(edge for read in reads for edge in listed(read))


def listed(read: edgelist.EdgeList) -> list[Any]:
    heavy = np.concatenate(read.weights) if read.weights else np.zeros(sum(map(len, read.blocks)) // 2)
    names = read.words.table()[0].tobytes().split(b"\n")[1:-1] if read.words else None
    edges = read.edges.tolist() if read.blocks else []
    return [
        (*(names[node] if names else node for node in edge), weight)
        for edge, weight in zip(edges, heavy.tolist(), strict=True)
    ]


def test_weights_are_those_of_igraph() -> None:
    path = FILES / "weighted.edgelist"
    rows = [line.split() for line in path.read_text().splitlines()]
    known = igraph.Graph.TupleList(((one, other, float(weight)) for one, other, weight in rows), True, weights=True)
    made, scores = solved(path, weights=True)
    for place, found in enumerate(scores):
        ways = {"damping": 1 - ALPHA, "weights": "weight", "implementation": "prpack"}
        expected = known.personalized_pagerank(reset_vertices=known.vs.find(name=str(made.ids[place])).index, **ways)
        by_name = dict(zip(known.vs["name"], expected, strict=True))
        assert found == pytest.approx([by_name[str(node)] for node in made.ids], abs=1e-9)


def test_parallel_edges_and_edges_of_no_weight(tmp_path: Path) -> None:
    path = tmp_path / "g"
    path.write_text("1 2 1\n1 2 3\n1 3 0\n2 1 0\n3 1 2\n")
    known = nx.DiGraph()
    known.add_weighted_edges_from([(1, 2, 4), (1, 3, 0), (2, 1, 0), (3, 1, 2)])
    same_as_networkx(path, known, weights=True)


def test_sections_of_pajek_and_nodes_without_edges(tmp_path: Path) -> None:
    path = tmp_path / "g"
    path.write_text('*Vertices 4\n1 "Ann, B"\n*Arcs\n1 2 3\n*Edges\n2 3\n')
    read = edgelist.read(path, how=How(weights=True))
    assert listed(read) == [(1, 2, 3.0), (2, 3, 1.0), (3, 2, 1.0)]
    assert graph.build(path, undirected=False).nodes == 4
    assert read.notes(False) == ["Pajek", "1 of them undirected, read both ways", "weighted"]


def test_undirected_files_are_not_doubled_twice(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("2 1\n3 1\n3 2\n4 3\n5 4\n")
    one = graph.build(tmp_path / "plain", undirected=True)
    other = graph.build(FILES / "matrix-market.mtx", undirected=True)
    for name in ("indptr", "columns", "edge_count"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_comments_after_the_first_edge_are_counted(tmp_path: Path) -> None:
    (tmp_path / "numbers").write_text("# top\n1 2\n# one\n% two\n// three\n2 3\n")
    (tmp_path / "words").write_text("// top\na,#b\n#b,c\n# a word, or two, or three\nc,a\n#c\n")
    assert edgelist.read(tmp_path / "numbers").comments == 3
    assert edgelist.read(tmp_path / "words").comments == 2
    assert "3 lines between edges left out as comments" in check.check(tmp_path / "numbers")
    assert check.check(tmp_path / "words").startswith("3 edges, 3 names")


def test_comments_that_count_other_edges_are_said(tmp_path: Path) -> None:
    cut = tmp_path / "cut"
    cut.write_text("".join((FILES / "snap.txt").read_text().splitlines(keepends=True)[:-5]))
    assert "its comments say 8 edges: is the file cut?" in check.check(cut)
    assert "is the file cut?" not in check.check(FILES / "snap.txt")
    assert edgelist.read(cut).notes(undirected=False) == ["its comments say 8 edges: is the file cut?"]


@pytest.mark.parametrize("kind", ["bz2", "xz", "zip"])
def test_packed(tmp_path: Path, kind: str) -> None:
    text = "".join(f"{i} {i * i % 97}\n" for i in range(5000)).encode()
    path = tmp_path / "g"
    if kind == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("folder/", "")
            archive.writestr("folder/g.txt", text)
    else:
        path.write_bytes({"bz2": bz2.compress, "xz": lzma.compress}[kind](text))
    assert len(edgelist.read(path).edges) == 5000
    path.write_bytes(path.read_bytes()[:-3000])
    for reader in (edgelist.read, check.check):
        with pytest.raises(BadInput, match=f"{path}: damaged or truncated {kind.replace('bz2', 'bzip2')}"):
            reader(path)


def test_archives_that_are_no_file_of_edges(tmp_path: Path) -> None:
    for names, said in ((["a", "b"], "2 files .a, b.: unpack it"), (["[Content_Types].xml"], "is a spreadsheet")):
        with zipfile.ZipFile(tmp_path / "g", "w") as archive:
            for name in names:
                archive.writestr(name, "1 2\n")
        with pytest.raises(BadInput, match=said):
            edgelist.read(tmp_path / "g")


MATRIX = "%%MatrixMarket matrix coordinate real general\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (MATRIX + "3 3 2\n1 2 5\n2", "line 4: an edge has 3 columns in this file, here is 1: '2' .*cut"),
        (MATRIX + "3 3 2\n1 2 5\n", "line 2: says 2 edges, and there are 1: the file is cut"),
        (MATRIX + "3 3 1\n1 2 5\n2 3 1\n", "line 2: says 1 edges, and there are 2"),
        (MATRIX + "3 3 2\n1 2 5\n2 4 1\n", "line 4: node 4 is none of the graph's: line 2 says that there are 3"),
        (MATRIX + "3 3 2\n0 2 5\n2 3 1\n", "line 3: node 0 is none of the graph's"),
        (MATRIX + "3 4 1\n1 2 5\n", "line 2: is a matrix of 3 x 4"),
        (MATRIX + "3 3", "is Matrix Market, and the line of its size is missing or torn"),
        (MATRIX + "3 3 2\n1 2 5\n2 3 1\n" + MATRIX, "line 5: another file begins here"),
        ("%%MatrixMarket matrix array real general\n2 2\n1\n2\n", "is Matrix Market array, which holds a dense"),
        ("c x\np edge 4 3\ne 1 2\ne 2", "line 4: an edge has 3 columns in this file, here are 2"),
        ("p edge 4 5\ne 1 2\ne 2 3\n", "line 1: says 5 edges, and there are 2"),
        ("p edge 4 2\ne 1 2\ne 2 9\n", "line 3: node 9 is none of the graph's"),
        ("*Vertices 3\n1 2\n2 3\n", r"is Pajek, which has no line \*Arcs or \*Edges above its edges"),
        ("*Vertices 3\n*Matrix\n0 1\n", r"is Pajek, which .*\*Matrix"),
        ("*Vertices 3\n*Arcs\n1 2\n*Vertices 4\n", r"line 4: only \*Arcs and \*Edges .*one network"),
        ("*Vertices 3\n*Arcs\n1 2\n2", "line 4: an edge has 2 columns in this file, here is 1: '2'"),
        ("*Vertices 3\n*Arcs\n1 2\n2 4\n", "line 4: node 4 is none of the graph's"),
        ("% bip unweighted\n1 1\n1 2\n", "is KONECT, two kinds of nodes, .*awk"),
        ("% sym unweighted\n1 2\n2 3\n% sym positive\n1 2 3\n", "line 4: another file begins here"),
        ("source,target\na,b\nsource,target\nc,d\n", "line 3: another file begins here"),
        ("1 2\n*Vertices 3\n", "line 2: a node id that is not an integer"),
        ("Source,Target,Type\n1,2,Directed\n2,3,Sideways\n", "line 3: the type of an edge is Directed or Undirected"),
        ("Source,Target,Type\n1,2,Directed\n2,3\n", "line 3: an edge has 3 columns in this file, here are 2"),
        ("5 6\n2 1\n3 1\n3 2\n4 3\n5 4\n5 1\n", "line 1: may be the size .*--first-line size"),
        ("5 5 6\n2 1\n3 1\n3 2\n4 3\n5 4\n5 1\n", "line 1: may be the size .*--first-line size"),
        ("5 5 6\n2 1\n3 1\n3 2\n", "line 1: an edge has 2 columns in the lines after it, here are 3"),
        ("4 3\n2\n1 3 4\n2\n2\n", "line 2: .* here is 1: '2' .METIS"),
        ("3 2 1\n2 7 3 1\n1 7\n1 1\n", "line 3: an edge has 4 columns in this file, here are 2: .*METIS"),
        ("3\n2\n3 1\n\n", "line 1: is one number: LAW's ASCII"),
        ("# c\n1 -> 2\n2 -> 3\n", "line 2: the second column is '->': .*awk"),
        ("a: b\nb: c\n", "line 1: names the neighbours"),
        ("Id;Label\n1;a\n", "line 1: is a table of nodes"),
        ("name,id,born\nann,1,1990\n", "line 1: is a table of nodes"),
        ("<?xml version='1.0'?>\n<graphml/>\n", "is GraphML, GEXF .*read_graphml"),
        ("graph [\n  node [\n", "is GML, which .*read_gml"),
        ("digraph G {\na -> b\n}\n", "is DOT"),
        ('{"nodes": [\n1]}\n', "is JSON"),
        ("dl n=3\nformat = edgelist1\n", "is UCINET's DL"),
        ("1 2 {}\n2 3", "line 2: an edge has 3 columns in this file, here are 2"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "g"
    for data in (text.encode(), gzip.compress(text.encode())):
        path.write_bytes(data)
        for reader in (edgelist.read, check.check):
            with pytest.raises(BadInput, match=f"^{re.escape(str(path))}: {said}") as caught:
                reader(path)
            assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1 2 nan\n", "line 1: a weight is a number from 0 on"),
        ("1 2 1\n2 3 inf\n", "line 2: a weight is a number from 0 on"),
        ("1 2 1\n2 3 -1\n", "line 2: a weight is a number from 0 on"),
        ("a,b,1\nb,c,x\n", "line 2: a weight is a number from 0 on"),
        ("a,b,1\nb,c,\n", "line 2: a weight is a number from 0 on"),
        ("1 2 {'weight': 1}\n2 3 {'weight': nan}\n", "line 2: a weight is a number"),
        ("1 2\n2 3\n", "--weights: there is no column of weights"),
        ("from,to,since\n1,2,3\n", "--weights: there is no column of weights .its columns are from,to,since"),
    ],
)
def test_weights_that_are_none(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "g").write_text(text)
    with pytest.raises(BadInput, match=said):
        edgelist.read(tmp_path / "g", how=How(weights=True))


def test_the_first_line_is_what_a_person_says(tmp_path: Path) -> None:
    path = tmp_path / "g"
    path.write_text("5 6\n2 1\n3 1\n3 2\n4 3\n5 4\n5 1\n")
    assert edgelist.read(path, how=How(first_line="edge")).listed == 7
    assert edgelist.read(path, how=How(first_line="size")).listed == 6
    path.write_text("5 7\n2 1\n3 1\n3 2\n4 3\n5 4\n5 1\n")
    assert edgelist.read(path).listed == 7
    with pytest.raises(BadInput, match="line 1: says 7 edges, and there are 6"):
        edgelist.read(path, how=How(first_line="size"))


def test_the_advice_for_two_kinds_of_nodes_is_true(tmp_path: Path) -> None:
    import subprocess

    path = tmp_path / "g"
    path.write_text("% bip unweighted\n1 1\n1 2\n2 2\n")
    with pytest.raises(BadInput) as caught:
        edgelist.read(path)
    subprocess.run(str(caught.value).split("names: ")[1], shell=True, check=True, cwd=tmp_path)
    assert listed(edgelist.read(tmp_path / "edges.txt"))[0] == (b"u1", b"v1", 0.0)


def test_all_scores_as_a_file(tmp_path: Path) -> None:
    path = str(FILES / "pajek.net")
    for name in ("out/scores.parquet", "scores.csv"):
        run = ppr("--graph", path, "--sources", '"Smith, Ann",2', "--weights", "--scores", str(tmp_path / name))
        assert "scores of 2 sources for 5 nodes" in run.out
    first = pyarrow.parquet.read_table(tmp_path / "out/scores.parquet")
    second = pyarrow.csv.read_csv(tmp_path / "scores.csv")
    assert first.column_names == second.column_names == ["node", "name", "1", "2"]
    assert first["name"].to_pylist() == second["name"].to_pylist() == ["Smith, Ann", "bob", "cee", "dee", "eve"]
    top = run.answer["sources"][0]["top"]
    by_node = dict(zip(first["node"].to_pylist(), first["1"].to_pylist(), strict=True))
    assert [[node, by_node[node]] for node, _ in top] == top
    assert second["1"].to_pylist() == pytest.approx(first["1"].to_pylist(), abs=1e-15)


def test_sources_that_are_not_there_are_offered_others() -> None:
    run = ppr("--graph", str(FILES / "pajek.net"), "--sources", "Smith")
    assert 'did you mean "Smith, Ann"?' in run.of("error")[0]["message"]
    run = ppr("--graph", str(FILES / "snap.txt"), "--scores", "out.txt")
    assert "ends in .parquet or .csv" in run.of("error")[0]["message"]
