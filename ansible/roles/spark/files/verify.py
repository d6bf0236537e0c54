"""On the head, as the user regatta: a task on every worker at the same time, and a driver with a wrong secret refused.

Arguments: names and addresses of the workers, as JSON; another cluster's master, '' where it is Regatta's. On another
cluster only a job is checked, which needs no Python of its executors. Prints `@verify {"problems", "lines"}`.
"""

import json
import os
import subprocess
import sys
import threading

HOME = os.environ["SPARK_HOME"]
PATIENCE = 100
"""Seconds for an answer to a wrong secret, on a busy host, too."""
PLACES = [os.path.dirname(HOME), f"{HOME}/python/lib/py4j.zip"]
ASKED = ("spark.executor.cores=1", "spark.executor.memory=512m", "spark.eventLog.enabled=false")
SCRIPT = """
from pyspark import BarrierTaskContext, SparkContext
import sys
spark = SparkContext()
def where(_):
    yield BarrierTaskContext.get().getTaskInfos()[BarrierTaskContext.get().partitionId()].address.partition(":")[0]
count = int(sys.argv[1])
print("@ran " + " ".join(spark.parallelize(range(count), count).barrier().mapPartitions(where).collect()), flush=True)
spark.stop()
"""


ELSEWHERE = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
print(f"@ran {spark.range(10).count()}", flush=True)
spark.stop()
"""


def driver(count, *conf, script=SCRIPT):
    """A driver that asks each of so many workers for one core."""
    words = [f"--conf {one}" for one in (*ASKED, f"spark.cores.max={count}", *conf)]
    env = {**os.environ, "PYTHONPATH": ":".join(PLACES), "PYSPARK_SUBMIT_ARGS": " ".join([*words, "pyspark-shell"])}
    command = [sys.executable, "-c", script, str(count)]
    return subprocess.Popen(command, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def refused(found):
    """Whether a driver with a wrong secret is refused; it would keep trying for a minute, and is ended here.

    Nothing is found where no answer came.
    """
    with driver(1, "spark.authenticate.secret=" + "0" * 64) as process:
        timer = threading.Timer(PATIENCE, process.kill)
        timer.start()
        for line in process.stdout:
            if "@ran" in line or "Authentication failed" in line or "AuthenticationException" in line:
                found.append("@ran" not in line)
                break
        process.kill()
        timer.cancel()


def end(problems, lines):
    """Say what was found."""
    print("@verify " + json.dumps({"problems": problems, "lines": [] if problems else lines}))
    sys.exit()


nodes, master, problems, answers = json.loads(sys.argv[1]), sys.argv[2], [], []
if master:
    said = driver(1, script=ELSEWHERE).communicate()[0]
    last = (said.strip().splitlines() or ["no message"])[-1]
    if "@ran 10" not in said.splitlines():
        problems.append(f"no job of Spark ran by {master} (spark_master): {last}")
    end(problems, [f"Spark: a job has run by {master}, which is not of this cluster"])
other = threading.Thread(target=refused, args=(answers,))
other.start()
said = driver(len(nodes)).communicate()[0]
other.join()
ran = {word for line in said.splitlines() if line.startswith("@ran ") for word in line.split()[1:]}
lacking = [name for name, address in nodes.items() if address not in ran]
if lacking:
    last = (said.strip().splitlines() or ["no message"])[-1]
    problems.append(f"no task of Spark ran on {', '.join(lacking)}: {last}")
if not answers:
    problems.append(
        f"a driver with a wrong secret had no answer within {PATIENCE} s: is the host busy? 'regatta verify' again"
    )
elif answers != [True]:
    problems.append("Spark did not refuse a driver with a wrong secret")
end(problems, [f"Spark: a task has run on {', '.join(nodes)}", "Spark: a driver with a wrong secret is refused"])
