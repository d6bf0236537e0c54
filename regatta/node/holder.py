"""Holds nodes of the cluster's queue for one run: the main process of a systemd unit on the head.

It asks Slurm for the nodes, and holds them as long as the controller's process on this host lives, and after that as
long as units of the run do: a run outlives its controller. What it has is in its state file.
"""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import sys
import time
from typing import Any, Dict, List, Tuple

LOOK_SECONDS, ANSWER_SECONDS = 2.0, 15.0
LATE = (124, 137)
"""How `timeout` ends what does not answer."""
_PARTS = re.compile(r"(?m)^\s*Nodes=(\S+) CPU_IDs=(\S+)(?:.* GRES=\S*gpu\S*\(IDX:([\d,-]+)\))?")
_GRANTED = 'echo "$SLURM_JOB_ID"; exec sleep infinity'


def main(asked: Dict[str, Any]) -> None:
    """Wait for the nodes, then hold them.

    `asked`: `state` (the file), `salloc` (its options), `controller`, and `run` (the units that are its work).
    """
    controller: Any = os.pidfd_open(asked["controller"])
    held = subprocess.Popen(
        ["salloc", *asked["salloc"], "--kill-command=TERM", "/bin/sh", "-c", _GRANTED],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    assert held.stdout is not None and held.stderr is not None
    readable, _, _ = select.select([held.stdout, controller], [], [])
    if held.stdout not in readable:  # the controller is gone, and nothing has begun
        held.terminate()
        return
    job = held.stdout.readline().strip()
    if not job:
        _tell(asked["state"], {"error": held.stderr.read().strip()[-500:] or "taken out of the queue"})
        return
    cpus, gpus = parts(job)
    _tell(asked["state"], {"job": int(job), "nodes": _nodes(job), "cpus": cpus, "gpus": gpus})
    ended = os.pidfd_open(held.pid)
    select.select([ended, controller], [], [])
    while held.poll() is None and runs(job, asked["run"]):
        time.sleep(LOOK_SECONDS)
    if held.poll() is not None:
        _tell(asked["state"], {"revoked": True})
    else:
        os.unlink(asked["state"])
    held.terminate()
    held.wait()


def parts(job: str) -> Tuple[Dict[str, List[int]], Dict[str, List[int]]]:
    """The CPUs of each node that a job has, and its GPUs there, each counted from 0."""
    cpus: Dict[str, List[int]] = {}
    gpus: Dict[str, List[int]] = {}
    for nodes, own, cards in shown(_output(["scontrol", "--details", "show", "job", job])):
        for name in _names(nodes):
            cpus[name] = numbers(own)
            if cards:
                gpus[name] = numbers(cards)
    return cpus, gpus


def shown(said: str) -> List[Tuple[str, str, str]]:
    """Nodes, CPUs and GPUs in the lines that scontrol shows of them."""
    return _PARTS.findall(said)


def numbers(text: str) -> List[int]:
    """Those of `0-2,5`."""
    ends = [part.partition("-") for part in text.split(",")]
    return [one for low, _, high in ends for one in range(int(low), int(high or low) + 1)]


def runs(job: str, units: str) -> bool:
    """Whether `units` work on this host, where drivers are, or on one of a job's nodes, or that cannot be known yet.

    A node that was lost meanwhile does not answer, and srun waits for it. Slurm then takes it out of the job.
    """
    look = ["systemctl", "is-active", units]
    if "active" in _output(look).split():
        return True
    count = len(_nodes(job))
    each = [f"--nodes={count}", f"--ntasks={count}", "--ntasks-per-node=1", "--cpus-per-task=1"]
    bound = ["timeout", "--kill-after=5", f"{ANSWER_SECONDS:g}"]
    asked = _run([*bound, "srun", f"--jobid={job}", "--overlap", "--quiet", *each, *look])
    return asked.returncode in LATE or "active" in asked.stdout.split()


def _nodes(job: str) -> List[str]:
    return _names(_output(["squeue", "--noheader", "--job", job, "--format=%N"]))


def _names(nodes: str) -> List[str]:
    """Those in Slurm's short form: `node[1-3]`."""
    return _output(["scontrol", "show", "hostnames", nodes]).split()


def _output(command: List[str]) -> str:
    return _run(command).stdout.strip()


def _run(command: List[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False
    )


def _tell(path: str, state: Dict[str, Any]) -> None:
    with open(f"{path}.new", "w") as file:
        json.dump(state, file)
    os.rename(f"{path}.new", path)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
