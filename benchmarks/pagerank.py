"""`.venv-node/bin/python -m benchmarks.pagerank`: PageRank from anywhere, beside igraph, scipy, networkx and GAPBS.

The same question for all: R-MAT, simple edges both ways, no dangling node, damping 0.85, at most 1e-4 of L1 in the last
step (igraph's PRPACK solves to its own precision). After loading, with the same threads, interleaved; what takes more
than half a minute is measured once. `--gapbs FILE` is its program `pr`, built by hand; its scores are of 32 bits.
`--inventory LAB` adds runs of a cluster, under each framework. Ours walks from one more node, which leads to all
others: its scores are (1 - alpha) times those from anywhere. BenchError where answers differ.
"""

import argparse
import json
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import rows, shell
from benchmarks.ppr import EDGES, IDS, LONG, MOST, say, skewed, timed, written
from benchmarks.rows import Row
from benchmarks.shell import BenchError
from workloads.common import threads
from workloads.ppr import graph, power

ALPHA, TOLERANCE = 0.15, 1e-4
NEAR = 1e-3
"""L1 distance of two answers that are the same: what a step of 1e-4 can leave is 0.85 / 0.15 times as much."""

Scores = NDArray[np.float64]
"""(n,), by id; their sum is 1."""


def simple(edges: int, ids: int) -> NDArray[np.int64]:
    """Different edges (m, 2) between two of n nodes each, the lower one first; all of 0..n-1 are in one."""
    drawn = np.sort(skewed(edges, ids), axis=1)
    kept = np.unique(drawn[drawn[:, 0] != drawn[:, 1]], axis=0)
    return np.unique(kept, return_inverse=True)[1].reshape(-1, 2)


class Engines:
    """Each solves the graph of `edges`, whose nodes are 0..n-1."""

    def __init__(self, edges: NDArray[np.int64], folder: Path) -> None:
        self.edges, self.nodes = edges, int(edges.max()) + 1
        hub = np.stack((np.full(self.nodes, self.nodes), np.arange(self.nodes)), axis=1)
        self.file = written(folder / "from-anywhere.txt", np.concatenate((edges, edges[:, ::-1], hub)))
        self.once = written(folder / "once.el", edges)

    def ours(self) -> Callable[[], Scores]:
        """Ours, on the graph with one more node."""
        built = graph.build(self.file, undirected=False)
        power.prepare(1)
        home = np.array([built.find(str(self.nodes))])

        def solve() -> Scores:
            ((_, found),) = power.solve(built, home, ALPHA, TOLERANCE * (1 - ALPHA), MOST)
            return found.scores[: self.nodes] / (1 - ALPHA)

        return solve

    def scipy(self) -> Callable[[], Scores]:
        """Power iteration with scipy's CSR, by the same stopping rule."""
        from scipy.sparse import csr_matrix

        both = np.concatenate((self.edges, self.edges[:, ::-1]))
        degrees = np.bincount(both[:, 0], minlength=self.nodes)
        matrix = csr_matrix((1.0 / degrees[both[:, 0]], (both[:, 1], both[:, 0])), shape=(self.nodes, self.nodes))

        def solve() -> Scores:
            x = np.full(self.nodes, 1.0 / self.nodes)
            for _ in range(MOST):
                before, x = x, (1 - ALPHA) * (matrix @ x) + ALPHA / self.nodes
                if np.abs(x - before).sum() <= TOLERANCE:
                    break
            return x

        return solve

    def igraph(self) -> Callable[[], Scores]:
        """igraph's PRPACK."""
        import igraph as library

        made = library.Graph(n=self.nodes, edges=self.edges)
        return lambda: np.array(made.pagerank(damping=1 - ALPHA, implementation="prpack"))

    def networkx(self) -> Callable[[], Scores]:
        """networkx, which makes a matrix of its graph each time."""
        import networkx as library

        made = library.from_edgelist(self.edges.tolist())

        def solve() -> Scores:  # its tolerance is for the mean of all nodes
            found = library.pagerank(made, 1 - ALPHA, max_iter=MOST, tol=TOLERANCE / self.nodes)
            return np.array([found[node] for node in range(self.nodes)])

        return solve

    def gapbs(self, program: Path, repeats: int, best: Scores) -> list[float]:
        """Its own times; it tells only the highest scores, which are looked at beside these."""
        words = [program, "-s", "-f", self.once, "-t", str(TOLERANCE), "-i", str(MOST), "-n", str(repeats), "-a"]
        said = shell.run(words, env={"OMP_NUM_THREADS": str(threads.count())}).output
        top = {int(node): float(score) for node, score in re.findall(r"^(\d+):([0-9.e-]+)$", said, re.M)}
        wrong = {node: score for node, score in top.items() if abs(score - best[node]) > NEAR * best[node]}
        if not top or wrong:
            raise BenchError(f"GAPBS has other scores: {wrong}\n{shell.last_lines(said)}")
        return [float(taken) for taken in re.findall(r"Trial Time:\s+([0-9.]+)", said)]


