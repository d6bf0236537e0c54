"""`python -m benchmarks.items --inventory inventory/NAME`: what an empty item costs under each framework of items.

Each framework spreads as many items that do nothing, one at a time, over one host and over all; from the records of
these runs: items a second while workers run, and what one costs of a worker's time. `start` is all that a run has
next to that.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks import shell
from regatta.hosts import inventories
from regatta.records.record import Record
from regatta.records.store import Store

FRAMEWORKS = ("multiprocessing", "processes", "joblib-loky", "zeromq", "dask", "mpi")
IN_RAY = ("ray", "ray-actors", "ray-pool", "joblib-ray")
MODULE = "def nothing(number):\n    return None\n"
HEADINGS = "| framework | where | workers | items | items a second | of a worker's time for each | start |"


def project(folder: Path, items: int, frameworks: Sequence[str]) -> None:
    """A project with a function that does nothing."""
    (folder / "empty.py").write_text(MODULE)
    card = f'about = "Nothing"\nfunction = "empty:nothing"\nitems = {{ range = [0, {items}] }}\n'
    (folder / "regatta.toml").write_text(f"[workloads.empty]\n{card}frameworks = {json.dumps([*frameworks])}\n")


def run(folder: Path, inventory: Path, results: Path, words: Sequence[str]) -> list[Record]:
    """The records of runs with these flags."""
    command = [Path(sys.executable).parent / "regatta", "run", "empty", f"--inventory={inventory}", *words]
    shell.run(command, cwd=folder, env={"REGATTA_RESULTS": str(results)})
    return Store(results).list().records


def row(record: Record, where: str, items: int) -> str:
    """A line of the table."""
    seconds, workers = record.phases.compute or 0.0, len([rank for rank in record.ranks if rank.rank >= 0])
    start = record.phases.total - seconds
    each = 1000 * seconds * workers / items
    return (
        f"| `{record.identity.framework}` | {where} | {workers} | {items:,} | {items / seconds:,.0f} "
        f"| {each:,.2f} ms | {start:.1f} s |"
    )


def main() -> None:
    """Run with the arguments of the process."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.items", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--inventory", type=Path, required=True)
    parser.add_argument("--items", type=int, default=3000)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--framework", default=",".join((*FRAMEWORKS, *IN_RAY)))
    given = parser.parse_args()
    frameworks, inventory = given.framework.split(","), given.inventory.resolve()
    cluster = inventories.load(str(inventory))
    places = {"one host": [f"--nodes={cluster.head.name}"], "all hosts": []}
    print(f"{HEADINGS}\n|{'---|' * 7}", flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "empty"
        folder.mkdir()
        project(folder, given.items, frameworks)
        for where, words in places.items():
            for framework in frameworks:
                own = [f"--framework={framework}", f"--workers={given.workers}", *words]
                (record,) = run(folder, inventory, Path(temporary) / f"{where} {framework}", own)
                print(row(record, where, given.items), flush=True)


if __name__ == "__main__":
    main()
