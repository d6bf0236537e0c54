"""python -m benchmarks.outputs INVENTORY RUN: outputs that come back, compared with rsync; working directories.

RUN has written 500 MB on one node. All are done five times, interleaved, into an empty folder; medians.
"""

import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from regatta.hosts import inventories
from regatta.hosts.remote import Remote
from regatta.hosts.rsync import AS_OWNER, over_ssh
from regatta.node import working
from regatta.run import catalogue, fetching, outputs

TIMES = 5
FILES = 500


def seconds(work: Callable[[], object]) -> float:
    """Return how long it takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def start_cost(base: Path) -> list[float]:
    """Seconds to make the working directory of a tree of 500 files of 0.5 to 20 kB in 160 folders, sorted."""
    made = random.Random(0)
    for number in range(FILES):
        path = base / "release" / f"d{number % 40}" / f"e{number % 3}" / f"f{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(made.randbytes(made.randint(500, 20_000)))
    return sorted(seconds(lambda n=n: working.make(str(base / "release"), str(base / f"w{n}"))) for n in range(9))


def main() -> None:
    """Prints the figures."""
    remote = Remote(inventories.load(sys.argv[1]))
    run = outputs.Run.of(catalogue.find(remote, sys.argv[2]))
    parts, _ = outputs.look(remote, run)
    part = next(part for part in parts if part.count)
    node, size = part.node, part.bytes
    plain = ["rsync", "-rt", *over_ssh(remote, node, [*AS_OWNER, str(Path(part.source).parent)])]
    came: dict[str, list[float]] = {"rsync": [], "fetch": []}
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", ".")) as folder:
        base = Path(folder)
        source = f"{remote.destination(node)}:{part.source}/"
        for _ in range(TIMES):
            for name, work in (
                ("rsync", lambda: subprocess.run([*plain, source, f"{base}/rsync/"], check=True)),
                ("fetch", lambda: fetching.fetch(remote, run, outputs.look(remote, run)[0], base / "fetch")),
            ):
                shutil.rmtree(base / name, ignore_errors=True)
                subprocess.run(["sync"], check=True)
                came[name].append(seconds(work))
        rates = {name: size / 1e6 / statistics.median(found) for name, found in came.items()}
        print({name: f"{rate:.0f} MB/s" for name, rate in rates.items()}, f"{rates['fetch'] / rates['rsync']:.0%}")
        cost = start_cost(base)
        middle, span = statistics.median(cost), f"{cost[0]:.3f} to {cost[-1]:.3f}"
        print(f"working directory of {FILES} files: median {middle:.3f} s, {span}")


if __name__ == "__main__":
    main()
