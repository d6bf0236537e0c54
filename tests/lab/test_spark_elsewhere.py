"""A cluster whose jobs go to a Spark of somebody else: nothing of it is started, and a driver gets there."""

import os
import re
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from clusters import Cluster, wait_for
from provisioning import play

from lab.handle import LabHandle, read_lab

pytestmark = [pytest.mark.whole, pytest.mark.timeout(1800)]
PORT = 17077
JOB = """\
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
print("master", spark.sparkContext.master, spark.conf.get("spark.executor.memory"), flush=True)
print("sum", spark.sparkContext.parallelize(range(40), 4).map(lambda one: one * one).sum(), flush=True)
spark.stop()
"""
DAEMONS = """\
set -e
mkdir -p /tmp/others/conf
printf "%s\\n" "$2" > /tmp/others/conf/secret.conf
chown -R regatta: /tmp/others
address=$1 home=/opt/regatta/spark/pyspark
start() {
    unit=$1 class=org.apache.spark.deploy.$2
    shift 2
    systemd-run --quiet --collect --unit=$unit --uid=regatta --working-directory=/tmp/others \\
        --setenv=SPARK_HOME=$home --setenv=JAVA_HOME= --setenv=PATH=/usr/bin:/bin \\
        --setenv=SPARK_CONF_DIR=/tmp/others/conf --setenv=SPARK_LOCAL_DIRS=/tmp/others \\
        --setenv=SPARK_WORKER_DIR=/tmp/others \\
        $home/bin/spark-class $class --host $address --properties-file /tmp/others/conf/secret.conf "$@"
}
start others-master master.Master --port 17077 --webui-port 17078
start others-worker worker.Worker --port 17079 --webui-port 17080 --cores 2 --memory 2g spark://$address:17077
"""


@pytest.fixture(scope="module")
def elsewhere(make_lab: Callable[..., LabHandle], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two hosts, provisioned for a master that is on the first, which the cluster knows nothing of.

    `$REGATTA_TEST_SPARK_LAB` names such a lab to use instead.
    """
    name = os.environ.get("REGATTA_TEST_SPARK_LAB")
    lab = read_lab(name) if name else make_lab(nodes=2)
    conf = tmp_path_factory.mktemp("others") / "secret.conf"
    conf.write_text(
        f"spark.authenticate true\nspark.authenticate.secret {secrets.token_hex(32)}\n"
        "spark.network.crypto.enabled true\n"
    )
    variables = lab.inventory / "group_vars/all.yml"
    variables.parent.mkdir(exist_ok=True)
    variables.write_text(
        "spark_enabled: true\nmonitoring_enabled: false\nhdfs_enabled: false\n"
        f"spark_master: spark://{lab.addresses['node1']}:{PORT}\nspark_properties: {{spark.executor.memory: 600m}}\n"
        f"spark_properties_file: {conf}\n"
    )
    play(lab, "provision")
    lab.ssh("node1", f"sudo sh -c '{DAEMONS}' others {lab.addresses['node1']} '{conf.read_text()}'")
    worker = "sudo journalctl --no-pager -u others-worker"
    wait_for(lambda: "Successfully registered" in lab.ssh("node1", worker, check=False).stdout, 300)
    yield Cluster(lab)
    lab.ssh("node1", "sudo systemctl stop others-worker others-master", check=False)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "job.py").write_text(JOB)
    return folder


def test_nothing_of_spark_is_started_and_commands_say_so(elsewhere: Cluster) -> None:
    master = f"spark://{elsewhere.lab.addresses['node1']}:{PORT}"
    for node in elsewhere.lab.nodes:
        units = elsewhere.lab.ssh(node, "systemctl list-unit-files --no-legend 'regatta-spark-*'", check=False).stdout
        # On the head the archive of classes is being made, for drivers.
        assert not [line for line in units.splitlines() if not line.startswith("regatta-spark-classes")]
    assert elsewhere.lab.ssh("node2", "test -e /opt/regatta/spark", check=False).returncode
    assert not (elsewhere.lab.inventory / "secrets/spark_secret").exists()
    for command in ("status", "up"):
        assert f"Spark: runs go to {master}" in elsewhere.fab(command).stdout


def test_a_job_runs_there_with_the_users_own_properties(elsewhere: Cluster, project: Path) -> None:
    words = ("--workers", "2", "--env", "PYSPARK_PYTHON=/opt/regatta/env/bin/python", "--name", "there", "job.py")
    done = elsewhere.regatta(project, "sparkrun", *words)
    assert re.search(rf"master spark://\S+:{PORT} 600m", done.stdout) and "sum 20540" in done.stdout
    assert elsewhere.nothing_runs("there")
    logs = elsewhere.lab.ssh("node2", "sudo -u regatta ls /var/lib/regatta/shared/spark_events").stdout
    assert "app-" in logs