def of_cluster(engines: Engines, inventory: str, workers: int, repeats: int) -> dict[str, list[float]]:
    """Seconds of the inner loop, by framework; runs of one comparison have equal answers."""
    words = ["run-ppr", "--graph", engines.file, "--sources", str(engines.nodes), "--alpha", str(ALPHA)]
    words += ["--tolerance", str(TOLERANCE * (1 - ALPHA)), "--framework", "single,torch,ray,spark"]
    words += ["--workers", str(workers), "--repeats", str(repeats), "--inventory", inventory]
    with tempfile.TemporaryDirectory(prefix="regatta-bench-") as folder:
        shell.run([shell.FAB, *words], env={"REGATTA_RESULTS": folder}, limit=7200)
        records: list[dict[str, Any]] = [json.loads(path.read_text()) for path in Path(folder).glob("*.json")]
    taken: dict[str, list[float]] = {}
    for record in records:
        name = record["identity"]["framework"]
        where = "one process of one host" if name == "single" else f"{name}, {workers} ranks"
        taken.setdefault(f"ours, {where}", []).append(record["phases"]["compute"])
    return taken


def measured(engines: Engines, repeats: int, gapbs: Path | None, names: list[str]) -> dict[str, list[float]]:
    """Seconds of each on this machine."""
    solvers = {name: getattr(engines, name)() for name in ("ours", *names)}
    taken: dict[str, list[float]] = {name: [] for name in solvers}
    answers: dict[str, Scores] = {}

    def solve(name: str) -> None:
        answers[name] = solvers[name]()

    for repeat in range(repeats):
        for name in solvers:
            if max(taken[name], default=0.0) < LONG:
                say(f"{repeat + 1}/{repeats}: {name}")
                taken[name].append(timed(lambda name=name: solve(name)))  # type: ignore[misc]
    best = answers["ours"]
    for name, scores in answers.items():
        if (far := float(np.abs(scores - best).sum())) > NEAR:
            raise BenchError(f"{name} has another answer: L1 {far:.1e} from ours")
    if gapbs:
        say("GAPBS")
        taken["GAPBS, scores of 32 bits"] = engines.gapbs(gapbs, repeats, best)
    return taken


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pagerank", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--edges", type=int, default=EDGES)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--engines", default="scipy,igraph,networkx", help="default %(default)s")
    parser.add_argument("--gapbs", type=Path, help="its program pr")
    parser.add_argument("--inventory", help="a cluster that solves it too")
    parser.add_argument("--workers", type=int, default=4, help="its ranks; default %(default)s")
    given = parser.parse_args()
    names = [name for name in given.engines.split(",") if name]
    with tempfile.TemporaryDirectory(prefix="regatta-bench-", dir="/var/tmp") as folder:
        engines = Engines(simple(given.edges, IDS * given.edges // EDGES), Path(folder))
        about = f"{len(engines.edges):,} edges both ways, {engines.nodes:,} nodes"
        taken = measured(engines, given.repeats, given.gapbs, names)
        if given.inventory:
            taken |= of_cluster(engines, given.inventory, given.workers, given.repeats)
    say(about)
    rows.publish("pagerank", [Row(name, them, taken["ours"], "-", None) for name, them in taken.items()])


if __name__ == "__main__":
    main()
