"""Disks that are full, a clock that is wrong, an sshd that starts again."""

import contextlib
import json
import re
import shlex
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from clusters import Cluster
from faulty import NEXT_STEP, Told, begin, command, explained, new_name, next_run, nothing_left, strike, whole
from kernel import own_limits
from provisioning import play
from telling import Teller

BOTH = pytest.mark.parametrize("framework", ["torch", "ray"])
TORCH_IN_CI = pytest.mark.parametrize("framework", ["torch", pytest.param("ray", marks=pytest.mark.whole)])
RUNS = "/var/lib/regatta/runs"
AHEAD = "/usr/local/lib/ahead.so"


@contextmanager
def small_disk(cluster: Cluster, node: str) -> Iterator[None]:
    """A disk of 3 MB for new runs of a node."""
    mount = f"mount -t tmpfs -o size=3m,mode=755,uid=$(id -u regatta),gid=$(id -g regatta) none {RUNS}"
    cluster.lab.ssh(node, f"sudo mkdir -p {RUNS}; sudo sh -c '{mount}'")
    try:
        yield
    finally:
        cluster.lab.ssh(node, f"sudo umount -l {RUNS}")


def fill(cluster: Cluster, node: str) -> None:
    cluster.lab.ssh(node, f"sudo -u regatta dd if=/dev/zero of={RUNS}/.full bs=64k 2>/dev/null", check=False)


@pytest.mark.first
@TORCH_IN_CI
def test_no_run_starts_on_a_full_disk(struck: Cluster, project: Path, tell: Teller, framework: str) -> None:
    tell.begin("resources", "the disk of a node is full when a run starts", framework)
    name = new_name()
    words = command(framework, "ranks", name, "/none", "3")
    with small_disk(struck, "node2"):
        fill(struck, "node2")
        told = strike(struck.background(project, *words), lambda: None)
    assert told.code == 1, told.said
    explained(told, "node2", "node2: No space left on device: free some space")
    tell.end("nothing is started", told.first, told.seconds)
    nothing_left(struck, project)
    next_run(struck, project, framework)


@pytest.mark.whole
def test_the_disk_of_a_node_fills_in_mid_run(struck: Cluster, project: Path, tell: Teller) -> None:
    tell.begin("resources", "the disk of a node fills up in mid-run", "torch")
    with small_disk(struck, "node2"):
        run = begin(struck, project, "torch", rounds=100)
        told = strike(run.process, lambda: fill(struck, "node2"))
        assert told.code == 0, told.said
        kept = struck.lab.ssh("node2", f"sudo cat {RUNS}/{run.name}/exit.json").stdout
    assert json.loads(kept)["state"] == "succeeded"
    assert "sum 100" in told.said
    tell.end("continues, and ends with the right answer")
    nothing_left(struck, project)


@pytest.fixture
def tight(struck: Cluster) -> Iterator[None]:
    """An inventory that lets runs have little."""
    variables = struck.lab.inventory / "group_vars/all.yml"
    before = variables.read_text() if variables.exists() else None
    variables.parent.mkdir(exist_ok=True)
    tighter = "regatta_run_memory_share: 0.05\nregatta_run_processes: 100\nregatta_run_log_mb: 2\n"
    variables.write_text((before or "") + tighter)
    try:
        yield
    finally:
        variables.write_text(before) if before is not None else variables.unlink()


def greedy(cluster: Cluster, project: Path, what: str, *options: str) -> tuple[str, Told]:
    """A run of one rank, on the first host, that takes all that it gets of something: its name, and what was said."""
    name = new_name()
    words = ("torchrun", "--workers", "1", "--name", name, *options, "greedy.py", what)
    return name, strike(cluster.background(project, *words), lambda: None)


@pytest.mark.parametrize(
    ("what", "fault", "variable"),
    [
        ("memory", "a run takes all memory that it gets", "regatta_run_memory_share"),
        ("processes", "a run starts processes without end", "regatta_run_processes"),
    ],
    ids=["memory", "processes"],
)
@pytest.mark.usefixtures("tight")
def test_a_run_meets_a_limit_of_its_unit(
    struck: Cluster, project: Path, tell: Teller, what: str, fault: str, variable: str
) -> None:
    tell.begin("resources", fault, "torch")
    with own_limits(struck.lab, "node1"):
        _, told = greedy(struck, project, what)
    explained(told, "node1", f"rank 0 on node1: .*the limit of runs on node1, .*{variable}")
    tell.end("the run ends; the message names the limit", told.first, told.seconds)
    nothing_left(struck, project)
    next_run(struck, project, "torch")


@pytest.mark.usefixtures("tight")
def test_a_run_prints_without_end(struck: Cluster, project: Path, tell: Teller) -> None:
    tell.begin("resources", "a run prints without end, `--time-limit 5`", "torch")
    name, told = greedy(struck, project, "log", "--time-limit", "5")
    assert told.code == 124, told.said[-2000:]
    explained(told, "node1", "time limit of 5 s reached")
    kept = struck.lab.ssh("node1", f"sudo sh -c 'cat {RUNS}/{name}/log* | wc -c'").stdout
    assert 1_000_000 < int(kept) < 2_100_000
    shown = struck.fab("logs", name).stdout
    assert len(shown) < 4_000_000
    assert re.search(r"^node1 +\| .*\d,\d{3} bytes", shown, re.M)
    tell.end("the run ends; its log keeps the beginning and the end", told.first)
    nothing_left(struck, project)


