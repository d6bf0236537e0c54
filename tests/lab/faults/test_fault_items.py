"""Items over three hosts: a worker is killed, or a host powered off. The run ends everywhere, and names the host."""

from pathlib import Path

import pytest
from clusters import Cluster, wait_for
from faulty import Run, explained, new_name, nothing_left, strike, whole
from telling import Teller

pytestmark = pytest.mark.whole  # dask, mpi and zeromq bring a layer each
EVERY = pytest.mark.parametrize("framework", ["zeromq", "dask", "mpi", "ray", "ray-actors"])
MODULE = """
import os, time

def slow(number):
    with open("/dev/shm/{name}", "w") as file:
        file.write(str(os.getpid()))
    time.sleep(0.5)
    return number
"""
CARD = "".join(
    f"""
[workloads.{name}]
about = "Items that take half a second"
function = "slowly:slow"
items = {{ range = [0, {count}] }}
frameworks = ["zeromq", "dask", "mpi", "ray", "ray-actors"]
"""
    for name, count in (("slow", 100_000), ("short", 6))
)


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    """A project whose items take their time."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def begin(cluster: Cluster, folder: Path, framework: str) -> Run:
    """A run whose workers are at work on all hosts; each host has the number of one in a file."""
    name = new_name()
    (folder / "slowly.py").write_text(MODULE.format(name=name))
    (folder / "regatta.toml").write_text(CARD)
    words = ["run", "slow", f"--framework={framework}", "--workers=3", f"--name={name}"]
    run = Run(name, framework, cluster.background(folder, *words), f"/dev/shm/{name}", "")
    wait_for(lambda: all(pid(cluster, run, node) for node in cluster.lab.nodes), 120)
    return run


def pid(cluster: Cluster, run: Run, node: str) -> str:
    """The process of a worker there; empty where there is none yet."""
    return cluster.lab.ssh(node, f"sudo cat {run.order}", check=False).stdout.strip()


@EVERY
def test_a_worker_is_killed(struck: Cluster, slow: Path, tell: Teller, framework: str) -> None:
    tell.begin("rank", "a worker of items gets SIGKILL", framework)
    run = begin(struck, slow, framework)
    told = strike(run.process, lambda: struck.lab.ssh("node3", f"sudo kill -KILL {pid(struck, run, 'node3')}"))
    explained(told, "node3", "SIGKILL|is lost|died|killed")
    tell.end("the run ends everywhere", told.first, told.seconds)
    nothing_left(struck, slow)


@EVERY
def test_a_host_of_items_goes_away(struck: Cluster, slow: Path, tell: Teller, framework: str) -> None:
    tell.begin("host", "a host that does items is powered off", framework)
    run = begin(struck, slow, framework)
    try:
        told = strike(run.process, lambda: struck.lab.off("node3"))
    finally:
        struck.lab.on("node3")
    explained(told, "node3", "lost in mid-run|vanished|is lost|connection")
    tell.end("the run ends on the others; the host joins again by itself", told.first, told.seconds)
    whole(struck)
    struck.regatta(slow, "run", "short", f"--framework={framework}", "--workers=3")  # which ends what was left there
    nothing_left(struck, slow)
