"""`.venv-node/bin/python -m benchmarks.reading --before COMMIT`: edge lists, interleaved with an earlier commit.

Edge lists of about 100 MB: numbers apart by tabs, which both commits read (seconds of the clock, of the processors, and
peak memory, as ratios of pairs whose order changes), and numbers and words apart by commas, which may be new. Each
reading is its own process with its code compiled before; what is measured is `edgelist.read` and `graph.build`.
Then what the look at such files costs on the controller.
"""

import argparse
import json
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks import machine
from regatta.paths import PROJECT
from regatta.records import stats

EDGES, IDS, NAMES = 6_500_000, 1 << 22, 200_000
READ = """
import json, resource, sys, time
from workloads.ppr import edgelist, graph
def cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
work = getattr({"read": edgelist, "build": graph}[sys.argv[2]], sys.argv[2])
words = [sys.argv[1]] + ([False] if sys.argv[2] == "build" else [])
began, used = time.perf_counter(), cpu()
found = work(*words)
taken = {"clock": time.perf_counter() - began, "processors": cpu() - used}
with open("/proc/self/status") as status:
    taken["memory"] = next(int(line.split()[1]) / 1e3 for line in status if line.startswith("VmHWM:"))
print(json.dumps(taken))
"""


def tree(commit: str, folder: Path) -> Path:
    """The workloads of a commit, and what they share with the controller, as files below `folder`."""
    archive = subprocess.run(
        ["git", "archive", commit, "workloads", "regatta_protocol"], cwd=PROJECT, capture_output=True, check=True
    ).stdout
    subprocess.run(["tar", "-x"], cwd=folder, input=archive, check=True)
    return folder


def lists(folder: Path) -> dict[str, Path]:
    """The edge lists, by what they are."""
    random = np.random.default_rng(0)
    numbers, names = random.integers(0, IDS, (EDGES, 2)), random.integers(0, NAMES, (EDGES * 2 // 3, 2))
    found = {
        "numbers, tabs": written(folder / "numbers.txt", numbers, "", "{}\t{}\n"),
        "numbers, commas, header": written(folder / "numbers.csv", numbers, "from,to\n", "{},{}\n"),
        "words, commas, header": written(folder / "words.csv", names, "from,to\n", "user_{:06d},user_{:06d}\n"),
    }
    for what, path in found.items():
        say(f"{what}: {path.stat().st_size / 1e6:.0f} MB")
    return found


def written(path: Path, edges: "np.ndarray[tuple[int, int], np.dtype[np.int64]]", header: str, line: str) -> Path:
    """Edges (m, 2) as text."""
    with path.open("w") as file:
        file.write(header)
        for start in range(0, len(edges), 100_000):
            file.write("".join(line.format(*edge) for edge in edges[start : start + 100_000].tolist()))
    return path


def taken(root: Path, path: Path, work: str) -> dict[str, float]:
    """Return what one reading takes, with the workloads below `root`."""
    words = [sys.executable, "-c", READ, str(path), work]
    said = subprocess.run(
        words, cwd=root, env={"PATH": "/usr/bin:/bin", "HOME": str(Path.home())}, capture_output=True, check=True
    ).stdout
    found: dict[str, float] = json.loads(said)
    return found


def looked_at(path: Path) -> float:
    """Seconds of the look at a file that the controller takes, as a process."""
    python = PROJECT / ".venv/bin/python"
    began = time.perf_counter()
    subprocess.run([python, "-m", "workloads.ppr.check", path], cwd=PROJECT, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


def compared(before: Path, now: Path, path: Path, work: str, pairs: int) -> str:
    """Ratios of readings now to readings before."""
    both: dict[Path, list[dict[str, float]]] = {before: [], now: []}
    for turn in range(pairs + 1):
        for root in random.Random(turn).sample((before, now), 2):
            both[root].append(taken(root, path, work))
    said = []
    for what in ("clock", "processors", "memory"):
        first, second = ([one[what] for one in both[root][1:]] for root in (before, now))
        said.append(
            f"{what} {stats.paired(first, second)} ({statistics.median(first):.3g} and {statistics.median(second):.3g})"
        )
    return "; ".join(said)


def say(text: str) -> None:
    """One line of progress."""
    print(f"bench: {text}", file=sys.stderr, flush=True)


def main(words: Sequence[str] | None = None) -> None:
    """Measure, and print a line for each figure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reading", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--before", required=True, metavar="COMMIT")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--folder", type=Path, help="keep the edge lists here")
    given = parser.parse_args(words)
    folder = given.folder or Path(tempfile.mkdtemp(prefix="regatta-bench-", dir="/var/tmp"))
    (folder / "before").mkdir(parents=True, exist_ok=True)
    try:
        before, found = tree(given.before, folder / "before"), lists(folder)
        here = machine.describe()
        print(f"{here}; seconds and MB, before and now")
        for work in ("read", "build"):
            path = found["numbers, tabs"]
            print(f"{work}, numbers, tabs: {compared(before, PROJECT, path, work, given.pairs)}", flush=True)
        for what, path in found.items():
            builds = [taken(PROJECT, path, "build") for _ in range(given.pairs)]
            looks = [looked_at(path) for _ in range(given.pairs)]
            print(
                f"{what}: build {statistics.median(one['clock'] for one in builds):.2f} s, "
                f"{statistics.median(one['memory'] for one in builds):.0f} MB; "
                f"looked at in {statistics.median(looks):.2f} s ({min(looks):.2f} to {max(looks):.2f})",
                flush=True,
            )
    finally:
        if given.folder is None:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
