"""How a run is started under Spark: a driver on the head, whose executors the cluster's own workers start.

Nodes but the head have no process of the run: executors are children of Spark's workers, and end with the driver.
"""

import shlex
from collections.abc import Mapping

from regatta.frameworks import spec
from regatta.frameworks.api import MIB, Framework
from regatta.frameworks.plan import Plan
from regatta.frameworks.spec import Spec
from regatta.hosts.cluster import Cluster, Node
from regatta.records.events import DRIVER

CONF = "/etc/regatta/spark"


class Spark(Framework):
    """The cluster's Spark: as many cores of its executors as there are ranks."""

    name = "spark"
    order = 13
    colour = "#c2553d"
    driver = True
    backend = "spark"
    token = True
    rank_bytes = 300 * MIB
    driver_bytes = 700 * MIB
    start_seconds = 30.0

    def available(self, cluster: Cluster) -> str | None:
        """See `Framework`."""
        return None if (cluster.folder / "secrets/spark_secret").is_file() else "it has no Spark (spark_enabled)"

    def headline(self, plan: Plan) -> str:
        """See `Framework`."""
        return "Spark"

    def nodes(self, plan: Plan, cluster: Cluster) -> tuple[Node, ...]:
        """The head, where the driver runs; the release is on every node."""
        return (cluster.head,)

    def specs(self, plan: Plan, cluster: Cluster) -> dict[str, Spec]:
        """See `Framework`."""
        head = cluster.head
        made = spec.common(plan, head)
        variables = environment(plan, head, made["env"])
        made["ranks"] = [spec.process(DRIVER, [head.python, *plan.program.argv])]
        made["env"] |= variables
        spec.start_python_by(made, plan, head, "boot")
        return {head.name: made}


def environment(plan: Plan, head: Node, common: Mapping[str, str]) -> dict[str, str]:
    """What a driver finds Spark by, and what it asks of the cluster; the secret is in a file that is the account's."""
    home = f"{head.root}/spark/pyspark"
    asked = {"spark.app.name": plan.run, "spark.cores.max": str(len(plan.ranks))}
    asked |= {
        f"spark.executorEnv.{name}": common[name] for name in ("PYTHONPATH", "OMP_NUM_THREADS", "REGATTA_RELEASE")
    }
    words = [word for name, value in asked.items() for word in ("--conf", f"{name}={value}")]
    return {
        "SPARK_HOME": home,
        "SPARK_CONF_DIR": CONF,
        "PYSPARK_PYTHON": head.python,
        "PYSPARK_SUBMIT_ARGS": shlex.join([*words, "pyspark-shell"]),
        "PYTHONPATH": f"{common['PYTHONPATH']}:{head.root}/spark:{home}/python/lib/py4j.zip",
    }


FRAMEWORK = Spark()
