"""Spark's side of the controller: what its master says, who is a member, what a driver prints of a failure."""

import http.server
import json
import re
import shlex
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from regatta import files
from regatta.errors import LaunchError, UsageError
from regatta.frameworks import registry
from regatta.frameworks.api import StartedRun
from regatta.frameworks.plan import Plan, Program, Rank
from regatta.frameworks.spark import adapter
from regatta.frameworks.spark import judge as sparkjudge
from regatta.frameworks.spark import service as sparkservice
from regatta.frameworks.spark.judge import SparkJudge
from regatta.frameworks.spark.node import master as spark
from regatta.hosts.cluster import Cluster, Node
from regatta.hosts.remote import Remote
from regatta.options.declaration import RunOptions
from regatta.paths import PROJECT
from regatta.provisioning import secrets
from regatta.provisioning import spark as spark_release
from regatta.run import causes, services
from regatta.run.outcome import Accounts
from regatta.run.request import Request
from regatta.run.session import Session
from regatta.terminal.console import Console
from regatta_protocol.log import DRIVER
from regatta_protocol.operations.launch import Inspect
from regatta_protocol.operations.services import AskStatus
from regatta_protocol.run import Ended, Failure
from regatta_protocol.states import State

ALIVE = {"host": "127.0.0.1", "cores": 2, "memory": 2048, "state": "ALIVE"}
DEAD = {"host": "127.0.0.2", "cores": 2, "memory": 9999, "state": "DEAD"}
APPLICATION = {"name": "mine", "state": "WAITING", "cores": 0, "memoryperexecutor": 4096}
RAISED = """\
26/11/24 14:11:39 WARN TaskSetManager: Lost task 0.0 in stage 0.0 (TID 0) (127.0.0.2 executor 1): \
org.apache.spark.api.python.PythonException: [PYTHON_EXCEPTION] An exception was thrown from the Python worker: \
Traceback (most recent call last):
  File "/work/fails.py", line 6, in fail
    raise ValueError("no such number")
ValueError: no such number
 SQLSTATE: 38000
\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:1097)

26/11/24 14:11:43 ERROR TaskSetManager: Task 3 in stage 0.0 failed 4 times; aborting job
26/11/24 14:11:43 WARN TaskSetManager: Lost task 1.3 in stage 0.0 (TID 12) (127.0.0.1 executor 0): TaskKilled (Stage \
cancelled: [PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback (most recent call last):
ValueError: another one
pyspark.errors.exceptions.captured.PythonException: An exception was thrown from the Python worker:
"""
HEAP = """\
26/11/24 14:29:56 WARN TaskSetManager: Lost task 3.4 in stage 0.0 (TID 7) (127.0.0.2 executor 3): \
java.lang.OutOfMemoryError: Java heap space
26/11/24 14:29:56 ERROR TaskSetManager: Task 3 in stage 0.0 failed 4 times; aborting job
26/11/24 14:29:57 ERROR TaskSchedulerImpl: Lost executor 3 on 127.0.0.2: Command exited with code 52
"""
LOST = """\
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times, \
most recent failure: Lost task 0.3 in stage 0.0 (TID 3) (127.0.0.2 executor 7): ExecutorLostFailure (executor 7 \
exited caused by one of the running tasks) Reason: Command exited with code 52
"""


@pytest.fixture
def master(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """The answer of a master; a test may change it."""
    told: dict[str, Any] = {"workers": [ALIVE, DEAD], "activeapps": [APPLICATION]}

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(told).encode())

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        (tmp_path / "spark.json").write_text(json.dumps({"page": server.server_address[1]}))
        monkeypatch.setattr(spark, "CONF", str(tmp_path / "spark.json"))
        yield told
        server.shutdown()


