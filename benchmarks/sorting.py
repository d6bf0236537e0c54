"""`python -m benchmarks.sorting --inventory inventory/NAME`: a gigabyte of lines in HDFS, sorted.

`programs/sort_spark.py` does it by Spark and by `sort` in one run, interleaved, and ends with an error
where the results are not the same bytes.
"""

import argparse
import re
import tempfile
from pathlib import Path

from benchmarks.spark import run, table

WHAT = {
    "spark": "Spark: read, `sort`, write; its session is not in it",
    "one": "`sort` with one thread on the head: read from HDFS, write there",
    "host": "`sort` with all cores of the head, likewise",
}


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inventory", type=Path, required=True)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--megabytes", type=int, default=1000)
    given = parser.parse_args()
    script = (Path(__file__).parent / "programs/sort_spark.py").read_text()
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work) / "project"
        folder.mkdir()
        words = (str(given.megabytes), str(given.repeats))
        _, said = run(given.inventory.resolve(), folder, script, words=words)
    seen: dict[str, list[float]] = {name: [] for name in WHAT}
    for what, took in re.findall(r"@took (\w+) ([\d.]+)", said):
        seen[what].append(float(took))
    table(WHAT, seen, f"{given.megabytes} MB, the same bytes each time, {given.repeats} runs, in seconds")


if __name__ == "__main__":
    main()
