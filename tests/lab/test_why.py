"""`regatta why` on hangs of each kind, and what a run says of itself when its ranks waited too long for one."""

import re
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from clusters import Cluster, finish, read_until, wait_for
from hangs import (
    CROWDED,
    CUT,
    HDFS,
    HERE,
    IN_CI,
    KINDS,
    LOSSY,
    MEMORY,
    PROGRAM,
    RAY,
    SERVED,
    SLOW_DISK,
    THROTTLED,
)

sys.path.insert(0, str(Path(__file__).resolve().parent / "faults"))
import kernel


@dataclass(frozen=True)
class Begin:
    """Starts a program that hangs; gives the run's name when all its processes have begun."""

    cluster: Cluster
    folder: Path
    started: "list[subprocess.Popen[str]]" = field(default_factory=list)

    def __call__(self, program: str, *words: str, command: str = "torchrun", begun: int = 3) -> str:
        (self.folder / "train.py").write_text(program)
        run = f"why-{secrets.token_hex(3)}"
        options = ["--pg-timeout", "300"] if command == "torchrun" else []
        typed = (command, "--workers", "3", "--name", run, *options, "train.py", *words)
        self.started.append(self.cluster.background(self.folder, *typed))
        for _ in range(begun):
            read_until(self.started[-1], "begun")
        return run


@pytest.fixture
def begin(cluster: Cluster, tmp_path: Path) -> Iterator[Begin]:
    folder = tmp_path / "project"
    folder.mkdir()
    made = Begin(cluster, folder)
    yield made
    for process in made.started:
        process.send_signal(signal.SIGINT)
        finish(process)


def why(cluster: Cluster, run: str) -> str:
    return cluster.fab("why", run, check=False).stdout


def settled(cluster: Cluster, run: str, words: str) -> None:
    """Wait until the ranks stand where they will stay: `why` says it then in its last line."""
    said: list[str] = []

    def says_it() -> bool:
        said.append(why(cluster, run))
        return re.search(words, said[-1].splitlines()[-1]) is not None

    try:
        wait_for(says_it, 30)
    except AssertionError:
        raise AssertionError(said[-1]) from None


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[] if kind in IN_CI else pytest.mark.whole) for kind in KINDS]
)
def test_why_names_the_rank_and_what_it_does(cluster: Cluster, begin: Begin, kind: str) -> None:
    settled(cluster, begin(PROGRAM, kind), KINDS[kind])


