"""Spark's daemons, drivers, executors and hosts are struck, and what cannot work is asked of it."""

import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import kernel
import pytest
from clusters import Cluster, read_until, record, wait_for
from faulty import Told, explained, new_name, nothing_left, strike, trained_and_kept, whole
from sparkscripts import DRIVER, EXECUTOR, GATEWAY, TOTAL, kill, write_scripts
from telling import Teller

pytestmark = [pytest.mark.whole, pytest.mark.timeout(1200)]
LOST_SECONDS = 240.0
"""A host that is gone is given up after some 40 s; what it had is done again."""
SPARK = "/var/lib/regatta/spark"
STRUCK = {
    "node1": [("node1", "regatta-spark-master regatta-spark-worker")],
    "node2": [("node1", "regatta-spark-master"), ("node2", "regatta-spark-worker")],
}
"""Units that are killed at once, so that the master has no time to strike the worker off."""
TRAINING = ("run-digits", "--framework=spark", "--workers=2", "--size=3000")


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    """A folder of a person's own."""
    return write_scripts(tmp_path / "project")


def begin(cluster: Cluster, scripts: Path, rounds: int) -> "subprocess.Popen[str]":
    """A script under Spark that has got going."""
    process = cluster.background(scripts, "sparkrun", "--name", new_name(), "rounds.py", str(rounds))
    read_until(process, "round 2")
    return process


def ask(cluster: Cluster, scripts: Path, what: str, *words: str) -> Told:
    """The messages for a person who asks for that."""
    name = new_name()
    going = cluster.background(scripts, "sparkrun", "--name", name, *words, "asks.py", what)
    told = strike(going, lambda: None, LOST_SECONDS)
    wait_for(lambda: cluster.nothing_runs(name))
    return told


def next_run(cluster: Cluster, scripts: Path) -> None:
    """A run just works, on both hosts."""
    done = cluster.regatta(scripts, "sparkrun", "--name", new_name(), "rounds.py", "1")
    assert f"total {TOTAL}" in done.stdout


@contextmanager
def without(cluster: Cluster, node: str, put: str, undo: str) -> Iterator[None]:
    """A change of a node, undone in the end; its worker restarts both times."""
    try:
        cluster.lab.ssh(node, f"sudo sh -c '{put}' && sudo systemctl restart regatta-spark-worker")
        yield
    finally:
        cluster.lab.ssh(node, f"sudo sh -c '{undo}' && sudo systemctl restart regatta-spark-worker")


@pytest.mark.parametrize("what", ["master", "worker"])
def test_a_daemon_is_killed_in_mid_run(spark: Cluster, scripts: Path, tell: Teller, what: str) -> None:
    about = {"master": "the master gets SIGKILL", "worker": "a worker and its executors get SIGKILL"}[what]
    tell.begin("spark", f"{about}, `fab sparkrun`", "spark")
    process = begin(spark, scripts, 30)
    node = {"master": "node1", "worker": "node2"}[what]
    told = strike(
        process, lambda: spark.lab.ssh(node, f"sudo systemctl kill -s KILL regatta-spark-{what}"), LOST_SECONDS
    )
    assert told.code == 0 and f"total {TOTAL}" in told.said, told.said
    tell.end("continues, and ends with the right answer; it comes back by itself")
    nothing_left(spark, scripts)
    next_run(spark, scripts)


def test_an_executor_is_killed_after_the_master(spark: Cluster, scripts: Path, tell: Teller) -> None:
    tell.begin("spark", "the master gets SIGKILL, and when it is back an executor", "spark")
    process = begin(spark, scripts, 60)

    def hit() -> None:
        spark.lab.ssh("node1", "sudo systemctl kill -s KILL regatta-spark-master")
        spark.fab("up")  # waits until all workers have joined
        kill(spark, "node2", EXECUTOR)

    told = strike(process, hit, LOST_SECONDS)
    assert told.code == 0 and f"total {TOTAL}" in told.said, told.said
    tell.end("continues: the new master knows the run, and gives it another executor")
    nothing_left(spark, scripts)


def test_the_master_is_killed_and_a_run_follows(spark: Cluster, scripts: Path, tell: Teller) -> None:
    tell.begin("spark", "the master gets SIGKILL, and a run is started at once", "spark")
    spark.lab.ssh("node1", "sudo systemctl kill -s KILL regatta-spark-master")
    next_run(spark, scripts)
    tell.end("the run waits until all workers are there again, and works")