def test_what_a_master_says(master: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    said = spark.state({})
    assert said["workers"] == [{"address": "127.0.0.1", "cores": 2, "memory": 2048}]
    assert said["applications"] == [{"name": "mine", "waiting": True, "cores": 0, "memory": 4096}]
    assert said["installed"] and not said["problem"]
    master.pop("workers")
    assert "does not answer" in spark.state({})["problem"]
    monkeypatch.setattr(spark, "CONF", str(tmp_path / "none"))
    assert not spark.state({})["installed"]


def test_the_pages_of_jobs_are_at_ports_where_a_driver_listens(
    master: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    port = json.loads((tmp_path / "spark.json").read_text())["page"]
    assert spark.pages({}) == {"address": "", "ports": []}
    monkeypatch.setattr(spark, "JOBS", 2)
    (tmp_path / "spark.json").write_text(json.dumps({"page": port, "jobs": ["127.0.0.1", port - 1]}))
    assert spark.pages({})["address"] == "127.0.0.1" and port in spark.pages({})["ports"]
    page = sparkservice._of_job("127.0.0.1", port, ["mine"])
    assert page.name == "Spark job mine" and page.passing and page.check(port) == ""
    assert sparkservice._of_job("127.0.0.1", port, ["mine", "other"]).name == f"Spark job at port {port}"
    monkeypatch.setattr(sparkservice, "ANSWER_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as busy:
        assert page.check(busy.getsockname()[1]) == ""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        gone = closed.getsockname()[1]
    with pytest.raises(OSError, match="refused"):
        page.check(gone)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Remote]:
    """Requests to two nodes, of which the first is this machine."""
    nodes = tuple(
        Node(name, name, address, True, None, None, None, (), "/opt/r", "/var/r", "/opt/r/env/bin/python")
        for name, address in (("here", "127.0.0.1"), ("there", "127.0.0.2"))
    )
    made = Remote(Cluster("pair", tmp_path, nodes, nodes, nodes[0]))
    yield made
    made.close()


class Asked(sparkservice.SparkService):
    """One whose head says what a test wants."""

    def __init__(self, remote: Remote, said: dict[str, Any]) -> None:
        super().__init__(remote)
        self._said = said

    def look(self) -> dict[str, Any]:
        return self._said


def state(*workers: str, applications: list[dict[str, Any]] | None = None, problem: str = "") -> dict[str, Any]:
    found = [{"address": address, "cores": 2, "memory": 2048} for address in workers]
    return {
        "installed": True, "page": 1, "workers": found, "applications": applications or [], "problem": problem
    }  # fmt: skip


def test_members_are_the_workers_and_a_head_without_one(pair: Remote) -> None:
    here, there = pair.cluster.nodes
    assert Asked(pair, state("127.0.0.1")).members(pair.cluster.nodes, {}) == ["127.0.0.1"]
    without = Remote(replace(pair.cluster, workers=(there,)))
    found = Asked(without, state("127.0.0.2")).members(without.cluster.nodes, {})
    assert found == [here.cluster_address, "127.0.0.2"]
    with pytest.raises(LaunchError, match="is down"):
        Asked(pair, state(problem="it is down")).members(pair.cluster.nodes, {})


def test_who_has_not_joined_is_named(pair: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparkservice, "JOIN_SECONDS", 0.1)
    heard: list[str] = []
    service = Asked(pair, state("127.0.0.1"))
    with pytest.raises(LaunchError, match=r"there: not in Spark"):
        service.wait(pair.cluster.nodes, service.look(), {}, heard.append)
    assert len(heard) == 1 and "there" in heard[0]
    service.wait(pair.cluster.nodes, state("127.0.0.1", "127.0.0.2"), {}, heard.append)
    assert len(heard) == 1


def test_a_host_without_java_is_named_at_once(pair: Remote) -> None:
    service, both = Asked(pair, state("127.0.0.1", "127.0.0.2")), state("127.0.0.1", "127.0.0.2")
    with pytest.raises(LaunchError, match=r"there: Spark has no Java there: none; 'regatta provision'"):
        service.wait(pair.cluster.nodes, both, {"here": {"java": ""}, "there": {"java": "none"}}, lambda _: None)


def test_why_there_is_no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "spark-env.sh"
    monkeypatch.setattr(spark, "ENVIRONMENT", str(file))
    assert not spark.java_problem({})
    file.write_text("export ONE=1\n")
    assert not spark.java_problem({})
    file.write_text("echo 'this host has no Java' >&2; exit 1\n")
    assert spark.java_problem({}) == "this host has no Java"


@pytest.mark.parametrize("asked", [Inspect(), AskStatus(())])
def test_what_frameworks_ask_of_nodes_is_known_there(pair: Remote, asked: Inspect | AskStatus) -> None:
    asks = {word: of for name in registry.names() for word, of in registry.find(name).asks(pair.cluster).items()}
    assert {"java", "ray_node"} <= {*asks}
    assert {*asks} == {*pair.call(pair.cluster.head, asked.changed(asks=asks)).told}


def test_more_workers_than_cores_are_refused(pair: Remote) -> None:
    service, here = Asked(pair, state("127.0.0.1", "127.0.0.2")), pair.cluster.head
    ranks = tuple(Rank(number, number, here) for number in range(5))
    plan = Plan("r", "spark", Program.script("job.py", []), "rel", ranks[:4], 1, "env")
    assert service.capacity_error(plan) is None
    said = str(service.capacity_error(replace(plan, ranks=ranks)))
    assert said.startswith("--workers 5: Spark's workers have 4 core(s) together") and "--workers 4 or fewer" in said


@pytest.mark.parametrize(
    ("applications", "word"),
    [
        ([("mine", True, 0, 4096)], "4096 MiB"),
        ([("their-own-name", True, 0, 4096)], "4096 MiB"),
        ([("mine", True, 0, 512)], "executor.cores"),
        ([("mine", True, 0, 512), ("other", False, 4, 512)], None),
        ([("mine", True, 0, 4096), ("other", False, 4, 512)], "4096 MiB"),
        ([("their-own-name", True, 0, 4096), ("other", True, 0, 512), ("third", False, 2, 512)], None),
        ([("mine", False, 2, 512)], None),
    ],
)
def test_a_job_that_no_worker_can_serve(applications: list[tuple[str, bool, int, int]], word: str | None) -> None:
    told = [dict(zip(("name", "waiting", "cores", "memory"), one, strict=True)) for one in applications]
    why = sparkservice.never(state("127.0.0.1", applications=told), "mine")
    assert (why is None) if word is None else (why is not None and word in why)


@pytest.mark.parametrize(
    ("workers", "applications", "said"),
    [
        (["127.0.0.1"], [("mine", True, 0, 512), ("other", False, 2, 512)], "cores are in use by other"),
        (["127.0.0.1"], [("mine", True, 0, 4096)], "4096 MiB"),
        ([], [("mine", True, 0, 512)], "no worker is left"),
        (["127.0.0.1"], [("mine", False, 2, 512), ("other", True, 0, 512)], ""),
    ],
)
def test_a_run_that_waits_for_executors_says_for_what(
    workers: list[str], applications: list[tuple[str, bool, int, int]], said: str
) -> None:
    told = [dict(zip(("name", "waiting", "cores", "memory"), one, strict=True)) for one in applications]
    found = sparkservice.waits(state(*workers, applications=told), "mine")
    assert [said in one for one in found] == ([True] if said else [])


def judged(pair: Remote, **application: Any) -> SparkJudge:
    """Of the run `r`, while the master knows of an application."""
    told = {"name": "r", "waiting": True, "cores": 0, "memory": 512, **application}
    service, cluster = Asked(pair, state("127.0.0.1", applications=[told])), pair.cluster
    return SparkJudge(StartedRun("r", cluster, cluster.nodes, registry.find("spark"), {0: "here"}, service))


@pytest.fixture
def judge(pair: Remote) -> SparkJudge:
    return judged(pair, name="their-own-name", memory=4096)


def test_a_driver_that_asks_for_too_much_is_ended_once_the_master_knows_it(pair: Remote) -> None:
    judge = judged(pair, memory=4096)
    judge.on_state(judge.poll())
    assert judge.over({}) and judge.failed() and "4096 MiB" in str(judge.failure_message())


def test_a_driver_that_meets_its_time_limit_has_no_executor_to_blame(judge: SparkJudge) -> None:
    for line in HEAP.splitlines():
        judge.on_line(DRIVER, line.replace("127.0.0.2", "127.0.0.1"))
    failure = Failure(DRIVER, 124, at=1.0, cause="time limit reached")
    told = Accounts(exits={judge.handle.cluster.head.name: Ended(State.FAILED, failure=failure)})
    found = causes.failure(judge, told)
    assert found and (found.cause, found.code, found.rank) == ("time limit reached", 124, DRIVER)
    told.exits[judge.handle.cluster.head.name] = Ended(State.FAILED, failure=failure.changed(cause=None))
    assert (found := causes.failure(judge, told)) and "out of memory" in found.cause


def test_a_driver_that_the_master_knows_is_not_asked_for_again(pair: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    judge = judged(pair)
    assert judge.poll() is None
    monkeypatch.setattr(Asked, "look", lambda _: pytest.fail("asked again"))
    monkeypatch.setattr(sparkjudge, "LOOK_SECONDS", 0.0)
    assert judge.poll() is None


def test_a_driver_that_waits_in_vain_is_ended(judge: SparkJudge) -> None:
    judge.on_line(DRIVER, "begun")
    assert judge.poll() is None and not judge.over({}) and not judge.failed()
    judge.on_line(DRIVER, "WARN TaskSchedulerImpl: Initial job has not accepted any resources; check your cluster UI")
    judge.on_state(judge.poll())
    assert judge.over({}) and judge.failed() and "4096 MiB" in str(judge.failure_message())


@pytest.mark.parametrize(
    ("printed", "cause"),
    [
        (RAISED, "executor 1: ValueError: no such number"),
        (LOST, "executor 7: out of memory"),
        (HEAP, "executor 3: out of memory"),
    ],
)
def test_the_executor_that_failed_is_named(judge: SparkJudge, printed: str, cause: str) -> None:
    for line in printed.splitlines():
        judge.on_line(DRIVER, line)
    found = judge.blame(DRIVER, [])
    assert found and found.node == "there" and found.rank is None and found.cause.startswith(cause)
    assert judge.over({"here": 1.0}) and not judge.over({"there": 1.0})


def test_a_driver_that_fails_by_itself_is_to_blame(judge: SparkJudge) -> None:
    once = RAISED.split("ERROR", maxsplit=1)[0]  # a task failed, and was done again
    for line in (*once.splitlines(), "ValueError: mine"):
        judge.on_line(DRIVER, line)
    assert judge.blame(DRIVER, ["ValueError: mine"]) is None


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (
            ["x: java.lang.IllegalArgumentException: Authentication failed.", "Failed to connect to master here:1"],
            "secret",
        ),
        (["WARN Failed to connect to master here:1", "All masters are unresponsive! Giving up."], "did not answer"),
        (["WARN Failed to connect to master here:1"], None),
    ],
)
def test_a_driver_that_the_master_does_not_take(judge: SparkJudge, lines: list[str], words: str | None) -> None:
    for line in lines:
        judge.on_line(DRIVER, line)
    assert judge.over({}) is judge.failed() is (words is not None)
    assert words is None or words in str(judge.failure_message())


def test_a_driver_whose_java_is_gone_says_so(judge: SparkJudge) -> None:
    judge.on_line(DRIVER, "py4j.protocol.Py4JNetworkError: Answer from Java side is empty")
    found = judge.blame(DRIVER, [])
    assert found and (found.node, found.rank) == ("here", DRIVER) and found.cause.startswith("the Java of the driver")


EXITED = "pyspark.errors.exceptions.base.PySparkRuntimeError: [JAVA_GATEWAY_EXITED] Java gateway process exited before \
sending its port number."


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["Invalid maximum heap size: -Xmxplum", "Error: Could not create the Java Virtual Machine."], "-Xmxplum"),
        (["Unrecognized VM option 'NoSuchThing'", "Error: Could not create the Java"], "NoSuchThing"),
        (['Exception in thread "main" java.lang.IllegalArgumentException: no port', "\tat a.B"], "no port"),
        (
            ["Error: Not allowed to specify max heap(Xmx) settings", *["  --name NAME  A name."] * 80, "Usage:"],
            "Not allowed to specify max heap",
        ),
        (["26/11/24 14:11:39 WARN Utils: a warning"], "says nothing of why"),
    ],
)
def test_the_first_error_of_a_java_that_has_ended_is_quoted(judge: SparkJudge, lines: list[str], said: str) -> None:
    for line in (*lines, "Traceback (most recent call last):", EXITED):
        judge.on_line(DRIVER, line)
    found = judge.blame(DRIVER, [])
    assert found and said in found.cause and "memory" not in found.cause
    exits = {"here": Ended(State.FAILED, failure=Failure(DRIVER, 1), oom_kills=1)}
    assert "out of memory: the kernel of here" in (causes.failure(judge, Accounts(exits=exits)) or found).cause


