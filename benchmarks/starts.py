"""`python -m benchmarks.starts CHECKOUT=INVENTORY CHECKOUT=INVENTORY`: what a run costs in two checkouts, interleaved.

Each checkout has its `.venv` and a cluster that it provisioned. Each case is run in pairs whose order changes, of which
the first is left out: `sync` and `total` as the records say, and `wall`, the command from its start to its end.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import machine, shell

TASK = "import ray\nray.init()\n@ray.remote\ndef one(): return 1\nprint(ray.get([one.remote() for _ in range(3)]))\n"
CASES = {
    "one rank of nothing": ("torchrun", "--workers=1", "nothing.py"),
    "three ranks of nothing": ("torchrun", "--workers=3", "nothing.py"),
    "three tasks under Ray": ("rayrun", "--workers=3", "task.py"),
    "PageRank under torch": ("run-ppr", "--framework=torch", "--workers=3"),
    "PageRank under Ray": ("run-ppr", "--framework=ray", "--workers=3"),
}


def one(checkout: Path, inventory: Path, words: tuple[str, ...], folder: Path) -> dict[str, float]:
    """Seconds of one run. Raises BenchError where it fails."""
    results = Path(tempfile.mkdtemp(dir=folder.parent))
    env = os.environ | {"REGATTA_RESULTS": str(results), "REGATTA_INVENTORY": str(inventory)}
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # else each start compiles all modules, which no user's does
    began = time.monotonic()
    shell.run((checkout / ".venv/bin/regatta", *words), cwd=folder, env=env)
    wall = time.monotonic() - began
    (record,) = results.glob("*.json")
    phases = json.loads(record.read_text())["phases"]
    return {"sync": phases["sync"], "total": phases["total"], "wall": wall}


def main() -> None:
    """Run with the arguments of the process."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.starts", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("sides", nargs=2, metavar="CHECKOUT=INVENTORY")
    parser.add_argument("--pairs", type=int, default=16)
    parser.add_argument("--only", choices=CASES, nargs="*", default=list(CASES))
    given = parser.parse_args()
    sides = [tuple(Path(part).resolve() for part in side.split("=")) for side in given.sides]
    here = machine.describe()
    print(f"{here}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "project")
        folder.mkdir()
        (folder / "nothing.py").write_text("")
        (folder / "task.py").write_text(TASK)
        for case in given.only:
            pairs = []
            for number in range(given.pairs + 1):
                order = (0, 1) if number % 2 else (1, 0)
                taken = {side: one(*sides[side], CASES[case], folder) for side in order}
                print(f"{case}: {taken[0]['total']:.2f} s, {taken[1]['total']:.2f} s", file=sys.stderr, flush=True)
                pairs.append((taken[0], taken[1]))
            for what in pairs[0][0]:
                first, second = ([pair[side][what] for pair in pairs[1:]] for side in (0, 1))
                more = sorted(b - a for a, b in zip(first, second, strict=True))
                print(
                    f"{case}, {what}: {statistics.median(first):.2f} s, {statistics.median(second):.2f} s; "
                    f"more in the second: {statistics.median(more):.2f} s ({more[0]:.2f} to {more[-1]:.2f})"
                )


if __name__ == "__main__":
    main()