@pytest.mark.parametrize("node", ["node1", "node2"])
def test_the_master_and_a_worker_are_killed_together(spark: Cluster, scripts: Path, tell: Teller, node: str) -> None:
    about = {"node1": "its host's worker", "node2": "a worker of another host"}[node]
    tell.begin("spark", f"the master and {about} get SIGKILL", "spark")
    master, send = "regatta-spark-master", "sudo systemctl kill -s"
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda struck: spark.lab.ssh(struck[0], f"{send} KILL {struck[1]}"), STRUCK[node]))
    # The new worker is there first, and hears from a master that looks for the one that it knew.
    spark.lab.ssh("node1", f"sleep 2.2; {send} STOP {master}; sleep 8; {send} CONT {master}")
    spark.fab("up")  # waits until all workers have joined
    next_run(spark, scripts)
    tell.end("both come back, and the worker joins")


def test_all_daemons_start_at_once(spark: Cluster, tell: Teller) -> None:
    tell.begin("spark", "master and workers are stopped, and start at the same moment", "spark")
    names = {"node1": "regatta-spark-master regatta-spark-worker", "node2": "regatta-spark-worker"}

    def everywhere(what: str) -> None:
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda node: spark.lab.ssh(node, f"sudo systemctl {what} {names[node]}"), names))

    kept = "sudo sh -c 'ls -A $(sed -n s/^spark.deploy.recoveryDirectory.//p /etc/regatta/spark/daemons.conf)'"
    assert "worker_" in spark.lab.ssh("node1", kept).stdout
    everywhere("stop")
    # The next master asks none of the last one's workers.
    assert not spark.lab.ssh("node1", kept, check=False).stdout
    everywhere("start")
    spark.fab("up")  # waits until all workers have joined
    tell.end("all workers join")


@pytest.mark.parametrize(("about", "mark"), [("driver", DRIVER), ("driver's Java", GATEWAY)], ids=["python", "java"])
def test_a_driver_is_killed(spark: Cluster, scripts: Path, tell: Teller, about: str, mark: str) -> None:
    tell.begin("spark", f"the {about} gets SIGKILL", "spark")
    process = begin(spark, scripts, 1000)
    told = strike(process, lambda: kill(spark, "node1", mark))
    explained(told, "node1", "killed by SIGKILL|Java of the driver")
    tell.end("the run ends everywhere", told.first, told.seconds)
    nothing_left(spark, scripts)


def test_an_executor_is_out_of_memory(spark: Cluster, scripts: Path, tell: Teller) -> None:
    tell.begin("spark", "an executor asks for more than its Java has", "spark")
    told = ask(spark, scripts, "heap")
    explained(told, "node", r"executor \d+: out of memory: the heap of its Java is full")
    tell.end("the task is tried four times, then the run ends", told.first)
    nothing_left(spark, scripts)


def host_lost(spark: Cluster, process: "subprocess.Popen[str]", *, frozen: bool = False) -> Told:
    """Power node2 off, or freeze it; in the end it is there again."""
    try:
        return strike(
            process, lambda: kernel.freeze(spark.lab, "node2") if frozen else spark.lab.off("node2"), LOST_SECONDS
        )
    finally:
        kernel.thaw(spark.lab, "node2") if frozen else spark.lab.on("node2")
        wait_for(lambda: spark.lab.ssh("node2", "true", check=False).returncode == 0, 60)


@pytest.mark.parametrize("how", ["off", "frozen"])
def test_a_host_is_lost_under_a_script(spark: Cluster, scripts: Path, tell: Teller, how: str) -> None:
    about = {"off": "powered off", "frozen": "frozen (SIGSTOP of all its processes)"}[how]
    tell.begin("host", f"a worker host is {about}, `fab sparkrun`", "spark")
    process = begin(spark, scripts, 20)
    told = host_lost(spark, process, frozen=how == "frozen")
    assert told.code == 0 and f"total {TOTAL}" in told.said, told.said
    assert re.search("node2 is lost in mid-run: the run continues without it", told.said), told.said
    tell.end("continues with the executors that are left, the same answer; the host joins again by itself")
    whole(spark)
    next_run(spark, scripts)
    nothing_left(spark, scripts)


