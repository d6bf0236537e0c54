"""`.venv-node/bin/python -m benchmarks.ppr`: Personalised PageRank on this machine, compared with what others use.

Two graphs of 7 million edges, both ways: `uniform`, between 4.2 million ids at random (no order of the nodes can help),
and `rmat`, where few nodes have most of the edges, as in nature. Times are of the whole machine, medians of --repeats,
interleaved; what takes more than half a minute is measured once (20 minutes in all with igraph). `--only twitter` has a
graph of the size of twitter-2010 (16 GB of memory, 7 GB of disk below --folder).
"""

import argparse
import gc
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from benchmarks import rows
from benchmarks.rows import Row, faster, within
from benchmarks.said import events
from regatta.paths import PROJECT
from workloads.common import threads
from workloads.ppr import cg, graph, power, rmat
from workloads.ppr.generate import lines
from workloads.ppr.graph import Graph

EDGES = 7_000_000
IDS = 1 << 22
ALPHA, TOLERANCE, MOST = 0.05, 1e-4, 1000
SPARSE_EDGES, SPARSE_IDS = 100_000, 41_600_000
LIST_BYTES = 100_000_000
TWITTER_SECONDS, TWITTER_BYTES, TWITTER_BYTES_A_PROCESS = 250.0, 14e9, 8e9
TWITTER_ITERATIONS = 20
LONG = 30.0
"""Seconds; a longer measurement is done once."""


def uniform(edges: int, ids: int) -> NDArray[np.int64]:
    """Edges (m, 2) between ids at random."""
    return np.random.default_rng(0).integers(0, ids, (edges, 2))


def skewed(edges: int, ids: int) -> NDArray[np.int64]:
    """Edges (m, 2) of R-MAT."""
    return np.concatenate(list(rmat.Edges(ids, edges, 0))).reshape(-1, 2).astype(np.int64)


def written(path: Path, edges: NDArray[np.int64]) -> Path:
    """An edge list as a file."""
    path.write_bytes(lines(edges[:, 0], edges[:, 1], len(str(edges.max()))))
    return path


def timed(work: Callable[[], Any]) -> float:
    """Seconds that it takes, without a collection of garbage in between."""
    gc.collect()
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


@njit(nogil=True)
def _gather(columns, first, last, z):  # type: ignore[no-untyped-def]
    a = b = c = d = 0.0
    for edge in range(first, last):
        u = columns[edge]
        a += z[u, 0]
        b += z[u, 1]
        c += z[u, 2]
        d += z[u, 3]
    return a + b + c + d


