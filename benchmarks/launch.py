"""`.venv-node/bin/python -m benchmarks.launch TREE TREE`: CPU seconds of a rank that has little to do, in two trees.

Ranks begin as the launcher `env` begins them, on this machine. The trees take turns; the first turn is left out.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import machine
from benchmarks.part_cores import free_port

DIGITS = ("workloads.digits", "--data=generated", "--size=600", "--epochs=1")
CASES = {
    "PageRank, one rank": (1, ("workloads.ppr", "--undirected")),
    "PageRank, two ranks": (2, ("workloads.ppr", "--undirected")),
    "digits, one rank": (1, DIGITS),
    "digits, two ranks": (2, DIGITS),
}


def boot(tree: Path, folder: Path) -> Path:
    """What Python of a rank begins with."""
    folder.mkdir()
    shutil.copy(tree / "regatta/node/sitecustomize_rank.py", folder / "sitecustomize.py")
    shutil.copy(tree / "regatta/node/imports.py", folder / "regatta_imports.py")
    return folder


def cpu_seconds(tree: Path, begins: Path, world: int, words: tuple[str, ...]) -> float:
    """User and system, of each of so many ranks on average. Raises SystemExit where one fails."""
    shared = {"WORLD_SIZE": world, "LOCAL_WORLD_SIZE": 1, "LOCAL_RANK": 0, "MASTER_PORT": free_port()}
    shared |= {"MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": 1, "REGATTA_PG_TIMEOUT": 60, "PYTHONPATH": begins}
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = os.times()
    ranks = [
        subprocess.Popen(
            [sys.executable, "-m", *words, "--framework=torch"],
            cwd=tree,
            env=env | {name: str(value) for name, value in {**shared, "RANK": rank}.items()},
            stdout=subprocess.DEVNULL,
        )
        for rank in range(world)
    ]
    if sum(rank.wait() != 0 for rank in ranks):
        raise SystemExit(f"{' '.join(words)} failed in {tree}")
    after = os.times()
    return (sum(after[2:4]) - sum(before[2:4])) / world


def main() -> None:
    """Run with the arguments of the process."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.launch", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("trees", nargs=2, type=lambda text: Path(text).resolve(), metavar="TREE")
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--only", choices=CASES, nargs="*", default=list(CASES))
    given = parser.parse_args()
    here = machine.describe()
    print(f"{here.cpu}, {here.cores} core(s), load {here.load:.2f}, {here.date}")
    with tempfile.TemporaryDirectory() as name:
        graph = Path(name, "graph.txt")
        graph.write_text("1 2\n2 3\n3 1\n3 4\n")
        begins = [boot(tree, Path(name, f"boot{number}")) for number, tree in enumerate(given.trees)]
        for case in given.only:
            world, words = CASES[case]
            if "workloads.ppr" in words:
                words = (*words, f"--graph={graph}")
            turns = []
            for number in range(given.pairs + 1):
                taken = {}
                for side in (0, 1) if number % 2 else (1, 0):
                    taken[side] = cpu_seconds(given.trees[side], begins[side], world, words)
                turns.append((taken[0], taken[1]))
            first, second = (statistics.median(turn[side] for turn in turns[1:]) for side in (0, 1))
            shares = sorted(b / a for a, b in turns[1:])
            print(
                f"{case}: {first:.2f} s, {second:.2f} s; second / first {statistics.median(shares):.2f} "
                f"({shares[0]:.2f} to {shares[-1]:.2f})",
                flush=True,
            )


if __name__ == "__main__":
    main()
