"""A cluster with Spark: proven, a script of a person's own, a workload, a killed worker, and nothing left of it."""

import json
import os
import re
import shutil
import signal
import subprocess
import urllib.request
from pathlib import Path

import metrics
import pytest
from clusters import Cluster, finish, own_package, read_until, record, wait_for
from provisioning import play, teardown, with_spark
from scaled_plans import OF_SPARK, ran, scaled

from regatta.paths import PROJECT

pytestmark = [pytest.mark.whole, pytest.mark.timeout(1800)]
JOB = """\
import sys
import time
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
print("begun", flush=True)
seconds = float(sys.argv[2])
def square(number):
    time.sleep(seconds)
    return number * number
import beside
print("sum", spark.sparkContext.parallelize(range(40), 40).map(beside.same).map(square).sum(), flush=True)
print("second", flush=True)
print("sum", spark.sparkContext.parallelize(range(40), 40).map(square).sum(), flush=True)
sys.exit(int(sys.argv[1]))
"""


FAILS = """\
import os
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.config("spark.executor.memory", sys.argv[2]).getOrCreate()
def fail(number):
    raise ValueError("no such number")
if sys.argv[1] == "raise":
    spark.sparkContext.parallelize(range(4), 4).map(fail).count()
elif sys.argv[1] == "heap":
    print(spark.range(1).selectExpr("length(repeat('x', cast(1000000000 + id as int)))").collect())
else:
    print("counted", spark.sparkContext.parallelize(range(4), 4).count())
"""
HDFS = """\
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
spark.range(1000).write.mode("overwrite").parquet("hdfs:///spark-test/numbers")
print("rows", spark.read.parquet("hdfs:///spark-test/numbers").selectExpr("sum(id)").collect()[0][0], flush=True)
"""