def test_a_host_is_lost_under_pagerank(spark: Cluster, scripts: Path, tell: Teller, tmp_path: Path) -> None:
    tell.begin("host", "a worker host is powered off, `fab run-ppr`", "spark")
    circle = tmp_path / "circle.txt"
    circle.write_text("7 400\n" + "".join(f"{node} {(node + 1) % 400}\n" for node in range(400)))
    words = ("--graph", str(circle), "--count", "1", "--alpha", "0.2", "--workers", "2")
    name, results = new_name(), tmp_path / "results"
    spark.fab("run-ppr", *words, "--framework", "single", "--name", f"{name}-s", results=results)
    going = spark.fab_background("run-ppr", *words, "--framework", "spark", "--name", name, results=results)
    log = f"sudo cat /var/lib/regatta/runs/{name}/log"
    wait_for(lambda: '"progress"' in spark.lab.ssh("node1", log, check=False).stdout, 300)
    told = host_lost(spark, going)
    assert told.code == 0, told.said
    assert record(results, name)["answer"] == record(results, f"{name}-s")["answer"]
    tell.end("continues from the scores that the driver gathered last: a bit-identical answer")
    whole(spark)
    next_run(spark, scripts)  # ends what the host still has of the run that has ended
    nothing_left(spark, scripts)


def test_a_host_is_lost_under_a_training(spark: Cluster, scripts: Path, tell: Teller, tmp_path: Path) -> None:
    tell.begin("host", "a worker host is powered off, a training", "spark")
    going = spark.fab_background(*TRAINING, "--epochs=2000", "--name", new_name(), results=tmp_path / "results")
    read_until(going, " epochs ")
    told = host_lost(spark, going)
    explained(told, "node2", "lost in mid-run")
    tell.end("the run ends; the host joins again by itself", told.first, told.seconds)
    whole(spark)
    next_run(spark, scripts)
    nothing_left(spark, scripts)


def test_a_rank_is_killed_and_the_training_goes_on_by_hand(
    spark: Cluster, scripts: Path, tell: Teller, tmp_path: Path
) -> None:
    tell.begin("rank", "a rank of a training gets SIGKILL; the same command again, with its `--checkpoint`", "spark")
    results = tmp_path / "results"
    place = f"--checkpoint=hdfs:///checkpoints/{new_name()}.pt"
    words = (*TRAINING, "--epochs=40", place)
    going = spark.fab_background(*words, "--name", new_name(), results=results)
    trained_and_kept(going)
    mark = "sudo sh -c 'kill -9 $(pgrep -u regatta -f [/]train.py$)'"
    told = strike(going, lambda: spark.lab.ssh("node2", mark), LOST_SECONDS)
    explained(told, "node2", r"rank 1 on node2: executor \d+: ")
    nothing_left(spark, scripts)
    done = spark.fab(*words, "--name", f"{new_name()}-again", results=results)
    assert not re.search(r"epochs 1/40", done.stdout), done.stdout
    again = record(results, "f-")
    spark.fab(*TRAINING, "--epochs=40", "--name", "z-whole", results=results)
    weights = [[line for line in one["show"] if line.startswith("weights ")] for one in (again, record(results, "z-"))]
    assert weights[0] == weights[1] and len(weights[0]) == 1
    tell.end(
        "the run ends; the second continues from its checkpoint, to bit-identical weights", told.first, told.seconds
    )


def test_a_time_limit_ends_a_training(spark: Cluster, scripts: Path, tell: Teller, tmp_path: Path) -> None:
    tell.begin("spark", "a training that does not end, `--time-limit 60`", "spark")
    words = (*TRAINING, "--epochs=9000", "--time-limit=60", "--name", new_name())
    told = strike(spark.fab_background(*words, results=tmp_path / "results"), lambda: None, LOST_SECONDS)
    assert told.code == 124, told.said
    explained(told, "node1", "time limit of 60 s reached")
    tell.end("the run ends everywhere", told.first)
    nothing_left(spark, scripts)


def test_a_time_limit_ends_a_stage(spark: Cluster, scripts: Path, tell: Teller) -> None:
    tell.begin("spark", "a stage that does not end, `--time-limit 60`", "spark")
    words = ("sparkrun", "--name", new_name(), "--time-limit", "60", "rounds.py", "1", "900")
    told = strike(spark.background(scripts, *words), lambda: None, LOST_SECONDS)
    assert told.code == 124 and f"total {TOTAL}" in told.said, told.said
    tell.end("the run ends everywhere", told.first)
    nothing_left(spark, scripts)


