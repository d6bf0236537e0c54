"""`python -m benchmarks.overhead BEFORE`: what `fab run-ppr` adds to the work, against another checkout of Regatta.

BEFORE is a checkout of an earlier commit with its own `.venv`. Both run interleaved, in an order that chance decides;
compared are sync, launch, rendezvous and collect together, by framework, as a ratio of pairs.
"""

import argparse
import random
import sys
import tempfile
from pathlib import Path
from statistics import median

from benchmarks import shell
from regatta import paths
from regatta.records import stats
from regatta.records.record import Record
from regatta.records.store import Store

PHASES = ("sync", "launch", "rendezvous", "collect")
FRAMEWORKS = ("torch", "ray")


def overhead(record: Record) -> float:
    """Seconds of a run that are not its work."""
    return sum(getattr(record.phases, phase) or 0.0 for phase in PHASES)


def run(checkout: Path, inventory: Path, framework: str, workers: int, results: Path) -> None:
    """Once, into a folder of records."""
    own = (f"--framework={framework}", f"--workers={workers}", f"--inventory={inventory}")
    shell.run(
        [checkout / ".venv/bin/fab", "run-ppr", "--no-single", *own],
        cwd=checkout,
        env={"REGATTA_RESULTS": str(results)},
    )


def main() -> None:
    """Run with the arguments of the process."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overhead", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("before", type=Path, help="checkout of an earlier commit, set up (make setup)")
    parser.add_argument("--inventory", type=Path, default=paths.PROJECT / "inventory/local")
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--framework", default=",".join(FRAMEWORKS))
    given = parser.parse_args()
    frameworks = given.framework.split(",")
    sides = {"before": given.before.resolve(), "now": paths.PROJECT}
    with tempfile.TemporaryDirectory() as folder:
        kept = {name: Path(folder) / name for name in sides}
        for number in range(-1, given.pairs):
            for name in random.Random(number).sample(list(sides), 2):
                into = kept[name] if number >= 0 else Path(folder) / "first"
                for framework in frameworks:
                    run(sides[name], given.inventory.resolve(), framework, given.workers, into)
            print(f"{number + 1} of {given.pairs} pairs", file=sys.stderr, flush=True)
        found = {name: Store(place).list().records for name, place in kept.items()}
    for framework in frameworks:
        own = {name: [one for one in records if one.identity.framework == framework] for name, records in found.items()}
        seconds = {name: [overhead(one) for one in records] for name, records in own.items()}
        ratio = stats.paired(seconds["before"], seconds["now"])
        medians = {name: stats.medians([values])[0].value for name, values in seconds.items()}
        print(
            f"{framework}: before {medians['before']:.2f} s, now {medians['now']:.2f} s; "
            f"now takes {ratio} times as long ({ratio.verdict})"
        )
        for phase in PHASES:
            each = {name: median(getattr(one.phases, phase) or 0.0 for one in records) for name, records in own.items()}
            print(f"    {phase}: before {each['before']:.2f} s, now {each['now']:.2f} s")


if __name__ == "__main__":
    main()