OWN = """\
import plums
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
def where(_):
    import importlib.metadata, plums, socket, time
    time.sleep(1)
    yield socket.gethostname(), importlib.metadata.version("plums"), plums.__file__.rpartition("/src/")[2]
print("executors", sorted({*spark.sparkContext.parallelize(range(8), 8).mapPartitions(where).collect()}))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder of a person's own, with a job and a module next to it."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "job.py").write_text(JOB)
    (folder / "fails.py").write_text(FAILS)
    (folder / "hdfs.py").write_text(HDFS)
    (folder / "beside.py").write_text("def same(number):\n    return number\n")
    return folder


def test_proven_and_closed(spark: Cluster) -> None:
    found = play(spark.lab, "verify")
    for line in ("a task has run on node1, node2", "a driver with a wrong secret is refused"):
        assert f"Spark: {line}" in found
    for node in spark.lab.nodes:
        listed = spark.lab.ssh(node, "sudo ss -Hltn").stdout
        assert re.search(r"127\.0\.0\.1\]?:7080 ", listed)
        assert not re.search(r"(\*|0\.0\.0\.0|\[::\]):(70|7[1-3])\d\d ", listed)
        modes = spark.lab.ssh(node, "sudo stat -c '%U:%G %a' /etc/regatta/spark/daemons.conf /etc/regatta/spark").stdout
        assert modes.split() == ["root:regatta", "640", "root:regatta", "750"]
        words = spark.lab.ssh(node, "ps -eo args").stdout
        secret = (spark.lab.inventory / "secrets/spark_secret").read_text().strip()
        assert secret not in words


def test_a_script_of_a_persons_own(spark: Cluster, project: Path) -> None:
    done = spark.regatta(project, "sparkrun", "job.py", "0", "0")
    assert done.stdout.count("sum 20540") == 2
    assert spark.regatta(project, "sparkrun", "job.py", "3", "0", check=False).returncode == 3


def test_a_killed_worker_is_made_good(spark: Cluster, project: Path) -> None:
    going = spark.background(project, "sparkrun", "--name", "killed-worker", "job.py", "0", "1")
    read_until(going, "second")
    spark.lab.ssh("node2", "sudo systemctl kill --signal=KILL regatta-spark-worker")
    assert "sum 20540" in finish(going, 300) and going.returncode == 0
    assert spark.nothing_runs("killed-worker")


def temporary(spark: Cluster) -> set[str]:
    """Return what the account of runs has in /tmp, of all hosts; Java itself makes and clears `hsperfdata`."""
    asked = "find /tmp -maxdepth 1 -user regatta ! -name 'hsperfdata_*'"
    return {f"{node}:{path}" for node in spark.lab.nodes for path in spark.lab.ssh(node, asked).stdout.split()}


def test_a_run_that_is_cancelled_leaves_nothing(spark: Cluster, project: Path) -> None:
    before = temporary(spark)
    going = spark.background(project, "sparkrun", "--name", "cancelled", "job.py", "0", "5")
    read_until(going, "begun")
    spark.fab("cancel", "cancelled")
    finish(going, 120)
    assert going.returncode != 0 and spark.nothing_runs("cancelled")
    wait_for(lambda: temporary(spark) <= before)


def test_the_first_failure_is_named(spark: Cluster, project: Path) -> None:
    said = spark.regatta(project, "sparkrun", "fails.py", "raise", "512m", check=False)
    assert said.returncode == 1
    assert re.search(r"failed: node\d: executor \d+: .*ValueError: no such number", said.stdout)


def test_an_executor_out_of_memory_is_named(spark: Cluster, project: Path) -> None:
    said = spark.regatta(project, "sparkrun", "--name", "full", "fails.py", "heap", "512m", check=False)
    assert said.returncode == 1
    assert re.search(r"failed: node\d: executor \d+: .*(memory|heap)", said.stdout)
    assert spark.nothing_runs("full")


def test_more_memory_than_any_worker_has_is_refused(spark: Cluster, project: Path) -> None:
    said = spark.regatta(project, "sparkrun", "--name", "much", "fails.py", "count", "9000g", check=False)
    assert said.returncode == 1
    assert re.search(r"failed: node1: .*executors of \d+ MiB, and the largest worker gives \d+ MiB", said.stdout)
    assert spark.nothing_runs("much")


def test_a_time_limit_ends_executors(spark: Cluster, project: Path) -> None:
    words = ("--name", "limited", "--time-limit", "60", "job.py", "0", "600")
    said = spark.regatta(project, "sparkrun", *words, check=False)
    assert said.returncode != 0 and "begun" in said.stdout
    assert spark.nothing_runs("limited")


def test_hdfs_is_read_and_written(spark: Cluster, project: Path) -> None:
    done = spark.regatta(project, "sparkrun", "--name", "in-hdfs", "hdfs.py")
    assert "rows 499500" in done.stdout
    assert "part-" in spark.fab("data-ls", "/spark-test/numbers").stdout
    assert "app-" in spark.fab("data-ls", "/spark_events").stdout


def test_executors_have_a_projects_own_package(spark: Cluster, tmp_path: Path) -> None:
    project = own_package(tmp_path / "own", "job.py", OWN)
    said = spark.regatta(project, "sparkrun", "--workers", "2", "job.py").stdout
    assert f"executors {[(node, '1.5', 'plums/__init__.py') for node in spark.lab.nodes]}" in said


def test_a_run_that_waits_for_executors_says_who_has_them(spark: Cluster, project: Path) -> None:
    cores = int(spark.lab.ssh("node1", "nproc").stdout) * len(spark.lab.nodes)
    first = spark.background(project, "sparkrun", "--workers", f"{cores}", "--name", "takes-all", "job.py", "0", "5")
    read_until(first, "begun")
    second = spark.background(project, "sparkrun", "--workers", "1", "--now", "--name", "waits", "job.py", "0", "5")
    try:
        read_until(second, "begun")
        said = "Spark has given it no executor: its workers' cores are in use by takes-all; the driver "
        wait_for(lambda: said in spark.fab("why", "waits").stdout)
    finally:
        for process in (second, first):
            process.send_signal(signal.SIGINT)
            finish(process)


@pytest.fixture
def ray_on_spark(tmp_path: Path) -> Path:
    return Path(shutil.copytree(PROJECT / "examples/ray-on-spark", tmp_path / "ray-on-spark"))


def no_ray_is_left(spark: Cluster, run: str) -> bool:
    """Whether no node has a process or a file of a Ray that a run has started on Spark."""
    files = "sudo find /tmp -maxdepth 1 -name 'ray*' -o -maxdepth 1 -name 'rg-*'"
    return spark.nothing_runs(run) and not any(spark.lab.ssh(node, files).stdout.strip() for node in spark.lab.nodes)


def test_frames_go_to_a_ray_on_spark_and_come_back(spark: Cluster, ray_on_spark: Path) -> None:
    done = spark.regatta(ray_on_spark, "sparkrun", "--workers", "2", "--name", "ray-on-spark", "job.py")
    assert "20000 rows, the largest error is 0.0" in done.stdout
    assert no_ray_is_left(spark, "ray-on-spark")
    assert re.search(r"Ray is up on 2 node", spark.fab("up").stdout)


def test_a_ray_on_spark_ends_with_a_script_that_fails(spark: Cluster, ray_on_spark: Path) -> None:
    words = ("--workers", "2", "--name", "ray-fails", "job.py", "--fail")
    said = spark.regatta(ray_on_spark, "sparkrun", *words, check=False)
    assert said.returncode == 1 and "RuntimeError: asked to fail" in said.stdout
    assert no_ray_is_left(spark, "ray-fails")


def listening(spark: Cluster, node: str, run: str) -> list[int]:
    """Ports of a node at which processes of a run listen, but those of torch, which takes free ones everywhere."""
    own = {place.split("/")[2] for place in spark.processes(node, f"REGATTA_RUN_ID={run}")}
    lines = spark.lab.ssh(node, "sudo ss -Hltnp").stdout.splitlines()
    lines = [line for line in lines if "127.0.0.1" not in line and "RayTrainWo" not in line]
    return [int(line.split()[3].rpartition(":")[2]) for line in lines if own & set(re.findall(r"pid=(\d+)", line))]


def test_a_ray_on_spark_is_guarded_and_ends_with_its_run(spark: Cluster, ray_on_spark: Path) -> None:
    words = ("--workers", "2", "--name", "ray-ends", "job.py", "--rows", "3000000", "--epochs", "200")
    going = spark.background(ray_on_spark, "sparkrun", *words)
    try:
        found = re.search(r"Ray is up after .* at ([\d.]+):(\d+)", read_until(going, "Ray is up"))
        assert found and 12000 <= int(found[2]) <= 15999
        ports: dict[str, list[int]] = {}

        def agents_listen() -> bool:
            ports.update({node: listening(spark, node, "ray-ends") for node in spark.lab.nodes})
            return all(len([port for port in some if 12000 <= port <= 15999]) > 5 for some in ports.values())

        wait_for(agents_listen)
        assert all(12000 <= port <= 15999 or 7100 <= port <= 7399 for some in ports.values() for port in some), ports
        for node in spark.lab.nodes:
            opened = f"sudo -u nobody bash -c 'exec 3<>/dev/tcp/{found[1]}/{found[2]}'"  # plain words: an account
            assert "refused" in spark.lab.ssh(node, opened, check=False).stderr
    finally:
        spark.fab("cancel", "ray-ends")
        finish(going, 120)
    assert going.returncode != 0
    assert no_ray_is_left(spark, "ray-ends")


def test_services_stop_and_start(spark: Cluster, project: Path) -> None:
    spark.fab("down")
    assert re.search(r"spark-master.* inactive", spark.fab("status", check=False).stdout)
    assert re.search(r"Spark is up on 2 node", spark.fab("up").stdout)
    assert "sum 20540" in spark.regatta(project, "sparkrun", "job.py", "0", "0").stdout


def test_new_secrets(spark: Cluster, project: Path) -> None:
    before = (spark.lab.inventory / "secrets/spark_secret").read_text()
    play(spark.lab, "rotate-secrets")
    after = (spark.lab.inventory / "secrets/spark_secret").read_text()
    assert before != after
    for node in spark.lab.nodes:
        assert after.strip() in spark.lab.ssh(node, "sudo cat /etc/regatta/spark/daemons.conf").stdout
    assert "a task has run on node1, node2" in play(spark.lab, "verify")


def test_a_checkout_without_secrets_takes_those_of_the_hosts(spark: Cluster) -> None:
    folder = spark.lab.inventory / "secrets"
    before = {path.name: path.read_text() for path in folder.iterdir() if not path.name.startswith("lab_key")}
    assert "spark_secret" in before
    for name in before:
        (folder / name).unlink()
    said = play(spark.lab, "provision")
    assert re.search(r"spark_secret.* taken from the hosts", said)
    assert {name: (folder / name).read_text() for name in before} == before


def test_a_workload_gives_the_answer_of_one_process(spark: Cluster, tmp_path: Path) -> None:
    answers = []
    for framework in ("single", "spark"):
        words = ("--samples", "1000000", "--framework", framework, "--name", f"pi-{framework}")
        spark.fab("run-pi", *words, results=tmp_path)
        answers.append(json.loads((tmp_path / f"pi-{framework}.json").read_text())["answer"]["inside"])
    assert answers[0] == answers[1]


def test_a_training_ends_with_the_weights_of_torch(spark: Cluster, tmp_path: Path) -> None:
    for framework in ("torch", "spark"):
        words = ("--size", "2000", "--epochs", "2", "--workers", "2", "--framework", framework)
        spark.fab("run-digits", *words, "--name", f"digits-{framework}", results=tmp_path)
    torch, own = (json.loads((tmp_path / f"digits-{name}.json").read_text()) for name in ("torch", "spark"))
    assert own["answer"] == torch["answer"]
    weights = [[line for line in one["show"] if line.startswith("weights ")] for one in (torch, own)]
    assert weights[0] == weights[1] and len(weights[0]) == 1
    wait_for(lambda: spark.nothing_runs("digits-spark"))


def test_a_keras_model_learns_the_same_under_spark(spark: Cluster, tmp_path: Path) -> None:
    folder = tmp_path / "keras"
    shutil.copytree(PROJECT / "examples/keras", folder)
    words = ("--framework=single,torch,spark", "--nodes=node1,node2", "--workers=2", "--epochs=10")
    said = spark.regatta(folder, "run", "keras", *words).stdout
    assert "The answers of 3 runs are equal within the workload's tolerance" in said, said
    assert record(tmp_path / "results", "keras-spark-")["answer"]["accuracy"] > 0.8


def test_a_killed_rank_of_a_training_is_named(spark: Cluster, tmp_path: Path) -> None:
    words = ("--size", "4000", "--epochs", "500", "--workers", "2", "--framework", "spark", "--name", "killed-rank")
    going = spark.fab_background("run-digits", *words, results=tmp_path)
    read_until(going, "epochs")
    listed = spark.lab.ssh("node2", "ps -eo pid=,args=").stdout.splitlines()
    ranks = [line.split()[0] for line in listed if line.endswith("/train.py") and "torch" not in line]
    assert ranks
    spark.lab.ssh("node2", f"sudo kill -9 {' '.join(ranks)}")
    said = finish(going, 120)
    assert going.returncode == 1
    assert re.search(r"rank 1 on node2: executor \d+: ", said), said
    wait_for(lambda: spark.nothing_runs("killed-rank"))


def test_a_training_that_is_cancelled_leaves_no_rank(spark: Cluster, tmp_path: Path) -> None:
    words = ("--size", "4000", "--epochs", "500", "--workers", "2", "--framework", "spark", "--name", "ended-training")
    going = spark.fab_background("run-digits", *words, results=tmp_path)
    read_until(going, "epochs")
    spark.fab("cancel", "ended-training")
    finish(going, 120)
    assert going.returncode != 0
    wait_for(lambda: spark.nothing_runs("ended-training"))


@pytest.fixture(scope="module")
def circle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph over which a walk takes long: 400 nodes in a circle, and one apart from it that leads nowhere."""
    path = tmp_path_factory.mktemp("graphs") / "circle.txt"
    path.write_text("7 400\n" + "".join(f"{node} {(node + 1) % 400}\n" for node in range(400)))
    return path