@pytest.mark.parametrize("kind", ["sleep", pytest.param("loop", marks=pytest.mark.whole)])
def test_a_run_says_which_rank_did_not_come_and_where_it_stood(cluster: Cluster, tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(PROGRAM)
    done = cluster.regatta(folder, "torchrun", "--workers", "3", "--pg-timeout", "3", "train.py", kind, check=False)
    words = (
        r"rank 1 on node2: is not in the collective that .* in \(all_reduce at train\.py:\d+\): .* at train\.py:\d+ "
    )
    words += rf"\({kind}\)"
    assert done.returncode == 1 and re.search(words, done.stdout), done.stdout


@pytest.mark.whole  # tests/unit/workloads/test_sitecustomize.py has the words
def test_a_script_for_one_host_is_warned_of_at_once(cluster: Cluster, begin: Begin) -> None:
    run = begin(HERE)
    wait_for(lambda: "train.py:4 sets MASTER_ADDR=localhost" in cluster.fab("logs", run).stdout, 20)


@pytest.mark.whole
def test_a_resource_that_no_node_has(cluster: Cluster, begin: Begin) -> None:
    run = begin(RAY, command="rayrun", begun=1)
    settled(
        cluster, run, r"^Ray waits for .*1 GPU.* to start on_a_gpu: no node has so much GPU; the driver waits .* in get"
    )


@pytest.mark.whole
def test_a_host_that_does_not_answer_is_named_with_its_ranks(cluster: Cluster, begin: Begin) -> None:
    run = begin(PROGRAM, "again")
    kernel.freeze(cluster.lab, "node2")
    try:
        said = why(cluster, run).splitlines()
    finally:
        kernel.thaw(cluster.lab, "node2")
    assert said[-1].startswith("node2 does not answer, where rank 1 is: is the host up, and its network?")
    assert re.search(r"^ranks 0, 2: (all_reduce|computes) at train\.py:\d+ \(again\)", "\n".join(said), re.M), said


@pytest.mark.whole
def test_a_host_that_is_off_is_named(cluster: Cluster, begin: Begin) -> None:
    run = begin(PROGRAM, "again")
    cluster.lab.off("node2")
    try:
        said = why(cluster, run)
        ended = finish(begin.started.pop()) if "is not running" in said else ""
    finally:
        cluster.lab.on("node2")
    assert "node2 does not answer, where rank 1 is" in said or "node2: the node was lost" in ended, said + ended


@pytest.mark.whole
def test_a_network_that_is_cut_between_two_hosts_is_named(cluster: Cluster, begin: Begin) -> None:
    run = begin(PROGRAM, "again")
    with dropping(cluster, "drop"):
        settled(cluster, run, CUT)


@contextmanager
def dropping(cluster: Cluster, verdict: str) -> Iterator[None]:
    """Let node2 send by this verdict to the other hosts; the way to this machine stays."""
    peers = f"{{ {cluster.lab.addresses['node1']}, {cluster.lab.addresses['node3']} }}"
    chain = f"type filter hook output priority -300;\nip daddr {peers} {verdict};"
    rules = f"table inet cut {{\nchain out {{\n{chain}\n}}\n}}\n"
    cluster.lab.ssh("node2", f"echo '{rules}' | sudo nft -f -")
    try:
        yield
    finally:
        cluster.lab.ssh("node2", "sudo nft delete table inet cut")


def pid_of(cluster: Cluster, run: str, rank: int) -> int:
    """The number that a rank's process has on node2."""
    return int(cluster.processes("node2", f"RANK={rank}")[0].split("/")[2])


@pytest.mark.whole
@pytest.mark.parametrize(
    ("kind", "limit", "words"),
    [
        ("memory", lambda *at: kernel.little_memory(*at, 200, waits=True), MEMORY),
        ("disk", lambda *at: kernel.slow_disk(*at, 64), SLOW_DISK),
        ("loop", lambda *at: kernel.little_cpu(*at, 0.1), THROTTLED),
    ],
    ids=["memory", "disk", "throttled"],
)
def test_a_limit_that_holds_a_rank_is_named(
    cluster: Cluster, begin: Begin, kind: str, limit: Callable[..., AbstractContextManager[None]], words: str
) -> None:
    run = begin(PROGRAM, kind)
    with limit(cluster.lab, "node2", pid_of(cluster, run, 1)):
        settled(cluster, run, words)


@pytest.mark.whole
def test_a_file_whose_server_does_not_answer_is_named(cluster: Cluster, begin: Begin) -> None:
    with kernel.stopped_files(cluster.lab, "node2", "/mnt/served"):
        settled(cluster, begin(PROGRAM, "served"), SERVED)


@pytest.mark.whole
def test_a_frozen_datanode_is_named_by_its_address(cluster: Cluster, begin: Begin) -> None:
    unit = "regatta-hdfs-datanode.service"
    cluster.lab.ssh("node3", f"sudo systemctl kill -s STOP {unit}")
    try:
        settled(cluster, begin(PROGRAM, "hdfs", "0", cluster.lab.addresses["node3"]), HDFS)
    finally:
        cluster.lab.ssh("node3", f"sudo systemctl kill -s CONT {unit}")


@pytest.mark.whole
def test_others_that_use_the_cores_of_a_host_are_named(cluster: Cluster, begin: Begin) -> None:
    run = begin(PROGRAM, "loop")
    busy = "sudo systemd-run -q --unit=busy sh -c 'for one in $(seq 8); do while :; do :; done & done; wait'"
    cluster.lab.ssh("node2", busy)
    try:
        settled(cluster, run, CROWDED)
    finally:
        cluster.lab.ssh("node2", "sudo systemctl stop busy")


@pytest.mark.whole
def test_a_network_that_loses_packets_is_named(cluster: Cluster, begin: Begin) -> None:
    run = begin(PROGRAM, "again")
    with dropping(cluster, "numgen random mod 10 < 1 drop"):
        settled(cluster, run, LOSSY)