def test_the_rank_that_failed_is_named(judge: SparkJudge) -> None:
    told = {"event": "failed", "rank": DRIVER, "t": 1.0, "of": 1, "address": "127.0.0.2", "words": "a\nexecutor 3: oh"}
    judge.on_line(DRIVER, f"@regatta {json.dumps(told)}")
    judge.on_line(DRIVER, f"@regatta {json.dumps({**told, 'of': 0, 'address': '127.0.0.1'})}")
    for line in RAISED.splitlines():
        judge.on_line(DRIVER, line)
    found = judge.blame(DRIVER, [])
    assert found and (found.node, found.rank, found.cause) == ("there", 1, "executor 3: oh")


def test_lost_ranks_are_not_started_again(pair: Remote) -> None:
    plan = Plan("r", "spark", Program.script("job.py", []), "rel", (Rank(0, 0, pair.cluster.head),), 1, "env")
    registry.find("spark").check(plan)
    with pytest.raises(UsageError, match="--restarts"):
        registry.find("spark").check(replace(plan, options=RunOptions(restarts=1)))


def test_executors_get_the_variables_of_the_run_and_no_hidden_ones(pair: Remote) -> None:
    here, there = pair.cluster.nodes
    ranks, hidden = (Rank(0, 0, here), Rank(1, 0, there)), {"PASSWORD": "x"}
    plan = Plan("r", "spark", Program.script("job.py", []), "rel", ranks, 1, "env", hidden=hidden)
    made = registry.find("spark").specs(replace(plan, variables={"MINE": "a b"}), pair.cluster)
    assert (made["here"].mode, made["there"].mode, made["there"].ranks) == ("session", "member", ())
    words = made["here"].env["PYSPARK_SUBMIT_ARGS"]
    assert "'spark.executorEnv.MINE=a b'" in words and "spark.executorEnv.REGATTA_RUN_ID=r" in words
    assert "PASSWORD" not in words
    assert re.search(r"spark\.jars\.ivy=\S+/runs/r/scratch/", words), "the account's home belongs to root"