def test_pagerank_gives_the_answer_of_torch(spark: Cluster, circle: Path, tmp_path: Path) -> None:
    words = ("--graph", str(circle), "--count", "2", "--alpha", "0.3", "--workers", "2")
    spark.fab("run-ppr", *words, "--framework", "torch", "--name", "ppr-torch", results=tmp_path)
    spark.fab("data-put", "--force", str(circle), "/spark-test/circle.txt")
    stored = ("--graph", "hdfs:///spark-test/circle.txt", *words[2:])
    for name, given in (("ppr-local", words), ("ppr-plain", (*stored, "--spark-partitioning", "plain"))):
        spark.fab("run-ppr", *given, "--framework", "spark", "--name", name, results=tmp_path)
        assert record(tmp_path, name)["answer"] == record(tmp_path, "ppr-torch")["answer"]
    found = record(tmp_path, "ppr-local")
    assert all(one["peak_bytes"] and one["cpu_seconds"] for one in found["ranks"])
    assert not any("is lost" in warning for warning in found["warnings"])


def test_pagerank_goes_on_without_an_executor_and_names_it(spark: Cluster, circle: Path, tmp_path: Path) -> None:
    words = ("--graph", str(circle), "--count", "1", "--alpha", "0.2", "--workers", "2")
    spark.fab("run-ppr", *words, "--framework", "single", "--name", "walk-single", results=tmp_path)
    going = spark.fab_background("run-ppr", *words, "--framework", "spark", "--name", "walk-spark", results=tmp_path)
    log = "sudo cat /var/lib/regatta/runs/walk-spark/log"
    wait_for(lambda: '"progress"' in spark.lab.ssh("node1", log, check=False).stdout, 300)
    spark.lab.ssh("node2", "sudo sh -c 'kill -9 $(pgrep -f [C]oarseGrainedExecutorBackend)'")
    said = finish(going, 600)
    assert going.returncode == 0, said
    found = record(tmp_path, "walk-spark")
    assert found["answer"] == record(tmp_path, "walk-single")["answer"]
    assert any(f"an executor on {spark.lab.addresses['node2']}" in warning for warning in found["warnings"])


