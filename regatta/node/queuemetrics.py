"""The cluster's queue, for Prometheus: only on a head whose Slurm Regatta has made; another's has its own exporters."""

from __future__ import annotations

import os
import subprocess
from typing import Dict, Iterator, List, Set, Tuple

Sample = Tuple[str, Dict[str, str], float]

TIMEOUT_SECONDS = 5.0
HELP = {
    "regatta_queue_holding": "Runs and other jobs that hold nodes of the cluster.",
    "regatta_queue_waiting": "Runs and other jobs that wait in the cluster's queue.",
    "regatta_queue_stuck": "1 while the first in line waits although the nodes that it needs are idle.",
}
_UNIT = "/etc/systemd/system/regatta-slurmctld.service"
_OWN_REASONS = ("Dependency", "DependencyNeverSatisfied", "JobHeldAdmin", "JobHeldUser", "BeginTime")
"""Those of jobs that wait for no node."""


def samples() -> Iterator[Sample]:
    """Series of the queue; none where Slurm does not answer."""
    if not os.path.exists(_UNIT):
        return
    try:
        jobs = _output(["squeue", "--all", "--noheader", "--sort=-p,i", "--format=%T|%D|%n|%x|%r"])
        nodes = _output(["sinfo", "--all", "--noheader", "--Node", "--format=%N %t"])
        yield from _samples([line.split("|", 4) for line in jobs.splitlines()], nodes)
    except (OSError, subprocess.SubprocessError):
        return


def _samples(jobs: List[List[str]], nodes: str) -> Iterator[Sample]:
    waiting = [one for one in jobs if one[0] == "PENDING"]
    yield "regatta_queue_holding", {}, float(len(jobs) - len(waiting))
    yield "regatta_queue_waiting", {}, float(len(waiting))
    first = next((one for one in waiting if one[4] not in _OWN_REASONS), None)
    idle = {
        name for name, _, state in (line.partition(" ") for line in nodes.splitlines()) if state in ("idle", "plnd")
    }
    yield "regatta_queue_stuck", {}, float(first is not None and _could_start(first, idle))


def _could_start(job: List[str], idle: Set[str]) -> bool:
    _, wanted, needed, without, _ = job
    return len(idle - _names(without)) >= int(wanted) and _names(needed) <= idle


def _names(nodes: str) -> Set[str]:
    """Those in Slurm's short form: `node[1-3]`."""
    if nodes in ("", "(null)"):
        return set()
    return {*_output(["scontrol", "show", "hostnames", nodes]).split()} if "[" in nodes else {*nodes.split(",")}


def _output(command: List[str]) -> str:
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=True,
        timeout=TIMEOUT_SECONDS,
    ).stdout