def test_what_a_cluster_of_its_own_has_for_its_runs(cluster_of_hosts: Cluster) -> None:
    found = registry.find("spark")
    assert found.provides(cluster_of_hosts) == {}, "no Spark is there"
    secret = cluster_of_hosts.folder / "secrets" / sparkservice.SECRET
    secret.parent.mkdir(parents=True, exist_ok=True)
    secret.write_text("x")
    assert found.provides(cluster_of_hosts) == {"pyspark": spark_release.version(), "py4j": adapter.PY4J}
    (secret.parent / sparkservice.FOREIGN).write_text("spark://host:7077")
    assert found.provides(cluster_of_hosts) == {}, "its version is not ours to know"


def test_a_cluster_without_spark_says_so(cluster_of_hosts: Cluster) -> None:
    spark_framework = registry.find("spark")
    assert "spark_enabled" in str(spark_framework.available(cluster_of_hosts))
    (cluster_of_hosts.folder / "secrets").mkdir()
    (cluster_of_hosts.folder / "secrets/spark_secret").touch()
    assert spark_framework.available(cluster_of_hosts) is None


@pytest.mark.parametrize(
    ("master", "asked"), [("spark://there:7077", "spark.cores.max=2"), ("yarn", "spark.executor.instances=2")]
)
def test_a_master_of_somebody_else(pair: Remote, cluster_of_hosts: Cluster, master: str, asked: str) -> None:
    secrets, framework = cluster_of_hosts.folder / "secrets", registry.find("spark")
    secrets.mkdir()
    (secrets / "spark_master").write_text(f"{master}\n")
    assert framework.available(cluster_of_hosts) is None and not framework.served(cluster_of_hosts)
    assert [line for line in services.foreign(cluster_of_hosts) if master in line and line.startswith("Spark: ")]
    head = cluster_of_hosts.head
    assert framework.hosts(cluster_of_hosts) == (head,)
    ranks = tuple(Rank(number, number, head) for number in range(2))
    plan = Plan("r", "spark", Program.script("job.py", []), "rel", ranks, 1, "env", variables={"PYSPARK_PYTHON": "/p"})
    (spec,) = framework.specs(plan, cluster_of_hosts).values()
    words = shlex.split(spec.env["PYSPARK_SUBMIT_ARGS"])
    assert asked in words and "spark.executorEnv.PYSPARK_PYTHON=/p" in words
    assert not [word for word in words if "REGATTA" in word or head.root in word or "spark.master" in word]
    assert spec.env["PYSPARK_PYTHON"] == "/p" and spec.env["SPARK_CONF_DIR"] == "/etc/regatta/spark"


