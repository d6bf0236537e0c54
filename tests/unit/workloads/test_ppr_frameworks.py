"""The same program by itself, under torch and under Ray, as real processes."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import numpy as np
import pytest
from launching import PPR, Ended, ppr, python, ranks, start, torchrun

pytestmark = pytest.mark.frameworks

PARTS = str(Path(__file__).with_name("parts.py"))
SOURCES = "--sources=s0,17,3,99,42"
LAUNCHED = {"REGATTA_RUN_ID": "r"}
WANTED = [0, 17, 3, 99, 42]


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> str:
    rng = np.random.default_rng(5)
    edges = np.stack((rng.integers(0, 700, 4000), rng.integers(0, 1000, 4000)))
    path = tmp_path_factory.mktemp("graph") / "g.txt"
    path.write_text("# node 0 s0\n# node 3 drei\n" + "".join(f"{a}\t{b}\n" for a, b in edges.T))
    return str(path)


@pytest.fixture(scope="module")
def alone(graph: str) -> Ended:
    return ppr("--graph", graph, SOURCES)


def phases(run: Ended, rank: int) -> list[str]:
    """Return what a rank went through; progress comes by the clock, thus not always."""
    mine = [event for event in run.events if event["rank"] == rank and event["event"] != "progress"]
    return [event["name"] if event["event"] == "phase" else event["event"] for event in mine]


def graph_folders(scratch: Path) -> list[str]:
    return [path.name for path in scratch.iterdir() if path.is_dir()]


def test_alone(alone: Ended) -> None:
    assert (alone.status, alone.err) == (0, "")
    assert phases(alone, 0) == ["ready", "load", "compute", "memory", "cpu", "collect", "result"]
    assert [source["id"] for source in alone.answer["sources"]] == WANTED
    assert alone.answer["sources"][2]["name"] == "drei"
    assert all(len(source["top"]) == 10 and abs(source["sum"] - 1) < 1e-9 for source in alone.answer["sources"])
    assert "source s0 (0): iterations" in alone.out.partition('@regatta {"event":"result"')[2].partition("\n")[2]


def test_torchrun_by_hand(alone: Ended, graph: str, tmp_path: Path) -> None:
    run = torchrun([*PPR, "--graph", graph, SOURCES], 2, TMPDIR=str(tmp_path))
    assert run.status == 0, run.err
    assert run.answer == alone.answer
    assert phases(run, 0) == ["rendezvous", "ready", "chosen", "load", "compute", "memory", "cpu", "collect", "result"]
    assert phases(run, 1) == ["rendezvous", "ready", "load", "compute", "memory", "cpu", "collect"]
    assert run.of("chosen")[0]["value"] == "sources"
    assert not list(tmp_path.glob("regatta-*"))


def test_progress_counts_iterations(graph: str, alone: Ended) -> None:
    script = (
        "import sys; from workloads.ppr import part; from workloads.common.ranks import Ranks\n"
        "part.PROGRESS_SECONDS = 0\n"
        "own = part.Part(part.Options(sys.argv[1], (), 2, 10, 0.15, 1e-6, 1000, False, sys.argv[2]), Ranks())\n"
        "own.load(None); own.compute(); print(sum(answer['iterations'] for _, answer in own.answer()['sources']))"
    )
    for engine in ("csr", "push"):
        run = python("-c", script, graph, engine)
        told = [(event["done"], event["iterations"]) for event in run.of("progress")]
        assert told == sorted(told)
        assert told[-1][0] == 2
        counted = int(run.out.splitlines()[-1])
        assert counted / 2 <= told[-1][1] <= counted, "sources go through an iteration together, or one after another"


def test_ranks_started_by_a_launcher(alone: Ended, graph: str, tmp_path: Path) -> None:
    runs = ranks([*PPR, "--graph", graph, SOURCES], 2, REGATTA_SCRATCH=str(tmp_path), **LAUNCHED)
    assert [run.status for run in runs] == [0, 0], runs[0].err + runs[1].err
    assert runs[0].answer == alone.answer
    assert not runs[1].of("result")
    assert all(line.startswith("@regatta ") for run in runs for line in run.out.splitlines())
    assert len(graph_folders(tmp_path)) == 1
    assert all(run.of("memory")[0]["peak_bytes"] > 10 << 20 for run in runs)


def test_ray_with_more_workers_than_cores(
    alone: Ended, graph: str, tmp_path: Path, ray_cluster: dict[str, str]
) -> None:
    run = ppr(
        *("--graph", graph, SOURCES, "--framework=ray"),
        **ray_cluster,
        REGATTA_WORKERS="3",
        REGATTA_RANK_MAP=json.dumps(["127.0.0.1"] * 3),
        REGATTA_SCRATCH=str(tmp_path),
    )
    assert run.status == 0, run.err
    assert run.answer == alone.answer
    assert phases(run, -1) == ["rendezvous", "ready", "collect", "memory", "cpu", "result"]
    for rank in range(3):
        chosen = ["chosen"] if rank == 0 else []
        assert phases(run, rank) == ["ready", *chosen, "load", "compute", "memory", "cpu"]
    assert len(graph_folders(tmp_path)) == 1


def test_a_private_ray_by_hand(alone: Ended, graph: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    elsewhere = {"HOME": str(home), "XDG_CACHE_HOME": str(Path.home() / ".cache"), "TMPDIR": "/tmp"}
    run = ppr("--graph", graph, SOURCES, "--framework=ray", REGATTA_WORKERS="2", **elsewhere)
    assert run.status == 0, run.err
    assert run.answer == alone.answer
    assert not list(home.rglob("*"))


@pytest.fixture(scope="module")
def chunky(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph of several chunks of rows, with names, so large that ranks send theirs in parts."""
    rng = np.random.default_rng(6)
    edges = rng.integers(0, 120_000, (300_000, 2)) ** 2 % 1_000_003
    path = tmp_path_factory.mktemp("chunky") / "g.txt"
    path.write_text("# node 2000000 far\n" + "".join(f"{a} {b}\n" for a, b in edges.tolist()))
    path.with_suffix(".gz").write_bytes(gzip.compress(path.read_bytes()))
    return path


