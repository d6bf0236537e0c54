"""Runs the workload as a person or a launcher does, and reads its events back."""

from __future__ import annotations

import atexit
import functools
import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import warm

PROJECT = Path(__file__).resolve().parents[3]
PPR = ("-m", "workloads.ppr")
PREFIX = "@regatta "
PATIENCE = 300.0
"""Seconds for a process on a machine that is busy with others; those that hang for good wait for longer."""


@dataclass(frozen=True)
class Ended:
    """A process that has ended."""

    status: int
    out: str
    err: str

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line.removeprefix(PREFIX)) for line in self.out.splitlines() if line.startswith(PREFIX)]

    def of(self, event: str, rank: int | None = None) -> list[dict[str, Any]]:
        return [one for one in self.events if one["event"] == event and rank in (None, one["rank"])]

    @property
    def answer(self) -> dict[str, Any]:
        (result,) = self.of("result")
        answer: dict[str, Any] = result["answer"]
        return answer


def weights(run: Ended) -> str:
    """The checksum of a training's weights."""
    (result,) = run.of("result")
    (line,) = [line for line in result["show"] if line.startswith("weights ")]
    return str(line)


def python(*arguments: str, timeout: float = PATIENCE, **environment: str) -> Ended:
    """Run this interpreter in the project's folder."""
    return ended(start(arguments, environment), timeout)


def ppr(*arguments: str, **environment: str) -> Ended:
    """Run ``python -m workloads.ppr``."""
    return python(*PPR, *arguments, **environment)


def ranks(arguments: Sequence[str], world: int, **environment: str) -> list[Ended]:
    """Run torch ranks as Regatta's launcher does: an interpreter each, with the variables of its rank."""
    common = {
        "LOCAL_WORLD_SIZE": str(world),
        **environment,
        "WORLD_SIZE": str(world),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "GLOO_SOCKET_IFNAME": "lo",
    }
    started = [start(arguments, {**common, "RANK": str(rank), "LOCAL_RANK": str(rank)}) for rank in range(world)]
    return [ended(process, PATIENCE) for process in started]


def torchrun(arguments: Sequence[str], world: int, **environment: str) -> Ended:
    """Run torch ranks by torchrun."""
    launcher = ("-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={world}")
    return python(*launcher, *arguments, **environment)


@functools.cache
def loaded() -> warm.Loaded:
    """The process that has loaded torch and numba, one for all tests."""
    made = warm.Loaded(str(PROJECT))
    atexit.register(made.close)
    return made


def start(arguments: Sequence[str], environment: dict[str, str]) -> subprocess.Popen[str] | warm.Forked:
    """Begin a Python; one that may share what is loaded is forked, as loading would take most of its time."""
    env = {**os.environ, **environment}
    alike = env.get("OMP_NUM_THREADS") == "1" and env.get("PYTHONPATH") == str(PROJECT)
    if alike and (arguments[0] == "-m" or arguments[0].endswith(".py")):
        return loaded().start(list(arguments), env)
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=PROJECT,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str] | warm.Forked, timeout: float) -> Ended:
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return Ended(process.returncode, out, err)


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
    return port
