"""A real Spark of this machine, from what provisioning brings to nodes: the environment of its drivers."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from launching import PROJECT

PROVISIONED = "from regatta.provisioning import spark; print(spark.make().path)"
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.cores.max": "2",
    "spark.executorEnv.OMP_NUM_THREADS": "1",
    "spark.executor.memory": "512m",
    "spark.driver.memory": "512m",
}


def unpacked(root: Path, *places: str, master: str = "local-cluster[2,1,512]") -> dict[str, str]:
    """Environment of a driver, by default with a master and its own two executors; `places` are on their path."""
    javas = [path for path in sorted(Path("/usr/lib/jvm").glob("*")) if "-17" in path.name or "-21" in path.name]
    if not javas:
        pytest.skip("no Java 17 or 21")
    told = subprocess.run(
        [PROJECT / ".venv/bin/python", "-c", PROVISIONED], capture_output=True, text=True, check=True, cwd=PROJECT
    )
    with tarfile.open(told.stdout.strip()) as archive:
        archive.extractall(root, filter="data")
    home = root / "pyspark"
    (py4j,) = home.glob("python/lib/py4j-*-src.zip")
    words = " ".join(f"--conf {name}={value}" for name, value in SETTINGS.items())
    return {
        "JAVA_HOME": str(javas[0]),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": ":".join([str(PROJECT), *places, str(root), str(py4j)]),
        "PYSPARK_SUBMIT_ARGS": f"--master {master} {words} pyspark-shell",
        "REGATTA_WORKERS": "2",
        "REGATTA_RANK_MAP": '["127.0.0.1", "127.0.0.1"]',
    }
