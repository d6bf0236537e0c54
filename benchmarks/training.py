"""`.venv-node/bin/python -m benchmarks.training`: the two trainings and bare loops on this machine, interleaved.

Rates are of two ranks of one thread each, over all ranks; a single process of the same code is compared with them.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import rows
from benchmarks.rows import Row
from benchmarks.said import events
from regatta.paths import PROJECT
from workloads.digits import idx, images

ROWS = {"stars": 4_000_000, "digits": 240_000}
BATCH = {"stars": 128, "digits": 64}
EPOCHS = 3
FEWER = 16
PANDAS_ROWS = 20_000
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")


def python(*words: str, **environment: str) -> str:
    """Return what this interpreter prints, with a thread a process."""
    done = subprocess.run(
        [sys.executable, *words],
        cwd=PROJECT,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def rate(output: str, of: str = "rows a second") -> float:
    """Rows a second, as a bare loop says."""
    found = re.search(rf"{of}: ([\d.]+)", output)
    assert found, output
    return float(found[1])


class Bench:
    """Measures in its own folder."""

    def __init__(self, folder: Path, repeats: int, scale: float) -> None:
        self.folder, self.repeats = folder, repeats
        self.rows = {name: int(count * scale) for name, count in ROWS.items()}

    def prepare(self) -> list[Row]:
        """CSV of 4 million rows to Parquet."""
        csv, count = self._csv(), self.rows["stars"]
        taken = []
        for number in range(self.repeats):
            began = time.perf_counter()
            words = [sys.executable, "-m", "workloads.stars.prepare", str(csv), str(self.folder / f"ready{number}")]
            subprocess.run(words, cwd=PROJECT, capture_output=True, check=True)
            taken.append(time.perf_counter() - began)
        reached = count / statistics.median(taken)
        text = f"stars: preparing {count:,} rows ({csv.stat().st_size / 1e6:.0f} MB of CSV), as a process"
        return [Row(text, taken, (), f"1,000,000 rows/s: {reached:,.0f}", reached >= 1e6)]

    def train(self) -> list[Row]:
        """Three epochs on two ranks, with a bare loop and without."""
        return [row for workload in ROWS for row in self._train(workload)]

    def _csv(self) -> Path:
        path = self.folder / "stars.csv"
        if not path.exists():
            with path.open("wb") as file:
                words = [sys.executable, "-m", "workloads.stars.generate", f"--size={self.rows['stars']}"]
                subprocess.run(words, cwd=PROJECT, stdout=file, check=True)
        return path

    def _ready(self, workload: str) -> Path:
        """Return what is trained on, made and prepared once: rows as Parquet, images as IDX files."""
        folder = self.folder / workload
        if workload == "stars":
            python("-m", "workloads.stars.prepare", str(self._csv()), str(folder))
            return folder
        folder.mkdir()
        drawn = images.generated(self.rows[workload], 0)
        for part, pixels, labels in (
            ("train", drawn.pixels, drawn.labels),
            ("test", drawn.test_pixels, drawn.test_labels),
        ):
            idx.write(folder / f"{part}-images-idx3-ubyte", pixels)
            idx.write(folder / f"{part}-labels-idx1-ubyte", labels)
        return folder

    def _train(self, workload: str) -> list[Row]:
        words = ["-m", f"workloads.{workload}", f"--data={self._ready(workload)}", f"--epochs={EPOCHS}"]
        bare = ["-m", "benchmarks.bare_training", "sliced", workload]
        ours, others, alone = [], [], []
        for _ in range(self.repeats):
            said = python(*TORCHRUN, *words)
            trained = self._trained(said)
            ours.append(self._epochs(said))
            others.append(trained * EPOCHS / rate(python(*TORCHRUN, *bare, str(trained), str(EPOCHS))))
            alone.append(self._epochs(python(*words, f"--batch={2 * BATCH[workload]}")))
        what = f"{workload}: {EPOCHS} epochs over {trained:,} rows"
        fewer = [self._epochs(python(*TORCHRUN, *words, f"--accumulate={FEWER}")) for _ in range(self.repeats)]
        larger = [
            self._epochs(python(*TORCHRUN, *words, f"--batch={BATCH[workload] * FEWER}")) for _ in range(self.repeats)
        ]
        share = statistics.median(others) / statistics.median(ours)
        found = [
            Row(f"{what}, two ranks", ours, others, f"95 % of a bare DDP loop: {100 * share:.0f} %", share >= 0.95),
            Row(f"{what}, one process, the same batch", alone, ours, "compared with two ranks", True),
            Row(f"{what}, two ranks, one exchange in {FEWER} batches", fewer, alone, "compared with one process", True),
            Row(f"{what}, two ranks, batches {FEWER} times as large", larger, alone, "compared with one process", True),
        ]
        if workload == "stars":
            slow = rate(python(*TORCHRUN, "-m", "benchmarks.bare_training", "pandas", "stars", str(PANDAS_ROWS), "1"))
            times = trained * EPOCHS / statistics.median(ours) / slow
            target = f"50 times a program that reads rows of pandas ({slow:,.0f} rows/s): {times:.0f} times"
            found.append(Row(f"{what}, two ranks", ours, (), target, times >= 50))
        return found

    def _trained(self, output: str) -> int:
        answer = events(output, "result")[0]["answer"]
        return int(answer.get("rows") or answer["images"])

    def _epochs(self, output: str) -> float:
        """Seconds of the epochs only, of the slowest rank."""
        by_rank: dict[int, float] = {}
        for one in events(output, "phase"):
            if one["name"] == "epoch":
                by_rank[one["rank"]] = by_rank.get(one["rank"], 0.0) + one["seconds"]
        return max(by_rank.values())


def main() -> None:
    """Measure what is asked for and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", default="prepare,train", help="default %(default)s")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="a share of the rows, to try it out")
    given = parser.parse_args()
    taken: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="regatta-bench-", dir="/var/tmp") as folder:
        for name in given.only.split(","):
            taken += getattr(Bench(Path(folder), given.repeats, given.scale), name)()
    rows.publish("training", taken)


if __name__ == "__main__":
    main()
