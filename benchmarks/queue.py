"""`python -m benchmarks.queue INVENTORY`: what turns cost on a cluster where nothing else works.

Commands with a turn and with `--now`, in pairs whose order changes, of which the first is left out; then runs of
`--detach`: seconds until a command returns, and between the last line of a run and the first of the next one.
"""

import argparse
import itertools
import json
import os
import re
import secrets
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import machine, shell

NOTHING = "import time\nprint('at', time.time(), flush=True)\n"
CASES = {
    "torchrun of nothing": ("torchrun", "--workers=4", "nothing.py"),
    "PageRank under torch": ("run", "ppr", "--framework=torch", "--workers=4"),
}
POLL_SECONDS = 0.5


def typed(folder: Path, *words: str) -> shell.Done:
    """A command of Regatta. Raises BenchError where it fails."""
    return shell.run(("regatta", *words), cwd=folder)


def pairs(words: Sequence[str], folder: Path, count: int) -> list[tuple[float, float]]:
    """Seconds with a turn, and with `--now`."""
    made = []
    kinds: list[tuple[str, ...]] = [(), ("--now",)]
    orders = ((0, 1), (1, 0))
    for number in range(count + 1):
        taken = {kind: typed(folder, *words[:-1], *kinds[kind], words[-1]).seconds for kind in orders[number % 2]}
        made.append((taken[0], taken[1]))
    return made[1:]


def detached(folder: Path, count: int) -> tuple[list[float], list[float]]:
    """Seconds of each command, and of each gap between two runs."""
    mark = secrets.token_hex(2)
    names = [f"queued-{mark}-{number}" for number in range(count)]
    words = ("torchrun", "--workers=4", "--detach")
    took = [typed(folder, *words, f"--name={name}", "nothing.py").seconds for name in names]
    while json.loads(typed(folder, "queue", "--json").output)["entries"]:
        time.sleep(POLL_SECONDS)
    logs = [typed(folder, "logs", name).output for name in names]
    times = [[float(one) for one in re.findall(r"at ([\d.]+)", log)] for log in logs]
    return took, [min(later) - max(earlier) for earlier, later in itertools.pairwise(times)]


def said(text: str, seconds: Sequence[float]) -> str:
    """A line of results."""
    return f"{text}: {statistics.median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f}; {len(seconds)})"


def main() -> None:
    """Run with the arguments of the process."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.queue", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("inventory", type=Path)
    parser.add_argument("--pairs", type=int, default=16)
    parser.add_argument("--runs", type=int, default=10)
    given = parser.parse_args()
    here = machine.describe()
    print(here)
    os.environ["REGATTA_INVENTORY"] = str(given.inventory.resolve())
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else each start compiles all modules, which no user's does
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "project")
        folder.mkdir()
        os.environ["REGATTA_RESULTS"] = str(Path(name, "results"))
        (folder / "nothing.py").write_text(NOTHING)
        for case, words in CASES.items():
            found = pairs(words, folder, given.pairs)
            print(said(f"{case}, with a turn", [one for one, _ in found]))
            print(said("  more than with --now", [one - other for one, other in found]), flush=True)
        took, gaps = detached(folder, given.runs)
        print(said("--detach returns after", took))
        print(said("from the end of a run to the next", gaps))


if __name__ == "__main__":
    main()