@pytest.mark.parametrize("name", OF_SPARK)
def test_a_plan_is_sealed_and_reproduced(spark: Cluster, tmp_path: Path, name: str) -> None:
    (folder := tmp_path / "project").mkdir()
    (folder / f"{name}-scaled.toml").write_text(scaled(name))
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key"], check=True)
    spark.regatta(folder, "bench", f"{name}-scaled.toml")
    made = ("--key", str(tmp_path / "key"), "--plan", f"{name}-scaled.toml", "--out", "../set.zip")
    spark.regatta(folder, "results-seal", f"{name}-scaled", *made)
    spark.regatta(folder, "reproduce", "../set.zip", "--into", "../there", "--yes")
    assert ran(tmp_path / "there/results") == ran(tmp_path / "results")
    assert "spark" in {framework for _, framework, _ in ran(tmp_path / "there/results")}


def test_past_jobs_are_shown(spark: Cluster, project: Path) -> None:
    going = spark.background(project, "spark-history")
    shown = read_until(going, "Spark's history: http://")
    url = shown.rpartition("Spark's history: ")[2].split()[0]
    with urllib.request.urlopen(f"{url}api/v1/applications", timeout=60) as answer:
        jobs = json.load(answer)
    assert len(jobs) > 1 and all(job["id"].startswith("app-") for job in jobs)
    os.killpg(going.pid, signal.SIGINT)
    finish(going, 60)
    assert "inactive" in spark.lab.ssh("node1", "systemctl is-active regatta-spark-history", check=False).stdout


