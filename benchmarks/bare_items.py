"""`python -m benchmarks.bare_items`: perfect numbers under each framework of items, compared with its own bare program.

The bare programs are in `programs/bare_items.py`; both do the same chunks with as many workers on this machine, in
turns, in an order that chance decides. The time compared is `compute`, from when workers are ready until the last
result is there, and the whole command, as ratios of pairs. Packages that a framework brings are those of its layer.
"""

import argparse
import json
import random
import re
import tempfile
from pathlib import Path
from statistics import median

from benchmarks import shell
from benchmarks.items import FRAMEWORKS, IN_RAY
from regatta import paths
from regatta.hosts import inventories
from regatta.records import stats
from regatta.records.record import Record
from regatta.records.store import Store

INVENTORY = paths.PROJECT / "inventory/local"
PROGRAM = paths.PROJECT / "benchmarks/programs/bare_items.py"


def ours(framework: str, given: argparse.Namespace, results: Path) -> tuple[Record, float, str]:
    """A run by Regatta: its record, the command's seconds, and the key of its layer, or nothing."""
    words = [f"--framework={framework}", f"--workers={given.workers}", f"--below={given.below}", "--no-single"]
    done = shell.run(
        [shell.FAB, "run-perfect", *words, f"--chunk={given.chunk}"],
        env={"REGATTA_RESULTS": str(results), "REGATTA_INVENTORY": str(INVENTORY)},
    )
    (record,) = Store(results).list().records
    layer = re.search(r", layer ([0-9a-f]+)$", done.output, re.M)
    return record, done.seconds, layer[1] if layer else ""


def bare(framework: str, given: argparse.Namespace, layer: Path | None) -> tuple[float, float, list[int]]:
    """The bare program: seconds of the work and of the command, and what it found."""
    python = inventories.load(str(INVENTORY)).head.python
    words: list[str | Path] = [python, PROGRAM, framework, *map(str, (given.below, given.chunk, given.workers))]
    if framework == "mpi":
        assert layer
        start = ["--allow-run-as-root", "--oversubscribe", "-n", str(given.workers + 1)]
        words = [layer / "bin/mpirun", *start, *words]
    done = shell.run(words, env={"PYTHONPATH": str(layer or "")})
    said = json.loads([line for line in done.output.splitlines() if line.startswith("{")][-1])
    return float(said["seconds"]), done.seconds, said["found"]


def compare(framework: str, given: argparse.Namespace, folder: Path) -> str:
    """A line of the table."""
    work: dict[str, list[float]] = {"ours": [], "bare": []}
    whole: dict[str, list[float]] = {"ours": [], "bare": []}
    root = Path(inventories.load(str(INVENTORY)).head.root)
    *_, key = ours(framework, given, folder / framework / "first")
    layer = root / "layers" / key if key else None
    for number in range(given.pairs):
        for side in random.Random(number).sample(("ours", "bare"), 2):
            if side == "ours":
                record, seconds, _ = ours(framework, given, folder / framework / str(number))
                work[side].append(record.phases.compute or 0.0)
            else:
                worked, seconds, found = bare(framework, given, layer)
                work[side].append(worked)
                if found != [n for n in (6, 28, 496, 8128) if n < given.below]:
                    raise shell.BenchError(f"{framework}: the bare program found {found}")
            whole[side].append(seconds)
    cells = []
    for seconds_of in (work, whole):
        ratio = stats.paired(seconds_of["bare"], seconds_of["ours"])
        cells += [f"{median(seconds_of['bare']):.2f} s", f"{median(seconds_of['ours']):.2f} s", f"{ratio}"]
    return f"| `{framework}` | {' | '.join(cells)} |"


def main() -> None:
    """Run with the arguments of the process."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bare_items", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--below", type=int, default=10_000)
    parser.add_argument("--chunk", type=int, default=100)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--framework", default=",".join((*FRAMEWORKS, *IN_RAY)))
    given = parser.parse_args()
    print("| framework | bare: work | ours: work | ratio | bare: command | ours: command | ratio |")
    print(f"|{'---|' * 7}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for framework in given.framework.split(","):
            print(compare(framework, given, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