def test_a_run_fills_the_disk(struck: Cluster, project: Path, tell: Teller) -> None:
    tell.begin("resources", "a run fills the disk of its node", "torch")
    with small_disk(struck, "node1"):
        name, told = greedy(struck, project, "disk")
        _, again = greedy(struck, project, "disk")
        kept = json.loads(struck.lab.ssh("node1", f"sudo cat {RUNS}/{name}/exit.json").stdout)
    explained(told, "node1", "rank 0 on node1: .*the disk of node1 is full")
    assert "No space left on device" in told.message
    assert kept["state"] == "failed"
    explained(again, "node1", "No space left on device: free some space")
    tell.end("the run ends; the next one ends with the same message, until there is space", told.first, told.seconds)
    nothing_left(struck, project)
    next_run(struck, project, "torch")


@contextmanager
def full_folder(folder: Path) -> Iterator[None]:
    """A folder of this machine on a disk of 64 kB that is full."""
    folder.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", folder], check=True)
    try:
        with contextlib.suppress(OSError), (folder / "full").open("wb", buffering=0) as file:
            while file.write(b"x" * 4096):
                pass
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def test_the_disk_of_the_controller_is_full(struck: Cluster, project: Path, tell: Teller) -> None:
    tell.begin("resources", "the disk of the controller is full", "torch")
    results = project.parent / "results"
    with full_folder(results):
        run = begin(struck, project, "torch", rounds=5)
        told = strike(run.process, lambda: None)
        broken = begin(struck, project, "torch")
        ended = strike(broken.process, lambda: struck.lab.ssh("node2", f"sudo kill -KILL {broken.pids[1]}"))
        assert not list(results.glob("*.json"))
        assert not list(results.glob(".*.new"))
    assert told.code == 1, told.said
    assert "No space left on device" in told.said
    assert f"{run.name} succeeded and has no record" in told.said
    assert NEXT_STEP.search(told.message), told.message
    assert "sum 5" in told.said
    assert "rank 1 on node2: killed by SIGKILL" in ended.said
    assert "No space left on device" in ended.said
    tell.end("the run ends as it would; it has no record, and the message says that", told.first)
    nothing_left(struck, project)


@BOTH
@pytest.mark.whole
def test_sshd_starts_again(struck: Cluster, project: Path, tell: Teller, framework: str) -> None:
    tell.begin("resources", "sshd of all hosts is restarted, and all its connections are cut", framework)
    run = begin(struck, project, framework, rounds=150)

    def cut() -> None:
        for node in struck.lab.nodes:
            struck.lab.ssh(node, "sudo systemd-run -q sh -c 'systemctl restart ssh; pkill -f \"^sshd: ubuntu\"'")

    told = strike(run.process, cut)
    assert told.code == 0, told.said
    assert told.said.count("sum 150") == {"torch": 3, "ray": 1}[framework]
    tell.end("continues, and ends with the right answer")
    nothing_left(struck, project)


@pytest.fixture
def late_clock(struck: Cluster) -> Iterator[None]:
    """Every program that starts on node2, services and sshd too, sees a wall clock that is two hours ahead (`ahead.c`).

    Hosts of a lab have one kernel, whose clock cannot differ.
    """
    lab, services = struck.lab, "ssh regatta-hdfs-datanode regatta-ray-worker"
    lab.ssh("node2", "sudo apt-get -q update && sudo apt-get -q install -y --no-install-recommends tcc", timeout=300)
    program = shlex.quote(Path(__file__).with_name("ahead.c").read_text())
    lab.ssh("node2", f"printf %s {program} | sudo tcc -shared -nostdlib -o {AHEAD} -")
    try:
        lab.ssh("node2", f"echo {AHEAD} | sudo tee /etc/ld.so.preload && sudo systemctl restart {services}")
        yield
    finally:
        lab.ssh("node2", f"sudo rm -f /etc/ld.so.preload {AHEAD}; sudo systemctl restart {services}")
        lab.ssh("node2", "sudo apt-get -q purge -y tcc")
        whole(struck)


@pytest.mark.whole
def test_the_clock_of_a_host_is_wrong(struck: Cluster, project: Path, tell: Teller, late_clock: None) -> None:
    tell.begin("resources", "the clock of a host is two hours ahead", "-")
    seen = int(struck.lab.ssh("node2", "date +%s").stdout) - time.time()
    assert 7000 < seen < 7400
    for framework in ("torch", "ray"):
        next_run(struck, project, framework)
    said = play(struck.lab, "provision", good=False)
    message = re.search(
        r"node2: clock is 7\d\d\d s ahead of this machine's; set the time there", " ".join(said.split())
    )
    assert message, said[-3000:]
    whole(struck)
    tell.end("runs under both frameworks work; provisioning refuses it", message[0])


@BOTH
@pytest.mark.whole
def test_a_killed_rank_on_a_full_disk(struck: Cluster, project: Path, tell: Teller, framework: str) -> None:
    tell.begin("resources", "the disk of a node is full, and a rank there gets SIGKILL", framework)
    with small_disk(struck, "node2"):
        run = begin(struck, project, framework)
        fill(struck, "node2")
        told = strike(run.process, lambda: struck.lab.ssh("node2", f"sudo kill -KILL {run.pids[1]}"))
    explained(told, "node2", "rank 1 on node2: killed by SIGKILL" if framework == "torch" else "died")
    tell.end("the run ends everywhere", told.first, told.seconds)
    nothing_left(struck, project)
