"""Starts runs under Spark: a driver on the head, whose executors the cluster's own workers start.

Nodes but the head have the run's folder, and no process of the run: executors are children of Spark's workers, and end
with the driver. If jobs go to a master that is not Regatta's (`spark_master`), only the head takes part.
"""

import contextlib
import secrets
import shlex
from collections.abc import Mapping

from regatta import paths
from regatta.errors import UsageError
from regatta.frameworks import spec
from regatta.frameworks.api import MIB, Framework, JobService, Judge, Page, StartedRun
from regatta.frameworks.plan import Plan
from regatta.frameworks.ray import adapter as ray
from regatta.frameworks.spark import service as of_cluster
from regatta.frameworks.spark.judge import SparkJudge
from regatta.hosts.cluster import Cluster, Node
from regatta.hosts.remote import Remote
from regatta.hosts.sources import source
from regatta_protocol.events import ASIDE
from regatta_protocol.log import DRIVER
from regatta_protocol.run import Expected, Spec
from regatta_protocol.states import Mode

LOCK = paths.PROJECT / "requirements/spark.lock"
PY4J = "0.10.9.9"
"""The py4j in the archive of the pyspark that `LOCK` has."""
CONF = "/etc/regatta/spark"
RUN = "regatta.frameworks.spark.run"
RAY_PORTS = (12000, 15999)
"""Of a Ray that a script starts on Spark; the role `spark` has the firewall guard them."""
RAY = {
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN_PATH": ray.TOKEN_PATH,
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "RAY_worker_niceness": "0",
    "RAY_raylet_start_wait_time_s": "120",
    "RAY_agent_register_timeout_ms": "120000",
    "REGATTA_RAY_PORTS": f"{RAY_PORTS[0]}-{RAY_PORTS[1]}",
}
"""A Ray on Spark asks for the token of the cluster's own Ray, and its workers are as that one's."""
SILENCE = {
    "spark.storage.blockManagerHeartbeatTimeoutMs": "40s",
    "spark.network.timeoutInterval": "5s",
    "spark.shuffle.io.connectionTimeout": "40s",
    "spark.shuffle.io.connectionCreationTimeout": "10s",
    "spark.shuffle.io.maxRetries": "2",
    "spark.shuffle.io.retryWait": "2s",
}
"""The time until a host is given up that is gone without a word. By itself Spark waits for 2 minutes, and as long again
where an executor asks that host for what was shuffled, though the driver knows that it is lost.
"""
MARK = ".master"
"""The file that a driver makes once it has come to a master (`run/sparkmaster.py`)."""
ALONE = (
    "its driver never came to Spark's master, and all work was done on {head}: the script sets another master, as "
    '.master("local[*]") does, or makes no session; leave the master to Regatta'
)


class Spark(Framework):
    """The cluster's Spark: as many cores of its executors as there are ranks."""

    name = "spark"
    command = "sparkrun"
    title = "Spark"
    driver = True
    followed = "it asks Spark's master whether executors can come"
    service = "Spark"
    units = of_cluster.UNITS
    foreign_file = of_cluster.FOREIGN
    backend = "spark"
    sets = "SPARK_(HOME|CONF_DIR|LOCAL_IP|LOCAL_DIRS)|PYSPARK_(DRIVER_PYTHON|SUBMIT_ARGS)"
    token = True
    rank_bytes = 300 * MIB
    driver_bytes = 700 * MIB
    start_seconds = 30.0

    def available(self, cluster: Cluster) -> str | None:
        """See `Framework`."""
        return None if self.served(cluster) or self.foreign(cluster) else of_cluster.NONE

    def check(self, plan: Plan) -> None:
        """See `Framework`."""
        super().check(plan)
        if plan.options.restarts:
            raise UsageError(
                "--restarts and --elastic: under spark nothing starts lost ranks again; take torch or ray, or leave "
                "them out"
            )

    def hosts(self, cluster: Cluster) -> tuple[Node, ...]:
        """See `Framework`; executors of another Spark are on none of our hosts, as far as is known."""
        return (cluster.head,) if self.foreign(cluster) else cluster.workers

    def nodes(self, plan: Plan, cluster: Cluster) -> tuple[Node, ...]:
        """The head, where the driver runs, and all workers: the master gives their cores out."""
        if self.foreign(cluster):
            return (cluster.head,)
        return tuple({node.name: node for node in (cluster.head, *cluster.workers)}.values())

    def specs(self, plan: Plan, cluster: Cluster) -> dict[str, Spec]:
        """See `Framework`. UsageError for a Python of the user's own, where executors have the nodes'."""
        temporary, foreign = f"/tmp/rg-{secrets.token_hex(4)}", self.foreign(cluster)
        if foreign is None and "PYSPARK_PYTHON" in {**plan.variables, **plan.hidden}:
            raise UsageError(
                "PYSPARK_PYTHON is set by Regatta: executors of this cluster's Spark have the nodes' Python and the "
                "run's packages; it can be given where spark_master names another Spark"
            )
        return {node.name: _spec(plan, node, cluster.head, temporary, foreign) for node in self.nodes(plan, cluster)}

    def served(self, cluster: Cluster) -> bool:
        """See `Framework`; provisioning makes a secret for it, and members' inventories tell of it."""
        told = self.name in cluster.head.frameworks
        return not cluster.local and (told or (cluster.folder / "secrets" / of_cluster.SECRET).is_file())

    def provides(self, cluster: Cluster) -> Mapping[str, str]:
        """See `Framework`."""
        if not self.served(cluster) or self.foreign(cluster):
            return {}
        pins = (line.partition(" ")[0].partition("==") for line in LOCK.read_text(encoding="utf-8").splitlines())
        return {**{name: version for name, equals, version in pins if equals}, "py4j": PY4J}

    def asks(self, cluster: Cluster) -> Mapping[str, str]:
        """See `Framework`."""
        return {"java": "spark.master.java_problem"}

    def open(self, remote: Remote) -> contextlib.AbstractContextManager[JobService]:
        """See `Framework`."""
        return of_cluster.opened(remote)

    def pages(self, remote: Remote) -> tuple[Page, ...]:
        """See `Framework`."""
        return of_cluster.pages(remote)

    def stalls(self, remote: Remote, run: str) -> list[str]:
        """See `Framework`."""
        served = self.served(remote.cluster) and not self.foreign(remote.cluster)
        return of_cluster.stalls(remote, run) if served else []

    def judge(self, handle: StartedRun, *, whole_log: bool = True) -> Judge:
        """See `Framework`."""
        return SparkJudge(handle, whole_log=whole_log)


