"""The executors as a driver sees them, of a real Spark on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from launching import python
from sparkhere import unpacked

pytestmark = [pytest.mark.whole, pytest.mark.timeout(600)]
REPLACED = """
import os, signal, subprocess, time
from pyspark.sql import SparkSession
from workloads.common.spark.executors import Executors

def number(_):
    return os.getppid()

spark = SparkSession.builder.getOrCreate()
sc = spark.sparkContext
sc.parallelize(range(2), 2).map(lambda one: (time.sleep(1), one)).collect()
executors = Executors(sc)
executors.look()
before = executors._there()
assert len(before) == 3, before  # and the driver
found = subprocess.run(["pgrep", "-f", "CoarseGrainedExecutorBackend.*--executor-id 1 .*"
                        + sc.applicationId], capture_output=True, text=True, check=True)
os.kill(int(found.stdout), signal.SIGKILL)
while len(executors._there()) < 3 or executors._there() == before:
    sc.parallelize(range(2), 2).count()
    time.sleep(0.2)
executors.look()
executors.look()
spark.stop()
"""


def test_one_in_whose_place_another_is_already_is_missed(tmp_path: Path) -> None:
    run = python("-c", REPLACED, **unpacked(tmp_path))
    assert run.status == 0, run.err
    (warning,) = run.of("warning")
    assert "an executor on 127.0.0.1 is lost" in warning["message"]
