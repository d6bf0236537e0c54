"""A cluster whose jobs go to another Spark cluster: nothing of it is started, and a driver gets there.

YARN and Kubernetes cannot be had from package registries: of them a listener in their place tells what a driver asks.
"""

import json
import os
import re
import secrets
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from clusters import Cluster, finish, wait_for
from provisioning import play, with_spark

from lab.handle import LabHandle, read_lab

pytestmark = [pytest.mark.whole, pytest.mark.timeout(1800)]
PORT, YARN_PORT, KUBERNETES_PORT = 17077, 17081, 17082
RUN = secrets.token_hex(2)
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
ASKED = "/tmp/others/asked"
YARN_SITE = f"""\
<configuration>
<property><name>yarn.resourcemanager.address</name><value>127.0.0.1:{YARN_PORT}</value></property>
</configuration>
"""
RESOURCE_MANAGER = f"""\
import socket
server = socket.create_server(("127.0.0.1", {YARN_PORT}))
while True:
    one, _ = server.accept()
    said = b""
    while b"ClientProtocol" not in said and (more := one.recv(4096)):
        said += more
    open("{ASKED}", "ab").write(said)
"""
API_SERVER = f"""\
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Api(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.answer(200, json.dumps(dict(kind="PodList", apiVersion="v1", metadata=dict(), items=[])).encode())

    def do_POST(self):
        said = self.rfile.read(int(self.headers["Content-Length"]))
        open("{ASKED}", "ab").write(said.replace(b"\\n", b" ") + b"\\n")
        self.answer(201, said)

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

ThreadingHTTPServer(("127.0.0.1", {KUBERNETES_PORT}), Api).serve_forever()
"""


def directed(lab: LabHandle, **variables: Any) -> None:
    """Provision the lab so that its jobs go to another Spark cluster."""
    with_spark(lab, hdfs_enabled=False, **variables)
    play(lab, "provision")


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
    directed(
        lab,
        spark_master=f"spark://{lab.addresses['node1']}:{PORT}",
        spark_properties={"spark.executor.memory": "600m"},
        spark_properties_file=str(conf),
    )
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
    there = ("--workers=2", "--env=PYSPARK_PYTHON=/opt/regatta/env/bin/python", f"--name=there-{RUN}")
    done = elsewhere.regatta(project, "sparkrun", *there, "job.py")
    assert re.search(rf"master spark://\S+:{PORT} 600m", done.stdout) and "sum 20540" in done.stdout
    assert elsewhere.nothing_runs(f"there-{RUN}")
    logs = elsewhere.lab.ssh("node2", "sudo -u regatta ls /var/lib/regatta/shared/spark_events").stdout
    assert "app-" in logs


def asked_of(elsewhere: Cluster, listener: str, project: Path, name: str, enough: Callable[[str], bool]) -> str:
    """Return what the driver of a run with two workers says to a listener on the head, until it is enough."""
    lab = elsewhere.lab
    unit = f"others-{name}"
    start = (
        f"sudo systemd-run --quiet --collect --unit={unit} --uid=regatta /usr/bin/python3 -c {shlex.quote(listener)}"
    )
    lab.ssh("node1", f"sudo rm --force {ASKED}; {start}")
    try:
        going = elsewhere.background(project, "sparkrun", "--workers", "2", "--name", f"{name}-{RUN}", "job.py")

        def said() -> str:
            plain = "tr --delete --complement '[:print:]\\n'"
            return lab.ssh("node1", f"sudo cat {ASKED} 2>/dev/null | {plain}", check=False).stdout

        try:
            wait_for(lambda: enough(said()) or going.poll() is not None, 120)
        finally:
            elsewhere.fab("cancel", f"{name}-{RUN}", check=False)
            printed = finish(going, 120)
        assert enough(said()), printed
        return said()
    finally:
        lab.ssh("node1", f"sudo systemctl stop {unit}", check=False)


def test_a_driver_asks_a_resource_manager_of_yarn(elsewhere: Cluster, project: Path) -> None:
    conf = "/tmp/others/hadoop"
    elsewhere.lab.ssh("node1", f"sudo mkdir -p {conf} && echo {shlex.quote(YARN_SITE)} | sudo tee {conf}/yarn-site.xml")
    directed(elsewhere.lab, spark_master="yarn", spark_hadoop_conf=conf)
    assert "Spark: runs go to yarn" in elsewhere.fab("status").stdout
    said = asked_of(elsewhere, RESOURCE_MANAGER, project, "yarn", lambda said: "ApplicationClientProtocol" in said)
    assert said.startswith("hrpc") and "regatta" in said


def test_a_driver_asks_kubernetes_for_as_many_executors_as_workers(elsewhere: Cluster, project: Path) -> None:
    properties = {"spark.kubernetes.container.image": "example/spark:3.5", "spark.executor.memory": "700m"}
    properties["spark.kubernetes.executor.enableApiWatcher"] = "false"
    master = f"k8s://http://127.0.0.1:{KUBERNETES_PORT}"
    directed(elsewhere.lab, spark_master=master, spark_properties=properties)

    def pods(said: str) -> list[dict[str, Any]]:
        whole = said.splitlines() if said.endswith("\n") else said.splitlines()[:-1]
        return [one for line in whole if (one := json.loads(line))["kind"] == "Pod"]

    said = asked_of(elsewhere, API_SERVER, project, "kubernetes", lambda said: len(pods(said)) >= 2)
    assert len(pods(said)) == 2
    for pod in pods(said):
        [container] = pod["spec"]["containers"]
        variables = {one["name"]: one.get("value") for one in container["env"]}
        assert container["image"] == "example/spark:3.5" and variables["SPARK_EXECUTOR_MEMORY"] == "700m"
        assert variables["SPARK_DRIVER_URL"].endswith(f"@{elsewhere.lab.addresses['node1']}:7100")