def _spec(plan: Plan, node: Node, head: Node, temporary: str, foreign: str | None) -> Spec:
    """`run.start` on a node: the driver on the head, the folder elsewhere; Python begins as Ray's does, everywhere.

    `temporary`: where a Ray on Spark has its files, on each node; its path is short, as sockets are among them.
    """
    common = spec.common(plan, node)
    made = common.changed(temporary=temporary, env={**RAY, **common.env, "REGATTA_RAY_FOLDER": temporary})
    is_head = node.name == head.name
    if not is_head:
        made = made.changed(mode=Mode.MEMBER, files={})
    made = spec.python_begins_with(made, plan, node, source("sitecustomize", ray.RUN))
    made = spec.beside_python(made, RUN, "rayspark", "sparkpandas", "sparkmaster", "sparkpaths")
    made = spec.beside_python(made, ray.RUN, "raystorage")
    if not is_head:
        return made
    driver = spec.process(DRIVER, [head.python, *plan.program.argv])
    made = made.changed(ranks=(driver,), expected=(Expected(MARK, ASIDE + ALONE.format(head=head.name)),))
    return spec.variables(made, **environment(plan, head, made.env, foreign))


def environment(plan: Plan, head: Node, common: Mapping[str, str], foreign: str | None = None) -> dict[str, str]:
    """Return what a driver finds Spark by, and what it asks of the cluster; the secret is in a file that is the
    account's.

    Executors get the variables of the run, but for hidden ones: those their Python takes from the run's folder. Where
    the master is a `foreign` one, they have neither that folder nor our paths, and get what the user's properties say.
    """
    home, scratch = f"{head.root}/spark/pyspark", f"{head.state}/runs/{plan.run}/scratch"
    asked = {"spark.app.name": plan.run, "spark.jars.ivy": f"{scratch}/ivy", **SILENCE}
    if foreign is None:
        asked |= {f"spark.executorEnv.{name}": value for name, value in common.items()}
        asked["spark.executorEnv.REGATTA_SCRATCH"] = scratch
        # TorchDistributor, torchrun and Java leave files there where they are killed.
        asked.setdefault("spark.executorEnv.TMPDIR", scratch)
    else:
        asked |= {f"spark.executorEnv.{name}": value for name, value in plan.variables.items()}
    if foreign is None or foreign.startswith("spark://"):
        asked["spark.cores.max"] = str(len(plan.ranks))
    else:
        asked["spark.executor.instances"] = str(len(plan.ranks))
    words = [word for name, value in asked.items() for word in ("--conf", f"{name}={value}")]
    return {
        "SPARK_HOME": home,
        "SPARK_CONF_DIR": CONF,
        "SPARK_LOCAL_IP": head.cluster_address,
        "SPARK_LOCAL_DIRS": scratch,
        "TMPDIR": common.get("TMPDIR", scratch),
        **({"PYSPARK_PYTHON": head.python} if foreign is None else {"PYSPARK_DRIVER_PYTHON": head.python}),
        "PYSPARK_SUBMIT_ARGS": shlex.join([*words, "pyspark-shell"]),
        "PYTHONPATH": f"{common['PYTHONPATH']}:{head.root}/spark:{home}/python/lib/py4j.zip",
    }


FRAMEWORK = Spark()
