"""`python -m benchmarks.spark --inventory inventory/NAME`: what a job costs beside its work, on a cluster with Spark.

A script that does nothing is run by `regatta sparkrun`; it says itself how long Spark's session, its first job, an
empty second job and the end took.
"""

import argparse
import re
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks import machine, shell

SCRIPT = """
import time
began = time.time()
from pyspark.sql import SparkSession
def told(what):
    global began
    print(f"@took {what} {time.time() - began:.3f}", flush=True)
    began = time.time()
spark = SparkSession.builder.getOrCreate()
told("session")
spark.sparkContext.parallelize(range(2), 2).count()
told("first")
spark.sparkContext.parallelize(range(2), 2).count()
told("second")
spark.stop()
told("stop")
"""
EMPTY = "from pyspark.sql import SparkSession\nSparkSession.builder.getOrCreate().stop()\n"
WHAT = {
    "session": "the session (Java, master, executors asked for)",
    "first": "its first job of two tasks that do nothing (executors start)",
    "second": "a second one",
    "stop": "`spark.stop()`",
    "whole": "all of `sparkrun` of that script",
    "empty": "all of `sparkrun` of a script that makes a session and stops it",
}


def run(
    inventory: Path, folder: Path, script: str, *, command: tuple[str, ...] = ("sparkrun",), words: tuple[str, ...] = ()
) -> tuple[float, str]:
    """Seconds and output of `regatta sparkrun`, or another `command`, of a script with these words."""
    (folder / "job.py").write_text(script)
    environment = {"REGATTA_INVENTORY": str(inventory), "REGATTA_RESULTS": str(folder.parent / "results")}
    own = Path(sys.executable).parent / "regatta"
    done = shell.run([own, *command, "job.py", "--", *words], cwd=folder, env=environment, limit=7200)
    return done.seconds, done.output


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inventory", type=Path, required=True)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    inventory = options.inventory.resolve()
    seen: dict[str, list[float]] = {name: [] for name in WHAT}
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work) / "project"
        folder.mkdir()
        for _ in range(options.repeats):
            seconds, said = run(inventory, folder, SCRIPT)
            seen["whole"].append(seconds)
            for name, took in re.findall(r"@took (\w+) ([\d.]+)", said):
                seen[name].append(float(took))
            seen["empty"].append(run(inventory, folder, EMPTY)[0])
    table(WHAT, seen, f"{options.repeats} runs, in seconds")


def table(about: Mapping[str, str], seen: Mapping[str, Sequence[float]], what: str) -> None:
    """Print the machine, then median and range of what was seen, by what `about` calls it."""
    found = machine.describe()
    print(f"{found.cpu}, {found.cores} core(s), load {found.load:.2f}, {found.date}; {what}\n")
    for name, words in about.items():
        if values := seen[name]:
            print(f"| {words} | {statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f}) |")


if __name__ == "__main__":
    main()
