"""PageRank by Spark: blocks and their steps by themselves, and whole programs over a real Spark of this machine."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from launching import Ended, ppr
from sparkhere import unpacked

from workloads.common import threads
from workloads.ppr import blocks, power, sparkblocks, sparkwalk
from workloads.ppr import graph as graphs
from workloads.ppr.graph import Graph
from workloads.ppr.sparkblocks import Block

SOURCES = "--sources=s0,17,3,999999,42"


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Several chunks of rows; nodes without edges out, some that nothing leads to, an edge twice, one to itself."""
    rng = np.random.default_rng(8)
    edges = np.stack((rng.integers(0, 30_000, 150_000), rng.integers(0, 40_000, 150_000)))
    path = tmp_path_factory.mktemp("graph") / "g.txt"
    lines = "".join(f"{a}\t{b}\n" for a, b in edges.T.tolist())
    path.write_text(f"# node 0 s0\n# node 3 drei\n# node 999999 alone\n17 42\n17 42\n42 42\n0 1\n{lines}")
    return path


class InTurn:
    """Walks over blocks in this process: what they send to each other goes through a dict."""

    def __init__(self, graph: Graph, parts: int, width: int, alpha: float) -> None:
        layout = blocks.Layout(graph.cuts, parts)
        graph, (indptr, columns) = layout.applied(graph), (graph.indptr, graph.columns)
        drafts = [
            (number, blocks.block_of(number, layout, *layout.rows(number, indptr, columns), graph.degrees))
            for number in range(parts)
        ]
        wanted = [one for draft in drafts for one in sparkblocks._wanted(draft)]
        self.blocks: list[Block] = [block for _, block in sparkblocks._joined(iter([*drafts, *wanted]))]
        self.width, self.numbers = width, graph.numbers
        self._graph, self._alpha = graph, alpha
        self._homes, self._flow = np.full(width, -1), power.Flow(width, alpha)
        self._changes: list[tuple[int, int, int]] = []
        self._moved: list[sparkwalk.Moved] = []

    def begin(self, column: int, home: int) -> None:
        degree = int(self._graph.degrees[home])
        bits = graphs.kernels.short(1.0 / max(degree, 1))
        self._homes[column] = home
        self._flow.begin(column, graphs.kernels.long(bits) * max(degree, 1), dangling=not degree)
        self._changes.append((column, home, bits))

    def end(self, column: int) -> None:
        self._homes[column] = -1
        self._flow.end(column)
        self._changes.append((column, -1, 0))

    def step(self) -> list[float]:
        flow = (self._flow.returned(), self._flow.lacking())
        stride = sparkwalk.Stride(tuple(self._changes), self._homes.copy(), *flow, self._alpha)
        sent = [pair for done in self._moved for pair in sparkwalk._sent(done)]
        records: list[tuple[int, Any]] = [(block.number, block) for block in self.blocks] + sent
        self._moved, self._changes = list(sparkwalk._step(stride, self.width, None, records)), []
        return self._flow.take(np.concatenate([done.sums for done in self._moved]))

    def scores(self, column: int, _position: int) -> Any:
        state = np.concatenate([done.state for done in self._moved])
        return self._flow.scores(state, column)[self._graph.numbers]


@pytest.mark.parametrize("undirected", [False, True])
@pytest.mark.parametrize("parts", [1, 2, 5])
def test_blocks_walk_as_one_graph_does(graph: Path, undirected: bool, parts: int) -> None:
    whole = graphs.build(graph, undirected)
    sources = np.array([0, 17, 3, 42, whole.nodes - 1])
    wanted = dict(power.solve(whole, sources, 0.2, 1e-9, 100))
    walk = InTurn(whole, parts, 2, 0.2)
    assert [block.number for block in walk.blocks] == list(range(parts))
    assert sum(len(block.columns) for block in walk.blocks) == len(whole.columns)
    found = dict(power.walked(walk, walk.numbers[sources].tolist(), 1e-9, 100, power.quiet))
    assert found.keys() == wanted.keys()
    for place, solution in found.items():
        assert solution.iterations == wanted[place].iterations
        assert solution.scores.tolist() == wanted[place].scores.tolist()


def test_more_blocks_than_rows(tmp_path: Path) -> None:
    path = tmp_path / "g.txt"
    path.write_text("1 2\n2 1\n2 3\n")
    whole = graphs.build(path, False)
    wanted = dict(power.solve(whole, np.arange(3), 0.2, 1e-9, 100))
    walk = InTurn(whole, 4, 4, 0.2)
    found = dict(power.walked(walk, walk.numbers.tolist(), 1e-9, 100, power.quiet))
    for place, solution in found.items():
        assert solution.scores.tolist() == wanted[place].scores.tolist()


def test_another_engine_is_refused_before_spark_starts(graph: Path) -> None:
    run = ppr("--graph", str(graph), "--undirected", "--engine=cg", "--framework=spark")
    assert run.status == 2 and "--engine csr" in run.of("error")[0]["message"]


# Over a real Spark ---------------------------------------------------------------------------------------------------

whole = pytest.mark.whole
AS_PROVISIONED = ("spark.io.encryption.enabled=true",)


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Environment of a driver with its own two executors' threads, by what provisioning brings to nodes."""
    made = unpacked(tmp_path_factory.mktemp("spark"), master=f"local[2] {settings(*AS_PROVISIONED)}")
    return {**made, "SPARK_LOCAL_DIRS": str(tmp_path_factory.mktemp("local"))}


