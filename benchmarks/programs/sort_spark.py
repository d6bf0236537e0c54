"""Sorts lines of HDFS by Spark, and by `sort` of one host, interleaved; both results must have the same bytes.

`fab sparkrun --workers N sort_spark.py MEGABYTES REPEATS`. Lines are of 100 bytes, the first ten of them at random.
Neither time has the making of the lines or the comparison; both have reading from HDFS and writing there.
"""

import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from hdfs_native.fsspec import HdfsFileSystem
from pyspark.sql import SparkSession

FOLDER, LINES = "/benchmarks/sort", 10_000
BLOCK = 8 << 20


def make(files: HdfsFileSystem, count: int) -> str:
    """The path of `count` lines, made where they are not there."""
    path = f"{FOLDER}/lines-{count}.txt"
    if not files.exists(path):
        files.makedirs(FOLDER, exist_ok=True)
        numbers, letters = np.random.default_rng(0), np.frombuffer(b"0123456789abcdefghijklmnopqrstuvwxyz", np.uint8)
        with files.open(path + ".new", "wb") as file:
            for first in range(0, count, LINES):
                lines = np.full((min(LINES, count - first), 100), ord("."), np.uint8)
                lines[:, :10] = letters[numbers.integers(0, len(letters), (len(lines), 10))]
                lines[:, 99] = ord("\n")
                file.write(lines.tobytes())
        files.mv(path + ".new", path)
    return path


def by_spark(spark: SparkSession, files: HdfsFileSystem, root: str, path: str) -> list[str]:
    """Sorted files in their order."""
    target = f"{FOLDER}/spark"
    spark.read.text(root + path).sort("value").write.mode("overwrite").text(root + target)
    return sorted(name for name in files.ls(target, detail=False) if "/part-" in name)


def by_sort(files: HdfsFileSystem, path: str, cores: int) -> list[str]:
    """The one sorted file, by `sort` of this host."""
    target = f"{FOLDER}/sort.txt"
    scratch = Path(os.environ["REGATTA_SCRATCH"])
    command = ["sort", f"--parallel={cores}", "-S", "1G", "-T", scratch, "-o", scratch / "sorted"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, env={**os.environ, "LC_ALL": "C"}) as process:
        with files.open(path, "rb") as file:
            while block := file.read(BLOCK):
                process.stdin.write(block)
        process.stdin.close()
    if process.returncode:
        sys.exit(f"sort ended with {process.returncode}")
    with (scratch / "sorted").open("rb") as made, files.open(target, "wb") as file:
        while block := made.read(BLOCK):
            file.write(block)
    return [target]


def digest(files: HdfsFileSystem, names: list[str]) -> str:
    """SHA-256 of files one behind the other."""
    found = hashlib.sha256()
    for name in names:
        with files.open(name, "rb") as file:
            while block := file.read(BLOCK):
                found.update(block)
    return found.hexdigest()


def main() -> None:
    """Sort, compare, and print what took how long."""
    megabytes, repeats = int(sys.argv[1]), int(sys.argv[2])
    spark = SparkSession.builder.getOrCreate()
    root = spark.sparkContext._jsc.hadoopConfiguration().get("fs.defaultFS")
    host, _, port = root.removeprefix("hdfs://").partition(":")
    files = HdfsFileSystem(host, int(port))
    path = make(files, megabytes * 10_000)
    digests = set()
    ways = {
        "spark": lambda: by_spark(spark, files, root, path),
        "one": lambda: by_sort(files, path, 1),
        "host": lambda: by_sort(files, path, os.cpu_count() or 1),
    }
    for _ in range(repeats):
        for name, way in ways.items():
            began = time.time()
            made = way()
            print(f"@took {name} {time.time() - began:.3f}", flush=True)
            digests.add(digest(files, made))
    spark.stop()
    if len(digests) != 1:
        sys.exit(f"what was sorted differs: {sorted(digests)}")
    print(f"all sorted to {digests.pop()}")


if __name__ == "__main__":
    main()
