"""`python -m benchmarks.ray_on_spark --inventory inventory/NAME`: a Ray on Spark and the cluster's own, interleaved.

On two nodes: what it takes until tasks run, the tasks, and the end; of the run under Spark the session, too.
"""

import argparse
import re
import tempfile
from pathlib import Path

from benchmarks.spark import run, table

TOLD = """
import time
began = time.time()
def told(what):
    global began
    print(f"@took {what} {time.time() - began:.3f}", flush=True)
    began = time.time()
"""
TASKS = """
@ray.remote(num_cpus=1)
def nothing():
    return None
ray.get([nothing.remote() for _ in range(20)])
told("PREFIX_first")
ray.get([nothing.remote() for _ in range(20)])
told("PREFIX_tasks")
"""
ON_SPARK = f"""{TOLD}
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
told("session")
import ray
from ray.util.spark import setup_ray_cluster, shutdown_ray_cluster
setup_ray_cluster(
    max_worker_nodes=2, num_cpus_worker_node=1, num_gpus_worker_node=0, memory_worker_node=1 << 30,
    object_store_memory_worker_node=100 << 20, memory_head_node=1 << 29, object_store_memory_head_node=100 << 20,
)
told("setup")
ray.init(logging_level="WARNING")
told("spark_init")
{TASKS.replace("PREFIX", "spark")}
shutdown_ray_cluster()
told("shutdown")
spark.stop()
"""
OWN = f"""{TOLD}
import ray
ray.init(logging_level="WARNING")
told("own_init")
{TASKS.replace("PREFIX", "own")}
"""
WHAT = {
    "session": "Spark's session",
    "setup": "`setup_ray_cluster` (20 s of it are a wait that is written into Ray)",
    "spark_init": "`ray.init()` of a Ray on Spark",
    "spark_first": "its first 20 tasks that do nothing (workers start)",
    "spark_tasks": "20 more",
    "shutdown": "`shutdown_ray_cluster`",
    "spark": "all of `sparkrun` of that script",
    "own_init": "`import ray` and `ray.init()` of the cluster's own Ray",
    "own_first": "its first 20 tasks",
    "own_tasks": "20 more",
    "own": "all of `rayrun` of that script",
}


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inventory", type=Path, required=True)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    seen: dict[str, list[float]] = {name: [] for name in WHAT}
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work) / "project"
        folder.mkdir()
        for _ in range(given.repeats):
            for name, command, script in (("spark", "sparkrun", ON_SPARK), ("own", "rayrun", OWN)):
                whole, said = run(given.inventory.resolve(), folder, script, command=(command, "--workers", "2"))
                seen[name].append(whole)
                for what, took in re.findall(r"@took (\w+) ([\d.]+)", said):
                    seen[what].append(float(took))
    table(WHAT, seen, f"{given.repeats} runs each, two nodes, in seconds")


if __name__ == "__main__":
    main()
