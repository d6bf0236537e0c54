"""`.venv-node/bin/python -m benchmarks.rank_cpu`: CPU seconds of ranks on this machine, which also tell on a busy one.

`launch BEFORE`: of a rank that has little to do, in the tree BEFORE and this one. `load BEFORE`: of what one of four
ranks, each alone on its host, reads or draws. `exchange`: of an epoch of digits, in one process, in four side by side
that do not talk, and in four ranks. Cases take turns; the first turn of a launch is left out, as it compiles.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from benchmarks import machine
from benchmarks.part_cores import free_port
from regatta.paths import PROJECT

WORLD = 4
DIGITS = ("workloads.digits", "--data=generated", "--framework=torch")
LITTLE = (*DIGITS, "--size=600", "--epochs=1")
CASES = {
    "PageRank, one rank": (1, ("workloads.ppr", "--undirected", "--framework=torch")),
    "PageRank, two ranks": (2, ("workloads.ppr", "--undirected", "--framework=torch")),
    "digits, one rank": (1, LITTLE),
    "digits, two ranks": (2, LITTLE),
}
SCHEDULE = "batch=64, learning_rate=0.1, scale_batch=None, seed=0, checkpoint=None, checkpoint_every=0, accumulate=1"
LOADS = {
    "digits, 240,000 images, one epoch": ("digits", f"epochs=1, size=240_000, model='cnn', {SCHEDULE}"),
    "digits, 240,000 images, three epochs": ("digits", f"epochs=3, size=240_000, model='cnn', {SCHEDULE}"),
    "cifar, 50,000 pictures": (
        "cifar",
        f"epochs=1, size=50_000, model='resnet18', stem='small', weight_decay=0, norm_groups=1, {SCHEDULE}",
    ),
}
LOAD = """
import time
from workloads.common.ranks import Ranks
from workloads.{name} import part
one = part.Part(part.Options(data="generated", {options}), Ranks(1, {world}, 0, 1))
began = time.process_time()
one.load(None)
print(time.process_time() - began)
"""
IMAGES = 12_000
EPOCHS = (1, 3)


def boot(tree: Path, folder: Path) -> Path:
    """What Python of a rank begins with."""
    folder.mkdir()
    shutil.copy(tree / "regatta/node/sitecustomize_rank.py", folder / "sitecustomize.py")
    shutil.copy(tree / "regatta/node/imports.py", folder / "regatta_imports.py")
    return folder


def environment(begins: Path) -> dict[str, str]:
    """Variables of a rank, but for its number."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "OMP_NUM_THREADS": "1", "REGATTA_PG_TIMEOUT": "300", "PYTHONPATH": str(begins)}


def ranks(tree: Path, begins: Path, world: int, words: Sequence[str], groups: int = 1) -> float:
    """CPU seconds, user and system, of each rank on average, in so many groups of `world` that know nothing of each
    other, begun as the launcher `env` does. Raises SystemExit where one fails."""
    before = os.times()
    started = []
    for _ in range(groups):
        shared = {"WORLD_SIZE": world, "LOCAL_WORLD_SIZE": 1, "LOCAL_RANK": 0, "MASTER_PORT": free_port()}
        for rank in range(world):
            own = {name: str(value) for name, value in {**shared, "RANK": rank}.items()}
            env = {**environment(begins), **own, "MASTER_ADDR": "127.0.0.1"}
            command = [sys.executable, "-m", *words]
            started.append(subprocess.Popen(command, cwd=tree, env=env, stdout=subprocess.DEVNULL))
    failed = [rank for rank in started if rank.wait()]
    if failed:
        raise SystemExit(f"{' '.join(words)} failed in {tree}")
    after = os.times()
    return (sum(after[2:4]) - sum(before[2:4])) / len(started)


def printed(tree: Path, begins: Path, program: str) -> float:
    """Return the number that a program prints."""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tree, env=environment(begins), stdout=subprocess.PIPE, check=True)
    return float(done.stdout)


def pairs(case: str, sides: Sequence[Callable[[], float]], turns: int, left_out: int = 0) -> None:
    """Print the medians of two sides that take turns, and of their ratio."""
    taken = []
    for turn in range(turns + left_out):
        here = {side: sides[side]() for side in ((0, 1) if turn % 2 else (1, 0))}
        taken.append((here[0], here[1]))
    kept = taken[left_out:]
    first, second = (statistics.median(turn[side] for turn in kept) for side in (0, 1))
    ratios = sorted(after / before for before, after in kept)
    span = f"{ratios[0]:.2f} to {ratios[-1]:.2f}"
    print(f"| {case} | {first:.2f} s | {second:.2f} s | {statistics.median(ratios):.2f} ({span}) |", flush=True)


def epoch(begins: Path, images: int, world: int, groups: int) -> float:
    """CPU seconds of an epoch of each of some ranks."""
    few, more = (
        ranks(PROJECT, begins, world, (*DIGITS, f"--size={images}", "--model=cnn", f"--epochs={epochs}"), groups)
        for epochs in EPOCHS
    )
    return (more - few) / (EPOCHS[1] - EPOCHS[0])


def exchange(begins: Path, turns: int) -> None:
    """Print the medians of an epoch."""
    cases = {
        "one process, all images": (IMAGES, 1, 1),
        "one process, a quarter of them": (IMAGES // WORLD, 1, 1),
        "four such processes side by side": (IMAGES // WORLD, 1, WORLD),
        "four ranks": (IMAGES, WORLD, 1),
    }
    taken: dict[str, list[float]] = {case: [] for case in cases}
    for _ in range(turns):
        for case, how in cases.items():
            taken[case].append(epoch(begins, *how))
    for case, seconds in taken.items():
        print(f"| {case} | {statistics.median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f}) |")


def main() -> None:
    """Run with the arguments of the process."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rank_cpu", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("what", choices=("launch", "load", "exchange"))
    parser.add_argument("before", nargs="?", type=lambda text: Path(text).resolve(), default=PROJECT)
    parser.add_argument("--turns", type=int, default=6)
    given = parser.parse_args()
    here = machine.describe()
    print(here, flush=True)
    with tempfile.TemporaryDirectory() as name:
        trees = [(tree, boot(tree, Path(name, side))) for tree, side in ((given.before, "before"), (PROJECT, "now"))]
        graph = Path(name, "graph.txt")
        graph.write_text("1 2\n2 3\n3 1\n3 4\n")
        if given.what == "exchange":
            exchange(trees[1][1], given.turns)
        for case, (world, words) in CASES.items() if given.what == "launch" else ():
            more = (*words, f"--graph={graph}") if "workloads.ppr" in words else words
            pairs(case, [partial(ranks, *on, world, more) for on in trees], given.turns, left_out=1)
        for case, (workload, options) in LOADS.items() if given.what == "load" else ():
            program = LOAD.format(name=workload, options=options, world=WORLD)
            pairs(case, [partial(printed, *on, program) for on in trees], given.turns)


if __name__ == "__main__":
    main()