def test_prometheus_has_what_daemons_and_executors_hold_and_a_job_has_its_page(spark: Cluster, project: Path) -> None:
    properties = {"spark.ui.enabled": "true"}
    with_spark(spark.lab, monitoring_enabled=True, spark_properties=properties, spark_worker_cores=3)
    play(spark.lab, "provision")
    going = spark.background(project, "sparkrun", "--workers", "2", "--name", "watched", "job.py", "0", "1")
    with metrics.opened(spark) as prometheus:

        def said(series: str) -> list[float]:
            return sorted(float(one["value"][1]) for one in prometheus.query(series))

        try:
            read_until(going, "begun")
            wait_for(lambda: said("spark_worker_executors") == [1, 1], 60)
            wait_for(lambda: said("spark_master_applications") == [1], 60)
            assert said("spark_master_alive_workers") == [2] and said("spark_worker_cores_used") == [1, 1]
            assert said("spark_worker_cores_free") == [2, 2]
            assert min(said("spark_worker_memory_used_bytes")) >= 512 << 20
            dashboard = spark.background(project, "dashboard")
            page = read_until(dashboard, "Spark job ").rpartition(": ")[2].split()[0]
            with urllib.request.urlopen(f"{page}jobs/", timeout=60) as answer:
                assert b"Spark Jobs" in answer.read()
            os.killpg(dashboard.pid, signal.SIGINT)
            finish(dashboard, 60)
        finally:
            spark.fab("cancel", "watched", check=False)
            finish(going, 120)
        wait_for(lambda: said("spark_worker_executors") == [0, 0], 60)


def test_a_node_leaves(spark: Cluster, project: Path) -> None:
    inventory = spark.lab.inventory / "hosts.yml"
    whole = inventory.read_text()
    play(spark.lab, "remove-node", "--node", "node2")
    assert not spark.lab.ssh("node2", "ls -d /opt/regatta /etc/regatta /var/lib/regatta", check=False).stdout
    without = re.sub(r"    node2:\n(?:      \S.*\n)+", "", whole).replace("        node2:\n", "")
    inventory.write_text(without)
    try:
        play(spark.lab, "provision")
        done = spark.regatta(project, "sparkrun", "job.py", "0", "0")
        assert done.stdout.count("sum 20540") == 2 and "node2" not in done.stdout
    finally:
        inventory.write_text(whole)


def test_an_hdfs_that_is_gone_is_not_waited_for(spark: Cluster) -> None:
    with_spark(spark.lab, hdfs_enabled=False)
    play(spark.lab, "provision")
    assert "HDFS" not in spark.fab("up").stdout


def test_nothing_is_left(spark: Cluster) -> None:
    teardown(spark.lab)
    assert not (spark.lab.inventory / "secrets/spark_secret").exists()
    assert not spark.lab.ssh("node2", "systemctl list-unit-files --no-legend 'regatta-*'", check=False).stdout.strip()