@pytest.mark.parametrize(
    ("world", "suffix", "way", "partition"),
    [(3, ".txt", "--undirected", "graph-overlapped"), (2, ".gz", "--top=10", "graph")],
)
def test_a_graph_spread_over_ranks(chunky: Path, world: int, suffix: str, way: str, partition: str) -> None:
    arguments = ("--sources=far,0,1,4", way, "--graph", str(chunky.with_suffix(suffix)))
    alone = ppr(*arguments)
    first, *others = ranks([*PPR, *arguments, f"--partition={partition}"], world)
    assert [run.status for run in (first, *others)] == [0] * world, first.err
    assert first.answer == alone.answer
    whole = first.answer["nodes"] * len(first.answer["sources"]) * 8
    exchanged = [one for run in (first, *others) for one in run.of("exchanged")]
    (times,) = {one["times"] for one in exchanged}
    assert len(exchanged) == world and times == max(source["iterations"] for source in first.answer["sources"])
    every = sum(one["sent_bytes"] for one in exchanged) / times
    assert 0 < every < whole * (world - 1) / 4 * 1.06  # 2 of 8 bytes where all rows are read, and the sums of chunks


def test_a_graph_spread_over_actors(alone: Ended, graph: str, ray_cluster: dict[str, str]) -> None:
    arguments = ("--graph", graph, SOURCES, "--partition=graph", "--framework=ray")
    run = ppr(*arguments, **ray_cluster, REGATTA_WORKERS="2")
    assert run.status == 0, run.err
    assert run.answer == alone.answer
    assert phases(run, -1) == ["rendezvous", "ready", "collect", "memory", "cpu", "result"]


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph whose ids are words, with a header; the words of its two halves are not the same."""
    rng = np.random.default_rng(7)
    path = tmp_path_factory.mktemp("named") / "my.csv"
    edges = np.sort(rng.integers(0, 900, (3000, 2)), axis=0).tolist()
    path.write_text("\ufefffrom;to\r\n" + "".join(f'user_{a:04d};"user; {b:04d}"\r\n' for a, b in edges))
    return path


def test_words_are_numbered_alike_by_all(named: Path, ray_cluster: dict[str, str]) -> None:
    arguments = ("--graph", str(named), "--sources=user_0100,user; 0007", "--undirected")
    alone = ppr(*arguments)
    assert alone.status == 0, alone.err
    known = sorted(set(re.findall(r"user(?:_|; )\d{4}", named.read_text())))
    for source, name in zip(alone.answer["sources"], ("user_0100", "user; 0007"), strict=True):
        assert (source["name"], known[source["id"]]) == (name, name)
        assert source["top_names"] == [known[node] for node, _ in source["top"]]
    assert f"graph: {len(known):,} names, 3,000 edges, header `from;to`" in alone.out
    assert "source user_0100: iterations" in alone.out
    for runs in (ranks([*PPR, *arguments], 2), ranks([*PPR, *arguments, "--partition=graph"], 3)):
        assert [run.status for run in runs] == [0] * len(runs), runs[0].err
        assert runs[0].answer == alone.answer
    run = ppr(*arguments, "--partition=graph", "--framework=ray", **ray_cluster, REGATTA_WORKERS="2")
    assert run.status == 0, run.err
    assert run.answer == alone.answer


def test_a_file_of_a_node_is_called_by_its_name(tmp_path: Path) -> None:
    kept = tmp_path / "data" / ("0123456789abcdef" * 4) / "my.csv"
    kept.parent.mkdir(parents=True)
    kept.write_text("a,b\nc\n")
    (error,) = ppr("--graph", str(kept)).of("error")
    assert error["message"] == "my.csv: line 2: an edge is exactly two node ids, here is 1: 'c'"


def test_bad_input_in_one_part_ends_every_rank(tmp_path: Path) -> None:
    bad = tmp_path / "bad.txt"
    bad.write_text("1 2\n" * 1000 + "3\n" + "1 2\n" * 10)
    runs = ranks([*PPR, "--graph", str(bad), "--partition=graph"], 2)
    assert [run.status for run in runs] == [2, 2], runs[0].err
    for run in runs:
        assert [error["message"] for error in run.of("error")] == [
            f"{bad}: line 1001: an edge is exactly two node ids, here is 1: '3'"
        ]


def test_torch_ppr_spread_over_more_ranks_than_sources(graph: str, tmp_path: Path) -> None:
    arguments = ("--graph", graph, "--undirected", "--sources=17,3", "--tolerance=1e-9")
    first, *others = ranks([*PPR, *arguments, "--engine=torch-ppr"], 3, TMPDIR=str(tmp_path))
    assert [run.status for run in (first, *others)] == [0, 0, 0], first.err
    for one, other in zip(first.answer["sources"], ppr(*arguments).answer["sources"], strict=True):
        assert dict(one["top"]) == pytest.approx(dict(other["top"]), abs=1e-6)
        assert one["residual"] < 1e-6
    assert [event["message"] for event in first.of("warning")] == ["3 ranks for 2 sources: 1 have nothing to do"]
    assert not any(run.of("warning") for run in others)
    assert not list(tmp_path.glob("regatta-*"))


def test_bad_input_ends_every_rank(tmp_path: Path) -> None:
    bad = tmp_path / "bad.txt"
    bad.write_text("1 2\n3\n")
    runs = ranks([*PPR, "--graph", str(bad)], 2, TMPDIR=str(tmp_path), REGATTA_PG_TIMEOUT="1000")
    for run in runs:
        assert run.status == 2
        (error,) = run.of("error")
        assert error["message"] == f"{bad}: line 2: an edge is exactly two node ids, here is 1: '3'"
        assert "Traceback" not in run.err
    assert not list(tmp_path.glob("regatta-*"))


def test_a_rank_that_never_comes(graph: str) -> None:
    environment = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    run = ppr("--graph", graph, **environment, REGATTA_PG_TIMEOUT="1")
    assert run.status not in (0, 2)
    assert not run.of("ready")


@pytest.mark.parametrize(
    ("kind", "said"),
    [("die", "rank 1 on 127.0.0.1 died"), ("raise", "rank 1 on 127.0.0.1 failed: ZeroDivisionError: oh")],
)
def test_an_actor_that_fails(kind: str, said: str, ray_cluster: dict[str, str]) -> None:
    run = python(PARTS, kind, "ray", **ray_cluster, **LAUNCHED, REGATTA_RANK_MAP='["127.0.0.1", "127.0.0.1"]')
    assert run.status == 1
    assert run.of("warning")[0]["t"] - run.of("ready", -1)[0]["t"] < 10
    assert [event["message"] for event in run.of("warning")] == [said]
    (told,) = run.of("failed")
    assert (told["of"], told["address"]) == (1, "127.0.0.1")
    assert "ZeroDivisionError" in told["words"] if kind == "raise" else "has died" in told["words"]
    assert "in compute" in run.err or kind == "die"


def test_progress_of_actors_comes_while_they_work(ray_cluster: dict[str, str]) -> None:
    with start([PARTS, "progress", "ray"], {**ray_cluster, **LAUNCHED, "REGATTA_WORKERS": "2"}) as process:
        assert process.stdout
        seen = json.loads(next(line for line in process.stdout if '"progress"' in line).removeprefix("@regatta "))
        assert (seen["rank"], seen["done"], process.poll()) == (1, 1, None)
        process.terminate()


def test_actors_refuse_input_as_ranks_do(ray_cluster: dict[str, str]) -> None:
    run = python(PARTS, "refuse", "ray", **ray_cluster, **LAUNCHED, REGATTA_WORKERS="2")
    assert run.status == 2
    assert [(event["rank"], event["message"]) for event in run.of("error")] == [(-1, "this is no input")]


def test_actors_see_threads_and_ranks_and_import_only_what_they_need(ray_cluster: dict[str, str]) -> None:
    run = python(PARTS, "look", "ray", **{**ray_cluster, "OMP_NUM_THREADS": "2"}, REGATTA_WORKERS="2")
    assert run.status == 0, run.err
    assert run.answer["parts"] == [
        {
            "threads": "2",
            "modules": [],
            "ranks": {"rank": rank, "world": 2, "local_rank": rank, "local_world": 2},
        }
        for rank in range(2)
    ]
    assert not run.of("warning")


def test_an_address_without_a_ray_node(ray_cluster: dict[str, str], graph: str) -> None:
    run = ppr("--graph", graph, "--framework=ray", **ray_cluster, REGATTA_RANK_MAP='["10.255.0.9"]')
    assert run.status == 1
    assert "no Ray node at 10.255.0.9" in run.err