@contextmanager
def small_disks(cluster: Cluster) -> Iterator[None]:
    """Disks of 24 MB for what executors write, on all nodes."""
    size = "size=24m,mode=700,uid=$(id -u regatta),gid=$(id -g regatta)"
    for node in cluster.lab.nodes:
        mount = f"mount -t tmpfs -o {size} none {SPARK}"
        cluster.lab.ssh(node, f"sudo sh -c '{mount}; systemctl restart regatta-spark-worker'")
    try:
        yield
    finally:
        for node in cluster.lab.nodes:
            cluster.lab.ssh(node, f"sudo sh -c 'umount -l {SPARK}; systemctl restart regatta-spark-worker'")


def test_the_disk_of_a_shuffle_is_full(spark: Cluster, scripts: Path, tell: Teller) -> None:
    tell.begin("spark", "a shuffle fills the disk of its executors", "spark")
    with small_disks(spark):
        told = ask(spark, scripts, "disk")
    explained(told, "node", r"executor \d+: .*No space left on device; the disk of node\d is full")
    tell.end("the task is tried four times, then the run ends", told.first)
    nothing_left(spark, scripts)
    next_run(spark, scripts)


def test_a_driver_has_a_wrong_secret(spark: Cluster, scripts: Path, tell: Teller) -> None:
    tell.begin("spark", "a script has a secret of its own (`spark.authenticate.secret`)", "spark")
    told = ask(spark, scripts, "secret")
    explained(told, "node1", "secret")
    assert "begun" not in told.said
    tell.end("the driver is refused", told.first)
    nothing_left(spark, scripts)


def test_a_worker_has_a_wrong_secret(spark: Cluster, scripts: Path, tell: Teller) -> None:
    tell.begin("spark", "a worker has a wrong secret: it was away while secrets were rotated", "spark")
    file = "/etc/regatta/spark/daemons.conf"
    wrong = f'cp -p {file} {file}.away && sed -i "s/^\\(spark.authenticate.secret\\).*/\\1 {"0" * 64}/" {file}'
    with without(spark, "node2", wrong, f"mv {file}.away {file}"):
        told = strike(spark.background(scripts, "sparkrun", "rounds.py", "1"), lambda: None, LOST_SECONDS)
    explained(told, "node2", "not in Spark after 60 s")
    tell.end("nothing is started", told.first)
    nothing_left(spark, scripts)


def test_more_memory_than_any_worker_has(spark: Cluster, scripts: Path, tell: Teller) -> None:
    tell.begin("spark", "a job asks for more memory than any worker has", "spark")
    told = ask(spark, scripts, "memory")
    assert told.code == 1 and "has not accepted any resources" not in told.said, told.said
    assert re.search(r"failed: node1: it asks for executors of \d+ MiB, and the largest worker gives", told.first)
    tell.end("the run ends as soon as the master knows its driver; Spark alone would wait for ever", told.first)
    nothing_left(spark, scripts)


def test_more_workers_than_cores(spark: Cluster, scripts: Path, tell: Teller, tmp_path: Path) -> None:
    tell.begin("spark", "more `--workers` than Spark has cores", "spark")
    words = ("run-digits", "--framework=spark", "--workers=64", "--size=3000")
    told = strike(spark.fab_background(*words, results=tmp_path / "results"), lambda: None)
    assert told.code == 2 and "--workers 64: Spark's workers have" in told.first, told.said
    tell.end("refused before it starts", told.first)
    nothing_left(spark, scripts)


def test_java_is_missing(spark: Cluster, scripts: Path, tell: Teller) -> None:
    tell.begin("spark", "a host has lost its Java", "spark")
    with without(spark, "node2", "mv /usr/lib/jvm /usr/lib/jvm.away", "mv /usr/lib/jvm.away /usr/lib/jvm"):
        told = strike(spark.background(scripts, "sparkrun", "rounds.py", "1"), lambda: None)
    explained(told, "node2", "Spark has no Java there: this host has no Java 17 to 21")
    tell.end("nothing is started", told.first)
    nothing_left(spark, scripts)


