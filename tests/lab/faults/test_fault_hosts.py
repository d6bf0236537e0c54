"""A host goes away in the middle of a run, and comes back."""

import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import kernel
import pytest
from clusters import Cluster, wait_for
from faulty import begin, explained, next_run, nothing_left, strike, whole
from telling import Teller

BOTH = pytest.mark.parametrize("framework", ["torch", "ray"])
TORCH_IN_CI = pytest.mark.parametrize("framework", ["torch", pytest.param("ray", marks=pytest.mark.whole)])
AWAY_MINUTES = float(os.environ.get("REGATTA_AWAY_MINUTES") or 3)
Hit = Callable[[Cluster], None]


def answers(cluster: Cluster) -> bool:
    return cluster.lab.ssh("node3", "true", check=False).returncode == 0


def power_off(cluster: Cluster) -> None:
    cluster.lab.off("node3")


def reset(cluster: Cluster) -> None:
    """Power off and on at once: no process gets a signal, and the host is back before it is missed."""
    cluster.lab.off("node3")
    cluster.lab.on("node3")


def reboot(cluster: Cluster) -> None:
    """A clean shutdown, then a boot."""
    cluster.lab.stop("node3")
    cluster.lab.on("node3")


def freeze(cluster: Cluster) -> None:
    kernel.freeze(cluster.lab, "node3")


def back(cluster: Cluster, hit: Hit) -> None:
    """Undo it."""
    if hit is freeze:
        kernel.thaw(cluster.lab, "node3")
    elif hit is power_off:
        cluster.lab.on("node3")
    wait_for(lambda: answers(cluster), 60)


@pytest.mark.first
@TORCH_IN_CI
@pytest.mark.parametrize(
    ("fault", "hit"),
    [
        ("a host is powered off", power_off),
        pytest.param("a host is reset (off and on at once)", reset, marks=pytest.mark.whole),
        pytest.param("a host is rebooted", reboot, marks=pytest.mark.whole),
        pytest.param("a host is frozen (SIGSTOP of all its processes)", freeze, marks=pytest.mark.whole),
    ],
    ids=["off", "reset", "reboot", "frozen"],
)
def test_a_host_goes_away(struck: Cluster, project: Path, tell: Teller, framework: str, fault: str, hit: Hit) -> None:
    tell.begin("host", fault, framework)
    run = begin(struck, project, framework)
    try:
        told = strike(run.process, lambda: hit(struck))
        if hit is power_off:
            assert re.search(r"^node3 .*NO ANSWER", struck.fab("status", check=False).stdout, re.M)
            assert "node3: " in struck.regatta(project, "sync", check=False).stdout
    finally:
        back(struck, hit)
    explained(told, "node3", "lost in mid-run|vanished|shutting down|node3 was rebooted in mid-run")
    tell.end("the run ends on the others; the host joins again by itself", told.first, told.seconds)
    whole(struck)
    next_run(struck, project, framework)
    nothing_left(struck, project)


@pytest.mark.whole
def test_all_hosts_boot_in_the_worst_order(struck: Cluster, project: Path, tell: Teller) -> None:
    tell.begin("host", "all hosts are powered off; they boot one by one, the head last", "-")
    struck.lab.off(*struck.lab.nodes)
    for node in reversed(struck.lab.nodes):
        struck.lab.on(node)
    whole(struck)
    for framework in ("torch", "ray"):
        next_run(struck, project, framework)
    tell.end("all services come back by themselves, and runs work")


@pytest.mark.whole
@pytest.mark.timeout(900 + AWAY_MINUTES * 60)
def test_a_host_is_away_for_long(struck: Cluster, project: Path, tell: Teller) -> None:
    tell.begin("host", "a worker is off for longer than anything waits for it", "-")
    struck.lab.off("node3")
    try:
        time.sleep(AWAY_MINUTES * 60)
        said = struck.fab("status", "--json", check=False).stdout
        status, _end = json.JSONDecoder().raw_decode(said, said.index("{"))
        assert struck.lab.addresses["node3"] not in status["members"]["ray"]
        assert ", 1 dead" in struck.fab("hdfs-status", check=False).stdout
    finally:
        struck.lab.on("node3")
    whole(struck)
    for framework in ("torch", "ray"):
        next_run(struck, project, framework)
    tell.end(f"it has been given up; after {AWAY_MINUTES:g} minutes it joins again by itself, and runs work")


@pytest.mark.whole
@pytest.mark.parametrize("node", ["node1", "node3"], ids=["head", "worker"])
def test_all_services_of_a_host_crash(struck: Cluster, project: Path, tell: Teller, node: str) -> None:
    role = {"node1": "the head", "node3": "a worker"}[node]
    tell.begin("host", f"all services of {role} get SIGKILL", "-")
    struck.lab.ssh(node, "sudo systemctl kill -s KILL 'regatta-hdfs-*' 'regatta-ray-*'")
    whole(struck)
    next_run(struck, project, "ray")
    tell.end("all services come back by themselves, and runs work")
