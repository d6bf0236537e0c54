"""`python -m benchmarks.second_start INVENTORY`: what packages of a project cost a start, once their layer is there.

The same small script by `regatta torchrun` on every node, with a list of packages and without one, interleaved. From
the command to its end, as a person waits; the first start of each is left out.
"""

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks import machine, shell

REGATTA = Path(sys.executable).with_name("regatta")
LIST = ("boto3", "hydra-core", "fsspec", "requests")
"""The packages that minGPT asks for, besides torch."""
LISTS = {"without": ("--no-environment",), "with packages": ()}


def seconds(folder: Path, words: tuple[str, ...], inventory: Path, workers: int) -> float:
    """Return how long one run takes. Raises BenchError where it fails."""
    command = (REGATTA, "torchrun", f"--inventory={inventory}", f"--workers={workers}", *words, "hello.py")
    return shell.run(command, cwd=folder).seconds


def main() -> None:
    """Run with the arguments of the process."""
    about = (__doc__ or "").split("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.second_start", description=about)
    parser.add_argument("inventory", type=Path)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--workers", type=int, default=3)
    given = parser.parse_args()
    inventory = given.inventory.resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "hello.py").write_text("print('hello')\n")
        (folder / "requirements.txt").write_text("".join(f"{package}\n" for package in LIST))
        taken: dict[str, list[float]] = {what: [] for what in LISTS}
        for number in range(given.pairs + 1):
            for what in LISTS if number % 2 else reversed(LISTS):
                found = seconds(folder, LISTS[what], inventory, given.workers)
                print(f"{what}: {found:.2f} s", file=sys.stderr, flush=True)
                if number:
                    taken[what].append(found)
    here = machine.describe()
    print(f"{here}")
    for what, values in taken.items():
        print(f"{what}: {statistics.median(values):.2f} s ({min(values):.2f} to {max(values):.2f})")
    more = sorted(after - before for before, after in zip(*taken.values(), strict=True))
    print(f"more with packages: {statistics.median(more):.2f} s (pairs: {more[0]:.2f} to {more[-1]:.2f})")


if __name__ == "__main__":
    main()