def settings(*words: str) -> str:
    return " ".join(f"--conf {word}" for word in words)


def phases(run: Ended, rank: int) -> list[str]:
    mine = [event for event in run.events if event["rank"] == rank and event["event"] != "progress"]
    return [event["name"] if event["event"] == "phase" else event["event"] for event in mine]


@whole
@pytest.mark.parametrize("way", ["co-partitioned", "plain"])
def test_the_answer_is_that_of_one_process(graph: Path, spark: dict[str, str], way: str) -> None:
    arguments = ("--graph", str(graph), SOURCES, "--alpha=0.5", "--tolerance=1e-4")
    alone = ppr(*arguments)
    run = ppr(*arguments, f"--spark-partitioning={way}", "--framework=spark", **spark)
    assert run.status == 0, run.err
    assert run.answer == alone.answer
    wanted = ["rendezvous", "ready", "load", "exchanged", "compute", "memory", "cpu", "collect", "result"]
    assert phases(run, -1) == wanted
    assert phases(run, 0) == ["memory", "cpu"]
    assert run.of("progress", -1)[-1]["done"] == 5


@whole
def test_steps_begin_again_from_what_is_gathered(tmp_path: Path, spark: dict[str, str]) -> None:
    circle = tmp_path / "circle.txt"
    circle.write_text("".join(f"{node} {(node + 1) % 500}\n" for node in range(500)))
    arguments = ("--graph", str(circle), "--count=3", "--alpha=0.3", "--tolerance=1e-7")
    alone = ppr(*arguments)
    assert alone.answer["sources"][0]["iterations"] > 2 * sparkwalk.RESTART_STEPS
    run = ppr(*arguments, "--framework=spark", **spark)
    assert run.status == 0, run.err
    assert run.answer == alone.answer


@whole
def test_words_and_both_ways(tmp_path: Path, spark: dict[str, str]) -> None:
    rng = np.random.default_rng(7)
    path = tmp_path / "my.csv.gz"
    edges = np.sort(rng.integers(0, 900, (3000, 2)), axis=0).tolist()
    text = "from;to\r\n" + "".join(f'user_{a:04d};"user; {b:04d}"\r\n' for a, b in edges)
    path.write_bytes(gzip.compress(text.encode()))
    arguments = ("--graph", str(path), "--sources=user_0100,user; 0007", "--undirected", "--alpha=0.3")
    run = ppr(*arguments, "--framework=spark", **{**spark, "REGATTA_WORKERS": "3"})
    assert run.status == 0, run.err
    assert run.answer == ppr(*arguments).answer
    assert "header `from;to`" in run.out


@whole
def test_a_prepared_folder(graph: Path, tmp_path: Path, spark: dict[str, str]) -> None:
    with threads.pool():
        graphs.build(graph, False).save(tmp_path)
    arguments = ("--graph", str(tmp_path), "--count=1", "--alpha=0.4")
    run = ppr(*arguments, "--framework=spark", **spark)
    assert run.status == 0, run.err
    assert run.answer == ppr(*arguments).answer


@whole
@pytest.mark.parametrize(
    ("text", "said"), [("", "the graph is empty"), ("1 2\n" * 50_000 + "3\n" + "1 2\n" * 9, "line 50001")]
)
def test_bad_input_is_refused_as_elsewhere(tmp_path: Path, spark: dict[str, str], text: str, said: str) -> None:
    path = tmp_path / "bad.txt"
    path.write_text(text)
    run = ppr("--graph", str(path), "--framework=spark", **spark)
    assert run.status == 2
    assert [event["message"] for event in run.of("error")] == [
        event["message"] for event in ppr("--graph", str(path)).of("error")
    ]
    assert said in run.of("error")[0]["message"] and "Traceback" not in run.err


@whole
def test_edges_are_shuffled_in_each_step_by_the_plain_way_alone(
    graph: Path, tmp_path: Path, spark: dict[str, str]
) -> None:
    sent = {}
    for way in ("co-partitioned", "plain"):
        logs = tmp_path / way
        logs.mkdir()
        names = ("enabled=true", f"dir=file://{logs}", "compress=false", "rolling.enabled=false")
        logged = settings(*(f"spark.eventLog.{name}" for name in names))
        words = spark["PYSPARK_SUBMIT_ARGS"].replace("pyspark-shell", f"{logged} pyspark-shell")
        run = ppr(
            *("--graph", str(graph), "--count=1", "--alpha=0.4", f"--spark-partitioning={way}", "--framework=spark"),
            **{**spark, "PYSPARK_SUBMIT_ARGS": words},
        )
        assert run.status == 0, run.err
        (log,) = (path for path in logs.rglob("*") if path.is_file() and not path.name.endswith(".crc"))
        ends = [one for one in map(json.loads, log.read_text().splitlines()) if one["Event"] == "SparkListenerTaskEnd"]
        sent[way] = sum(one["Task Metrics"]["Shuffle Write Metrics"]["Shuffle Bytes Written"] for one in ends)
        (told,) = run.of("overhead", -1)
        assert (told["tasks"], told["failed"], told["whole"]) == (len(ends), 0, True)
        running = sum(one["Task Metrics"]["Executor Run Time"] for one in ends) / 1000
        assert told["work"]["running"] == pytest.approx(running, abs=0.01)
        assert told["wall"]["session"] > 0 and told["wall"]["tasks"] > 0
    assert sent["plain"] > 1.5 * sent["co-partitioned"]
