"""`python -m benchmarks.records`: what `fab report` and `fab runs` take with a thousand records, and the page's size.

The records are those of a folder, over and over, each with its own times, which scatter by some 10 %.
"""

import argparse
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from msgspec import structs

from benchmarks import rows, shell
from benchmarks.rows import Row
from benchmarks.shell import BenchError
from regatta import paths
from regatta.errors import RegattaError
from regatta.records.record import Record
from regatta.records.store import Store

KEPT = paths.PROJECT / "tests" / "unit" / "records"
SECONDS_TARGET, BYTES_TARGET = 5.0, 5e6
RUNS_OF_A_CASE = 5
_SPREAD = 0.1


def make(templates: Sequence[Record], runs: int, into: Path, seed: int = 1) -> int:
    """Write `runs` records: 5 runs of each configuration of a case, as a plan has. The number of cases."""
    chance = random.Random(seed)
    store = Store(into)
    known = {(one.identity.workload, one.identity.framework, len(one.ranks)): one for one in templates}
    different = list(known.values())
    if not different:
        raise BenchError("no records to make others of")
    made = set()
    for number in range(runs):
        template, size = different[number % len(different)], number // (RUNS_OF_A_CASE * len(different))
        store.save(_again(template, f"{template.run_id}-{number:04d}", size, chance))
        made.add((template.identity.workload, size))
    return len(made)


def _again(record: Record, run_id: str, size: int, chance: random.Random) -> Record:
    times = chance.lognormvariate(0.0, _SPREAD)
    phases = {name: None if value is None else value * times for name, value in structs.asdict(record.phases).items()}
    parameters = {**record.identity.parameters, "size": 1000 * (size + 1)}
    return structs.replace(
        record,
        identity=structs.replace(record.identity, run_id=run_id, parameters=parameters),
        phases=structs.replace(record.phases, **phases),
    )


def measure(records: Path, runs: int, repeats: int) -> list[Row]:
    """`fab report` of them, as a person waits for it, its page, and `fab runs`."""
    with tempfile.TemporaryDirectory(prefix="regatta-bench-") as folder:
        results = Path(folder) / "results"
        cases = make(Store(records).list().records, runs, results)
        env = {"REGATTA_RESULTS": str(results), "REGATTA_INVENTORY": str(paths.PROJECT / "inventory" / "local")}
        reports = [shell.run([shell.FAB, "report"], env=env).seconds for _ in range(1 + repeats)][1:]
        size = (results / "report" / "report.html").stat().st_size
        listed = [shell.run([shell.FAB, "runs"], env=env).seconds for _ in range(repeats)]
    said = f"{runs} runs in {cases} cases"
    return [
        rows.within(f"`fab report` of {said}: a page of {size / 1e6:.2f} MB", reports, SECONDS_TARGET),
        Row("the same: at most 5 MB", reports, (), f"{BYTES_TARGET / 1e6:g} MB", size <= BYTES_TARGET),
        Row(f"`fab runs` of {said}", listed, (), "-", True),
    ]


def main() -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.records", description="The cost of many records.")
    parser.add_argument("--records", type=Path, default=KEPT, help="records that the others are made of")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    shell.interruptible()
    try:
        taken = measure(given.records, given.runs, given.repeats)
    except (BenchError, RegattaError, OSError) as error:
        print(f"records FAILED: {error}", file=sys.stderr)
        return 1
    rows.publish("records", taken)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