def test_executors_of_our_own_take_no_other_python(pair: Remote, cluster_of_hosts: Cluster) -> None:
    ranks, own = (Rank(0, 0, cluster_of_hosts.head),), {"PYSPARK_PYTHON": "/opt/mine/python"}
    plan = Plan("r", "spark", Program.script("job.py", []), "rel", ranks, 1, "env", hidden=own)
    with pytest.raises(UsageError, match="PYSPARK_PYTHON is set by Regatta"):
        registry.find("spark").specs(plan, cluster_of_hosts)


def test_the_address_of_anothers_master_goes_with_the_secrets(tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    for name in ("spark_master", "mine"):
        (tmp_path / "secrets" / name).touch()
    assert secrets.remove(tmp_path)
    assert [path.name for path in (tmp_path / "secrets").iterdir()] == ["mine"]


JARS = "{home}/jars/*"


@pytest.mark.parametrize(
    ("words", "got"),
    [
        (
            ("-Xmx1g", "-cp", f"/conf/:{JARS}:/hadoop", "Main", "-cp", "a b"),
            (f"{JARS}:/conf/:/hadoop", "Main", "-cp", "a b"),
        ),
        (("-cp", JARS, "Main", "", "*"), (JARS, "Main", "", "*")),
        (("-cp", f"{JARS}:/conf/:{{home}}/jars/one.jar", "Main"), (f"{JARS}:/conf/:{{home}}/jars/one.jar", "Main")),
    ],
)
@pytest.mark.parametrize("archive", [True, False])
def test_java_gets_a_class_path_that_an_archive_of_classes_fits(
    tmp_path: Path, words: tuple[str, ...], got: tuple[str, ...], archive: bool
) -> None:
    home = tmp_path / "spark/pyspark"
    home.mkdir(parents=True)
    if archive:
        (tmp_path / "spark/classes.jsa").touch()
    java = tmp_path / "java/bin/java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    java.chmod(0o755)
    env = {"SPARK_HOME": str(home), "REGATTA_JAVA": str(tmp_path / "java"), "PATH": "/usr/bin:/bin"}
    command = ["sh", str(PROJECT / "ansible/roles/spark/files/java.sh"), *(word.format(home=home) for word in words)]
    said = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout.splitlines()
    place = said.index("-cp")
    assert tuple(said[place + 1 :]) == tuple(word.format(home=home) for word in got)
    assert ("-Xshare:auto" in said[:place]) is archive


def test_a_run_under_spark_is_refused_at_once_where_there_is_none(remote: Remote, source: Path, tmp_path: Path) -> None:
    request = Request(Program.script("train.py", []), "spark", source, RunOptions(1, "one"))
    refused = pytest.raises(UsageError, match=r"spark cannot be used on .*spark_enabled.*provision")
    with Console() as console, Session(remote.cluster, console, tmp_path) as session, refused:
        session.run(request)


@pytest.fixture
def cluster_of_hosts(pair: Remote, tmp_path: Path) -> Cluster:
    """One whose nodes are not this machine."""
    nodes = tuple(replace(node, local=False) for node in pair.cluster.nodes)
    return replace(pair.cluster, nodes=nodes, workers=nodes, head=nodes[0], folder=tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot be read: No such file"),
        ("spark.one 1\nspark.authenticate.secret\n", "line 2 is no property"),
        ("my-secret-word\n", "line 1 is no property"),
    ],
)
def test_a_file_of_properties_is_read_before_hosts_get_it(tmp_path: Path, text: str | None, said: str) -> None:
    file = tmp_path / "secret.conf"
    if text is not None:
        file.write_text(text)
    with pytest.raises(spark_release.SparkError, match=said) as found:
        spark_release.check_properties(str(file))
    assert str(file) in str(found.value) and "my-secret-word" not in str(found.value)


