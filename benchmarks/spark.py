"""`python -m benchmarks.spark --inventory inventory/NAME`: what a job costs besides its work, on a cluster with Spark.

A script that does nothing is run by `regatta sparkrun`; it says itself how long Spark's session, its first job, an
empty second job and the end took, and how much CPU its driver and the executors on the driver's host have used. It is
run as it is, without the archive of classes, and with only Java's quick compiler, interleaved.
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
import glob
import os
import sys
import time
began = time.time()
from pyspark.sql import SparkSession
def told(what):
    global began
    print(f"@took {what} {time.time() - began:.3f}", flush=True)
    began = time.time()
def cpu(word):
    total = 0
    for path in glob.glob("/proc/[0-9]*"):
        try:
            words = open(path + "/cmdline").read().split("\\0")
            if words[0].endswith("/java") and word in words:
                fields = open(path + "/stat").read().rpartition(")")[2].split()
                total += int(fields[11]) + int(fields[12])
        except OSError:
            pass
    return total / os.sysconf("SC_CLK_TCK")
spark = SparkSession.builder.config("spark.driver.extraJavaOptions", " ".join(sys.argv[1:])).getOrCreate()
told("session")
spark.sparkContext.parallelize(range(2), 2).count()
told("first")
spark.sparkContext.parallelize(range(2), 2).count()
told("second")
print(f"@took driver {cpu('pyspark-shell'):.2f}")
print(f"@took executors {cpu('org.apache.spark.executor.CoarseGrainedExecutorBackend'):.2f}")
began = time.time()
spark.stop()
told("stop")
"""
EMPTY = "from pyspark.sql import SparkSession\nSparkSession.builder.getOrCreate().stop()\n"
KINDS: dict[str, tuple[Sequence[str], Sequence[str]]] = {
    "as it is": ((), ()),
    "without the archive of classes": (("--env", "SPARK_CLASS_ARCHIVE=no"), ()),
    "its driver compiled by C1 only": ((), ("-XX:TieredStopAtLevel=1",)),
}
"""Words for `sparkrun` and for the script."""
WHAT = {
    "session": "the session (Java, master, executors asked for)",
    "first": "its first job of two tasks that do nothing (executors start)",
    "second": "a second one",
    "stop": "`spark.stop()`",
    "driver": "CPU of the driver's Java until then",
    "executors": "CPU of executors' Java on the driver's host until then",
    "whole": "all of `sparkrun` of that script",
    "empty": "all of `sparkrun` of a script that makes a session and stops it",
}


def run(
    inventory: Path,
    folder: Path,
    script: str,
    *,
    command: Sequence[str] = ("sparkrun",),
    words: Sequence[str] = (),
) -> tuple[float, str]:
    """Seconds and output of `regatta sparkrun`, or another `command`, of a script with these words."""
    (folder / "job.py").write_text(script)
    environment = {"REGATTA_INVENTORY": str(inventory), "REGATTA_RESULTS": str(folder.parent / "results")}
    own = Path(sys.executable).parent / "regatta"
    done = shell.run([own, *command, "job.py", *words], cwd=folder, env=environment, limit=7200)
    return done.seconds, done.output


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inventory", type=Path, required=True)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--without-empty", action="store_true", help="leave the script out that only makes a session")
    options = parser.parse_args()
    inventory = options.inventory.resolve()
    seen: dict[tuple[str, str], list[float]] = {(name, kind): [] for name in WHAT for kind in KINDS}
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work) / "project"
        folder.mkdir()
        for _ in range(options.repeats):
            for kind, (words, arguments) in KINDS.items():
                seconds, said = run(inventory, folder, SCRIPT, command=("sparkrun", *words), words=arguments)
                seen["whole", kind].append(seconds)
                for name, took in re.findall(r"@took (\w+) ([\d.]+)", said):
                    seen[name, kind].append(float(took))
                if not options.without_empty and not arguments:
                    seen["empty", kind].append(run(inventory, folder, EMPTY, command=("sparkrun", *words))[0])
    print(f"{where()}; {options.repeats} runs of each, interleaved, seconds as medians (least to most)\n")
    print(f"| what | {' | '.join(KINDS)} |\n|{'---|' * (len(KINDS) + 1)}")
    for name, about in WHAT.items():
        print(f"| {about} | {' | '.join(shown(seen[name, kind]) for kind in KINDS)} |")


def where() -> str:
    """The machine, its load and the day."""
    found = machine.describe()
    return f"{found}"


def table(about: Mapping[str, str], seen: Mapping[str, Sequence[float]], what: str) -> None:
    """Print the machine, then median and range of what was seen, by what `about` calls it."""
    print(f"{where()}; {what}\n")
    for name, words in about.items():
        if values := seen[name]:
            print(f"| {words} | {shown(values)} |")


def shown(values: Sequence[float]) -> str:
    """Median, least and most."""
    return f"{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})" if values else "-"


if __name__ == "__main__":
    main()
