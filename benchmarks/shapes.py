"""`.venv/bin/python -m benchmarks.shapes FIGURE INVENTORY`: does time grow or fall with cores and nodes, as in a study?

The study is BigDL's on Spark. Figure 23: eight trainings on 1 to 4 cores of one host, whose part of a core grows, 0.4
for each rank (`make lab NODES=1 CORES=0.4`). On a machine of fewer than 4 cores its inventory sets `spark_worker_cores:
4` and `spark_properties: {spark.executor.memory: 2g}`, so that four executors fit. Figure 24 (24 to 27): nine trainings
on 1 to 3 nodes that share a batch. Figure 29: five, with a batch that grows. These need hosts of a part of a core. Each
cell is one run under Spark, with the sizes of our plans. The study had other hosts and whole data: shapes are compared,
not seconds. If it is stopped, the next one continues.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from benchmarks import shell
from benchmarks.machine import describe
from regatta.hosts import inventories
from regatta.paths import PROJECT
from regatta.records.store import Store

PART = 0.4
CHANGE = 0.1
"""A time that changes by less than this share of it is flat."""
PLANS = {"23": ("bigdl-local",), "24": ("bigdl-cluster", "bigdl-pictures"), "29": ("bigdl-growing",)}
HEAD = 'about = "{}"\nrepeats = 1\nwarm_ups = 0\ncache = "cold"\nbudget_minutes = 120\n'
OURS = ("workers", "frameworks", "no_single")


def plan(figure: str, workers: list[int] | None) -> str:
    """The trainings of a figure once under Spark, as a plan file, on so many workers."""
    found = []
    for name in PLANS[figure]:
        _, *tables = (PROJECT / f"workloads/images/plans/{name}.toml").read_text().split("[[experiments]]")
        found += [table for table in tables if figure != "24" or '"fixed-' in table]
    text = HEAD.format(f"Figure {figure} of a study of BigDL, each cell once")
    for table in found:
        lines = [line for line in table.strip().splitlines() if not line.startswith(OURS[1:])]
        if workers:
            lines = [f"workers = {workers}" if line.startswith(OURS[0]) else line for line in lines]
        text += "\n".join(["[[experiments]]", 'frameworks = ["spark"]', "no_single = true", *lines]) + "\n"
    return text


def bench(figure: str, inventory: Path, results: Path, workers: list[int] | None = None) -> int:
    """Run a figure's trainings, or those of one number of workers; before them a run that brings packages.

    Returns the exit code of the bench, which is not 0 if a run has failed.
    """
    results.mkdir(parents=True, exist_ok=True)
    path = results / f"figure-{figure}{f'-{workers[0]}' if workers else ''}.toml"
    path.write_text(plan(figure, workers))

    def fab(folder: str | Path, *words: str | Path, check: bool) -> int:
        env = {**os.environ, "REGATTA_RESULTS": str(folder)}
        command = [shell.FAB, *words, "--inventory", inventory]
        return subprocess.run(command, check=check, cwd=PROJECT, env=env).returncode

    with tempfile.TemporaryDirectory(prefix="regatta-bench-") as folder:
        words = ("run-images", "--size=96", "--batch=48", "--framework=spark", "--no-single", "--workers=1")
        fab(folder, *words, check=True)
    return fab(results, "bench", path, check=False)


def shape(times: Mapping[int, float]) -> str:
    """Whether times rise or fall from the fewest to the most workers, or are flat."""
    first, last = times[min(times)], times[max(times)]
    if abs(last / first - 1) <= CHANGE:
        return "flat"
    return "rising" if last > first else "falling"


def main() -> int:
    """Measure what is missing of a figure, and print its table. Returns an exit code: not 0 if a run has failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shapes", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("figure", choices=PLANS)
    parser.add_argument("inventory", type=Path)
    given = parser.parse_args()
    results = PROJECT / "results" / f"shapes-{given.figure}"
    name = inventories.load(str(given.inventory)).name
    code = 0
    if given.figure == "23":
        for ranks in range(1, 5):
            cores = f"{PART * ranks:.1f}"
            subprocess.run(
                [sys.executable, "-m", "lab", "up", "--name", name, "--cores", cores], check=True, cwd=PROJECT
            )
            code |= bench(given.figure, given.inventory, results, [ranks])
    else:
        code = bench(given.figure, given.inventory, results)
    published, totals, computed = (defaultdict[str, dict[int, float]](dict) for _ in range(3))
    for record in Store(results).list().records:
        series, ranks = record.series, len(record.cluster.rank_map)
        if series is None or record.exit.state != "succeeded":
            continue
        training = str(series.point).rpartition("-w")[0].rpartition("-")[0]
        totals[training][ranks], computed[training][ranks] = record.phases.total, record.phases.compute
        if series.published:
            published[training][ranks] = series.published
    found = describe()
    print(f"{found}, commit {found.commit}\n")
    print("| training | workers | published | | from end to end | | compute | |\n|---|---|---|---|---|---|---|---|")
    for training in totals:
        shown = [
            (_row(times), shape(times)) if times else ("-", "-")
            for times in (published[training], totals[training], computed[training])
        ]
        cells = " | ".join(" | ".join(pair) for pair in shown)
        print(f"| {training} | {', '.join(map(str, sorted(totals[training])))} | {cells} |")
    return code


def _row(times: Mapping[int, float]) -> str:
    return ", ".join(f"{times[ranks]:.3g}" for ranks in sorted(times)) + " s"


if __name__ == "__main__":
    raise SystemExit(main())
