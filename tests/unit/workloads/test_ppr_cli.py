"""The command line: parameters and bad input, each in a real process."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

import pytest
from launching import Ended, ppr, python

LOADED = """
import atexit, json, runpy, sys
heavy = ("torch", "ray", "pandas", "networkx", "scipy.linalg", "scipy.sparse.csgraph", "regatta")
atexit.register(lambda: print(json.dumps([name for name in heavy if name in sys.modules]), file=sys.stderr))
runpy.run_module("workloads.ppr", run_name="__main__")
"""


@pytest.fixture
def graph(tmp_path: Path) -> str:
    path = tmp_path / "g.txt"
    path.write_text("# node 4 four\n1 2\n2 3\n3 1\n3 4\n")
    return str(path)


def refused(run: Ended) -> str:
    """The message of a run that refused its input, as it should."""
    assert run.status == 2
    assert "Traceback" not in run.err
    assert not run.of("result")
    (error,) = run.of("error")
    message: str = error["message"]
    return message


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the graph is empty"),
        (b"# only\n# comments\n", "the graph is empty"),
        (b"1 2\n2 3\n3\t\n", "line 3: an edge is exactly two node ids, here is 1: '3'"),
        (b"1 2\n2 3\n\n3 4 5\n", "line 4: an edge is exactly two node ids, here are 3: '3 4 5'"),
        (b"1 2\r\n-1 3\r\n", "line 2: a negative node id: '-1 3'"),
        (b"1 2\nx y\n", "line 2: a node id that is not an integer: 'x y'"),
        (gzip.compress(b"1 2\n" * 1000)[:-12], "damaged or truncated gzip"),
        (b"\x1f\x8bnonsense", "damaged or truncated gzip"),
        (b"\0\xff\n", "line 1: an edge is exactly two node ids"),
    ],
)
def test_bad_graphs(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "bad"
    path.write_bytes(content)
    said = refused(ppr("--graph", str(path)))
    assert said.startswith(f"{path}: ")
    assert message in said


def test_a_graph_that_is_not_there(tmp_path: Path) -> None:
    assert refused(ppr("--graph", str(tmp_path / "no.txt"))) == f"{tmp_path}/no.txt: No such file or directory"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sources", "1,9"], "source '9' is not in the graph"),
        (["--sources", "for"], "source 'for' is not in the graph"),
        (["--sources", "1,2,1"], "source '1' is given twice"),
        (["--sources", "4,four"], "source 'four' is given twice, as '4' too"),
        (["--sources", "1,,2"], "argument --sources: an empty item in '1,,2'"),
        (["--sources"], "expected one argument"),
        (["--sources=-1"], "source '-1' is not in the graph"),
        (["--count", "5"], "--count 5: the graph has only 4 nodes"),
        (["--count", "0"], "0 is less than 1"),
        (["--count", "two"], "invalid"),
        (["--alpha", "0"], "0 is not between 0 and 1"),
        (["--alpha", "nan"], "nan is not between 0 and 1"),
        (["--tolerance", "-1"], "-1 is not a positive number"),
        (["--max-iterations", "0"], "0 is less than 1"),
        (["--engine", "torch-ppr"], "needs --undirected"),
        (["--engine", "cg"], "needs --undirected"),
        (["--sources", "1", "--count", "2"], "not allowed with"),
        (["--what"], "unrecognized arguments: --what"),
    ],
)
def test_bad_arguments(graph: str, arguments: list[str], message: str) -> None:
    assert message in refused(ppr("--graph", graph, *arguments))


def test_no_graph_given() -> None:
    assert "required: --graph" in refused(ppr())


def test_the_first_nodes_are_those_of_the_smallest_ids(graph: str) -> None:
    run = ppr("--graph", graph, "--count=3", "--top=2")
    assert [source["id"] for source in run.answer["sources"]] == [1, 2, 3]
    assert {len(source["top"]) for source in run.answer["sources"]} == {2}
    assert (run.answer["nodes"], run.answer["edges"]) == (4, 4)


def test_the_answer_of_a_small_graph(graph: str) -> None:
    run = ppr("--graph", graph, "--sources=four,2", "--alpha=0.5", "--tolerance=1e-14")
    dangling, around = run.answer["sources"]
    assert (dangling["id"], dangling["name"], dangling["top"]) == (4, "four", [[4, 1.0]])
    scores = dict(around["top"])
    assert sum(scores.values()) == pytest.approx(1, abs=1e-12)
    assert scores[3] == pytest.approx(scores[2] / 2, abs=1e-12)
    assert scores[1] == scores[4] == pytest.approx(scores[3] / 4, abs=1e-12)
    assert "source four (4): iterations 1, residual 0.0e+00, sum 1.000000000" in run.out


def test_not_converged_is_said(graph: str) -> None:
    run = ppr("--graph", graph, "--sources=2", "--max-iterations=3")
    assert run.status == 0
    assert run.of("warning")[0]["message"].startswith("source 2 has not converged: residual ")
    assert run.answer["sources"][0]["iterations"] == 3


def test_gzip_and_crlf_give_the_same_answer(graph: str, tmp_path: Path) -> None:
    text = Path(graph).read_bytes()
    (tmp_path / "g.gz").write_bytes(gzip.compress(text.replace(b"\n", b"\r\n")))
    assert ppr("--graph", str(tmp_path / "g.gz")).answer == ppr("--graph", graph).answer


def test_undirected_follows_edges_both_ways(graph: str) -> None:
    run = ppr("--graph", graph, "--sources=4", "--undirected")
    top = [node for node, _ in run.answer["sources"][0]["top"]]
    assert (top[0], sorted(top)) == (3, [1, 2, 3, 4])


def test_imports_only_what_it_needs(graph: str) -> None:
    run = python("-c", LOADED, "--graph", graph)
    assert run.status == 0
    assert json.loads(run.err.splitlines()[-1]) == []
    assert sys.version_info >= (3, 10)
