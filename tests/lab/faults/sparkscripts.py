"""Programs for Spark to strike, and where their processes are."""

from pathlib import Path

from clusters import Cluster

TOTAL = sum(range(700))
_ROUNDS = """\
import sys, time
from pyspark.sql import SparkSession
context = SparkSession.builder.getOrCreate().sparkContext
pairs = context.parallelize(range(700), 8).map(lambda n: (n % 7, n)).reduceByKey(int.__add__, 8).cache()

def slowly(pair):
    time.sleep(0.3)
    return pair[1]

for number in range(int(sys.argv[1])):
    total = pairs.map(slowly).sum()
    print("round", number, flush=True)
print("total", total, flush=True)
for one in pairs.map(slowly).toLocalIterator():
    time.sleep(float(sys.argv[2]) if len(sys.argv) > 2 else 0)
"""
_ASKS = """\
import os, sys
from pyspark.sql import SparkSession
what, builder = sys.argv[1], SparkSession.builder
if what == "secret":
    builder = builder.config("spark.authenticate.secret", "0" * 64)
if what == "memory":
    builder = builder.config("spark.executor.memory", "9000g")
if what == "heap":
    builder = builder.config("spark.executor.memory", "512m")
spark = builder.getOrCreate()
print("begun", flush=True)
context = spark.sparkContext
if what == "heap":
    print(spark.range(1).selectExpr("length(repeat('x', cast(1000000000 + id as int)))").collect())
elif what == "disk":
    blocks = context.parallelize(range(32), 32).map(lambda n: (n, os.urandom(8 << 20)))
    print("blocks", blocks.partitionBy(4).count())
elif what == "pandas":
    import pandas
    for count in (3, 4):
        print("rows", len(spark.createDataFrame(pandas.DataFrame({"n": range(count)})).toPandas()))
elif what == "own":
    def look(number):
        import iniconfig
        return iniconfig.__file__, os.environ["OPEN_WORD"], len(os.environ["HIDDEN_WORD"])
    for found in sorted(set(context.parallelize(range(8), 8).map(look).collect())):
        print("found", *found, flush=True)
else:
    print("counted", context.parallelize(range(4), 4).count())
"""
EXECUTOR, MASTER = "[C]oarseGrainedExecutorBackend", "[d]eploy.master.Master"
DRIVER, GATEWAY = "[r]ounds.py", "[S]parkSubmit"


def write_scripts(folder: Path) -> Path:
    """Make the folder of a person's own."""
    folder.mkdir()
    (folder / "rounds.py").write_text(_ROUNDS)
    (folder / "asks.py").write_text(_ASKS)
    return folder


def kill(cluster: Cluster, node: str, mark: str) -> None:
    """SIGKILL for the processes of the runs' account on a node whose command line has a mark; there is one at least."""
    cluster.lab.ssh(node, f"sudo pkill -KILL -u regatta -f '{mark}'")