def test_a_file_of_properties_may_be_as_spark_reads_them(tmp_path: Path) -> None:
    file = tmp_path / "secret.conf"
    file.write_text("# a comment\n\nspark.authenticate true\n  spark.authenticate.secret=abc\nspark.a.b: c\n")
    spark_release.check_properties(str(file))
    spark_release.check_properties("")


@pytest.mark.parametrize("killed", ["kill -9 $PPID", '/bin/mv "$@"; kill -9 $PPID'], ids=["before", "after"])
def test_unpacking_that_is_killed_blocks_no_later_one(tmp_path: Path, killed: str) -> None:
    (made := tmp_path / "made/pyspark").mkdir(parents=True)
    for name in ("bin/spark-class", "python/lib/py4j-1-src.zip"):
        (made / name).parent.mkdir(parents=True)
        (made / name).touch()
    (root := tmp_path / "root").mkdir()
    (shim := tmp_path / "shim").mkdir()
    (shim / "mv").write_text(f"#!/bin/sh\n{killed}\n")
    (shim / "mv").chmod(0o755)
    there = root / "spark-new/pyspark/bin/spark-class"

    def provision(path: str) -> None:
        if there.exists():  # as the role looks
            return
        (archive := tmp_path / "in/spark.tar").parent.mkdir(exist_ok=True)
        subprocess.run(["tar", "-cf", archive, "-C", tmp_path / "made", "pyspark"], check=True)
        words = ["sh", "-c", (PROJECT / "ansible/roles/spark/files/unpack.sh").read_text(), "unpack", root, archive]
        subprocess.run([*words, files.sha256(archive), "spark-new"], env={"PATH": path}, check=False)

    provision(f"{shim}:/usr/bin:/bin")
    provision("/usr/bin:/bin")
    assert (root / "spark/pyspark/bin/spark-class").resolve() == there


def test_a_half_description_of_an_archive_is_none(tmp_path: Path) -> None:
    for text in ("", '{"path": "/x", "sha', "[]", '{"path": "/x"}'):
        (tmp_path / "release.json").write_text(text)
        assert spark_release._told(tmp_path / "release.json") is None