def test_a_spark_of_a_persons_own(spark: Cluster, scripts: Path, tell: Teller, monkeypatch: pytest.MonkeyPatch) -> None:
    tell.begin("spark", "`SPARK_HOME`, `SPARK_CONF_DIR` or `PYSPARK_PYTHON` of a person's own", "spark")
    file, message = scripts.parent / "own.env", ""
    for variable in ("SPARK_CONF_DIR", "PYSPARK_PYTHON", "SPARK_HOME"):
        file.write_text(f"{variable}=/opt/mine\n")
        file.chmod(0o600)
        for words in ([f"--env-file={file}"], [f"--env={variable}=/opt/mine"]):
            done = spark.regatta(scripts, "sparkrun", *words, "rounds.py", "1", check=False)
            (message,) = re.findall(rf"^error: .*{variable} is set by Regatta.*$", done.stdout, re.M)
        monkeypatch.setenv(variable, "/opt/mine")
    next_run(spark, scripts)
    tell.end("given to a run it is refused; one of the shell does not come along", message)


def test_a_pandas_that_spark_warns_of(spark: Cluster, scripts: Path, tell: Teller) -> None:
    tell.begin("spark", "a pandas that Spark does not fully support yet", "spark")
    told = ask(spark, scripts, "pandas")
    assert told.code == 0 and "rows 4" in told.said, told.said
    assert told.said.count("does not yet fully support pandas") == 1, told.said
    tell.end("works; Spark's warning appears once")


def test_executors_have_layers_and_hidden_variables(spark: Cluster, scripts: Path) -> None:
    file = scripts.parent / "own.env"
    file.write_text("HIDDEN_WORD=seven77\n")
    file.chmod(0o600)
    told = ask(spark, scripts, "own", "--with=iniconfig", "--env=OPEN_WORD=open", f"--env-file={file}")
    assert told.code == 0, told.said
    (place,) = re.findall(r"found (\S+) open 7", told.said)
    assert place.startswith("/opt/regatta/layers/")
    assert "seven77" not in told.said


PHASES: dict[str, Callable[[Cluster, str], bool]] = {
    "launch": lambda cluster, name: bool(cluster.processes("node1", f"REGATTA_RUN_ID={name}")),
    "rendezvous": lambda cluster, name: bool(cluster.processes("node2", f"REGATTA_RUN_ID={name}")),
}
WORDS = {"compute": "round 2", "collect": "total"}


@pytest.mark.parametrize("phase", [*PHASES, *WORDS])
def test_ctrl_c(spark: Cluster, scripts: Path, tell: Teller, phase: str) -> None:
    tell.begin("controller", f"Ctrl-C in {phase}, `fab sparkrun`", "spark")
    name = new_name()
    rounds = "1" if phase == "collect" else "1000"
    process = spark.background(scripts, "sparkrun", "--name", name, "rounds.py", rounds, "60")
    if phase in WORDS:
        read_until(process, WORDS[phase])
    else:
        wait_for(lambda: PHASES[phase](spark, name), 120)
    told = strike(process, lambda: os.killpg(process.pid, signal.SIGINT))
    assert told.code == 130 and "Traceback" not in told.said, told.said
    tell.end("the run is cancelled on every node", told.first, told.seconds)
    nothing_left(spark, scripts)


def test_a_framework_that_cannot_do_it_is_left_out(spark: Cluster, tell: Teller, tmp_path: Path) -> None:
    tell.begin("spark", "`fab run-ppr --framework all --engine push`, which is nothing for Spark", "-")
    graph = tmp_path / "graph.txt"
    graph.write_text("".join(f"{node} {(node * 7 + 1) % 50}\n" for node in range(50)))
    words = ("--graph", str(graph), "--count", "2", "--engine", "push", "--workers", "2")
    done = spark.fab("run-ppr", *words, "--framework=all", results=tmp_path / "results")
    (message,) = re.findall(r"^without spark: .*$", done.stdout, re.M)
    refused = spark.fab("run-ppr", *words, "--framework=single,spark", results=tmp_path / "results", check=False)
    assert refused.returncode and "error: --framework spark needs --engine csr" in refused.stdout
    tell.end("the others run; named by name it is refused before anything starts", message)


def test_the_head_is_lost(spark: Cluster, scripts: Path, tell: Teller) -> None:
    tell.begin("host", "the head is powered off, `fab sparkrun`", "spark")
    process = begin(spark, scripts, 1000)
    try:
        told = strike(process, lambda: spark.lab.off("node1"), LOST_SECONDS)
    finally:
        spark.lab.on("node1")
        wait_for(lambda: spark.lab.ssh("node1", "true", check=False).returncode == 0, 60)
    explained(told, "node1", "lost in mid-run")
    whole(spark)
    next_run(spark, scripts)
    nothing_left(spark, scripts)
    tell.end("the run ends; master and workers are back by themselves when it boots", told.first, told.seconds)