class Bench:
    """Measures in its own folder."""

    def __init__(self, folder: Path, repeats: int) -> None:
        self.folder, self.repeats = folder, repeats

    def engines(self) -> list[Row]:
        """7 million edges, 4 sources, undirected, after loading: ours compared with the libraries."""
        return [row for name, make in (("uniform", uniform), ("rmat", skewed)) for row in self._engines(name, make)]

    def _engines(self, name: str, make: Callable[[int, int], NDArray[np.int64]]) -> list[Row]:
        path = written(self.folder / f"{name}.txt", make(EDGES, IDS))
        built = graph.build(path, undirected=True)
        by_degree = np.argsort(-built.degrees[built.numbers].astype(np.int64), kind="stable")
        sources = by_degree[[0, 10, 1000, 100_000]]
        for engine in (power, cg):
            engine.prepare(4)
        iterate, published = torch_ppr(built, sources)
        passes: dict[str, int] = {}
        others: dict[str, Callable[[], Any]] = {
            "torch-ppr": lambda: iterate(passes["csr"]),
            "scipy": scipy(built, sources),
            "igraph": igraph(built, sources),
        }
        taken: dict[str, list[float]] = {key: [] for key in ("csr", "cg", "bound", *others)}

        def ours(key: str, engine: ModuleType) -> None:
            found = dict(engine.solve(built, sources, ALPHA, TOLERANCE, MOST))
            passes[key] = max(solution.iterations for solution in found.values())

        for repeat in range(self.repeats):
            for key, engine in (("csr", power), ("cg", cg)):
                taken[key].append(timed(lambda key=key, engine=engine: ours(key, engine)))  # type: ignore[misc]
            taken["bound"].append(gather_bound(built) * passes["csr"])
            for key, other in others.items():
                if max(taken[key], default=0) < LONG:
                    say(f"{name} {repeat + 1}/{self.repeats}: {key}")
                    taken[key].append(timed(other))
        graph_of = f"PPR, {name}, 7 million edges both ways, {built.nodes:,} nodes, 4 sources"
        what = {key: f"{graph_of}, {key}, {passes[key]} iterations" for key in ("csr", "cg")}
        times = {"torch-ppr": 40, "scipy": 4, "igraph": 25}
        names = {"torch-ppr": f"torch-ppr, {passes['csr']} iterations"}
        found = [
            faster(f"{what[ours]}: compared with {key}", taken[ours], taken[key], names.get(key, key), times[key])
            for key in others
            for ours in ("csr", "cg")
        ]
        say(f"{name}: from the edge list, and torch-ppr by its own rule from edges in memory")
        whole = [timed(lambda: dict(cg.solve(graph.build(path, True), sources, ALPHA, TOLERANCE, MOST)))]
        text = f"{what['cg']}: from the edge list on disk, compared with torch-ppr as published from edges in memory"
        found.append(faster(text, whole, [timed(published)], "torch-ppr", 40))
        ratio = float(np.median(taken["csr"]) / np.median(taken["bound"]))
        target = f"1.5 times the gathers: {ratio:.2f} times"
        return [
            *found,
            Row(f"{what['csr']}: with its gathers", taken["csr"], taken["bound"], target, ratio <= 1.5),
        ]

    def process(self) -> list[Row]:
        """100,000 edges with ids to 41.6 million, as a whole process, compared with the naive program in two."""
        path = str(written(self.folder / "sparse.txt", uniform(SPARSE_EDGES, SPARSE_IDS)))
        sources = ",".join(str(node) for node in graph.build(path, True).ids[:4])
        ours, peaks = [], []
        words = [sys.executable, "-m", "workloads.ppr", "--graph", path, "--sources", sources, "--undirected"]
        for _ in range(self.repeats + 1):
            began = time.perf_counter()
            said = subprocess.run(
                [*words, "--tolerance=1e-4"], cwd=PROJECT, capture_output=True, text=True, check=True
            ).stdout
            ours.append(time.perf_counter() - began)
            peaks.append(events(said, "memory")[0]["peak_bytes"])
        say("the naive program in two processes, about two minutes")
        naive = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
        taken = timed(
            lambda: subprocess.run(
                [*naive, "-m", "benchmarks.naive_ppr", path, sources], cwd=PROJECT, capture_output=True, check=True
            )
        )
        what = "PPR as a process, 100,000 edges, ids to 41.6 million"
        peak = max(peaks) / 1e6
        return [
            faster(what, ours[1:], [taken], "the naive program", 60),
            Row(f"{what}: peak memory {peak:.0f} MB", ours[1:], (), "400 MB", peak <= 400),
        ]

    def load(self) -> list[Row]:
        """An edge list of 100 MB to CSR, parsed and from the cache."""
        path = written(self.folder / "list.txt", uniform(LIST_BYTES * 7 // 108, IDS))
        words = [sys.executable, "-m", "workloads.ppr", "--graph", str(path), "--count=1", "--tolerance=1", "--cache"]
        cold, cached = [], []
        for _ in range(self.repeats):
            with tempfile.TemporaryDirectory(dir=self.folder) as cache:
                for samples in (cold, cached):
                    said = subprocess.run(
                        words,
                        cwd=PROJECT,
                        env={**os.environ, "REGATTA_PREPARED": cache},
                        capture_output=True,
                        text=True,
                        check=True,
                    ).stdout
                    samples.append(next(one["seconds"] for one in events(said, "phase") if one["name"] == "load"))
        built = [timed(lambda: graph.build(path, False)) for _ in range(self.repeats)]
        size = path.stat().st_size / 1e6
        return [
            within(f"edge list of {size:.0f} MB to CSR", built, 1.3),
            within(f"edge list of {size:.0f} MB to CSR and into the cache, in a new process", cold, 1.3),
            within("the same from the cache", cached, 0.1),
        ]

    def twitter(self) -> list[Row]:
        """20 iterations for 4 sources on 1.468 billion edges, in one process and over two by rows."""
        folder = self.folder / "twitter"
        if not folder.exists():
            say("making the graph")
            subprocess.run([sys.executable, "-m", "workloads.ppr.rmat", str(folder)], cwd=PROJECT, check=True)
        words = ["-m", "workloads.ppr", "--graph", str(folder), "--tolerance=1e-300"]
        words += [f"--max-iterations={TWITTER_ITERATIONS}"]
        two = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
        found = []
        for what, launcher, limit in (
            ("one process", [], TWITTER_BYTES),
            ("by rows over two processes", two, TWITTER_BYTES_A_PROCESS),
        ):
            say(f"twitter, {what}")
            partition = ["--partition=graph"] if launcher else []
            environment = {**os.environ, **({"OMP_NUM_THREADS": "1", "REGATTA_PG_TIMEOUT": "600"} if launcher else {})}
            done = subprocess.run(
                [sys.executable, *launcher, *words, *partition],
                cwd=PROJECT,
                env=environment,
                capture_output=True,
                text=True,
                check=True,
            )
            taken = max(one["seconds"] for one in events(done.stdout, "phase") if one["name"] == "compute")
            peak = max(one["peak_bytes"] for one in events(done.stdout, "memory"))
            text = f"1.468 billion edges, 4 sources, 20 iterations, {what}, peak memory {peak / 1e9:.1f} GB"
            target = f"{TWITTER_SECONDS:g} s and {limit / 1e9:g} GB a process"
            found.append(Row(text, [taken], (), target, taken <= TWITTER_SECONDS and peak <= limit))
        return found


def gather_bound(built: Graph) -> float:
    """Seconds in which the same threads only read the same scores in the same order, once."""
    z = np.ones((built.nodes, 4))
    cuts = np.linspace(0, len(built.columns), 4 * threads.count() + 1).astype(int).tolist()
    _gather(built.columns, 0, 1, z)
    with ThreadPoolExecutor(threads.count()) as pool:

        def all_of_it() -> None:
            list(pool.map(lambda first, last: _gather(built.columns, first, last, z), cuts[:-1], cuts[1:]))

        return min(timed(all_of_it) for _ in range(3))


def torch_ppr(built: Graph, sources: NDArray[np.int64]) -> tuple[Callable[[int], Any], Callable[[], Any]]:
    """torch-ppr on compact ids in its own float32: so many iterations with a matrix that is there; and as published,
    from edges in memory until no score changes by more than our tolerance, which is a looser rule than ours.
    """
    import torch
    from torch_ppr.utils import batched_personalized_page_rank, prepare_page_rank_adjacency

    torch.set_num_threads(threads.count())
    targets = np.repeat(np.arange(built.nodes), np.diff(built.indptr))
    steps = torch.from_numpy(np.stack((built.columns.astype(np.int64), targets)))
    homes = torch.from_numpy(built.numbers[sources].astype(np.int64))
    matrix = prepare_page_rank_adjacency(edge_index=steps, num_nodes=built.nodes)
    options = {"indices": homes, "device": torch.device("cpu"), "batch_size": 4, "alpha": ALPHA}

    def published() -> None:
        made = prepare_page_rank_adjacency(edge_index=steps, num_nodes=built.nodes)
        batched_personalized_page_rank(adj=made, epsilon=TOLERANCE, **options)

    return lambda most: batched_personalized_page_rank(adj=matrix, epsilon=0.0, max_iter=most, **options), published


def scipy(built: Graph, sources: NDArray[np.int64]) -> Callable[[], Any]:
    """Power iteration with scipy's CSR, by our stopping rule."""
    from scipy.sparse import csr_matrix

    weights = 1.0 / built.degrees[built.columns]
    matrix = csr_matrix((weights, built.columns.astype(np.int32), built.indptr), shape=(built.nodes, built.nodes))
    homes = built.numbers[sources]

    def solve() -> None:
        x = np.zeros((built.nodes, len(homes)))
        x[homes, np.arange(len(homes))] = 1.0
        for _ in range(MOST):
            moved = (1 - ALPHA) * (matrix @ x)
            moved[homes, np.arange(len(homes))] += ALPHA
            residual = np.abs(moved - x).sum(axis=0).max()
            x = moved
            if residual <= TOLERANCE:
                break

    return solve


def igraph(built: Graph, sources: NDArray[np.int64]) -> Callable[[], Any]:
    """igraph's PRPACK, which solves to its own precision, one source after the other."""
    import igraph as library

    targets = np.repeat(np.arange(built.nodes), np.diff(built.indptr))
    once = built.columns <= targets
    made = library.Graph(n=built.nodes, edges=np.stack((built.columns[once], targets[once]), axis=1))
    homes = built.numbers[sources].tolist()
    return lambda: [
        made.personalized_pagerank(damping=1 - ALPHA, reset_vertices=[home], implementation="prpack") for home in homes
    ]


def say(text: str) -> None:
    """One line of progress."""
    print(f"bench: {text}", file=sys.stderr, flush=True)


def main(words: Sequence[str] | None = None) -> None:
    """Measure what is asked for and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ppr", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", default="load,process,engines", help="default %(default)s; twitter too")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="keep graphs here")
    given = parser.parse_args(words)
    folder = given.folder or Path(tempfile.mkdtemp(prefix="regatta-bench-", dir="/var/tmp"))
    folder.mkdir(parents=True, exist_ok=True)
    taken: list[Row] = []
    try:
        for name in given.only.split(","):
            taken += getattr(Bench(folder, given.repeats), name)()
    finally:
        if given.folder is None:
            shutil.rmtree(folder)
    rows.publish("ppr", taken)


if __name__ == "__main__":
    main()
