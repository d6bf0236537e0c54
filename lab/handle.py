"""A running lab as a Python object, for tests and benchmarks."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from . import ssh
from .model import PROJECT, STATE


def lab_command(*words: str) -> subprocess.CompletedProcess[str]:
    """`python3 -m lab WORDS`; the result says all, whatever the exit status."""
    return subprocess.run(
        [sys.executable, "-m", "lab", *words],
        cwd=PROJECT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        check=False,
    )


@dataclass(frozen=True)
class LabHandle:
    """A running lab: `nodes` are names in order, `addresses` their addresses by name.

    `private`: only the first node is reached from here, the others through it.
    """

    name: str
    inventory: Path
    nodes: tuple[str, ...]
    addresses: dict[str, str]
    private: bool = False

    def command(self, word: str, *words: str) -> str:
        """`python3 -m lab WORD WORDS --name ...`, which must succeed; returns what it printed."""
        done = lab_command(word, *words, "--name", self.name)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def off(self, *nodes: str) -> None:
        """Power loss."""
        self.command("off", *nodes)

    def on(self, *nodes: str) -> None:
        """Boot again, with the state the nodes had; returns when SSH answers."""
        self.command("on", *nodes)

    def stop(self, *nodes: str) -> None:
        """Clean shutdown."""
        self.command("stop", *nodes)

    def rebuild(self, *nodes: str, keep_known_hosts: bool = False) -> None:
        """Replace nodes by fresh ones with other host keys."""
        self.command("rebuild", *nodes, *(["--keep-known-hosts"] if keep_known_hosts else []))

    def down(self) -> None:
        """Remove the lab before the session ends."""
        self.command("down")

    def ssh(
        self, node: str, command: str, *, user: str = "ubuntu", check: bool = True, timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Run a shell command on the node under strict host key checking; `check` raises if it fails."""
        target = f"{user}@{self.addresses[node]}"
        jump = self.addresses[self.nodes[0]] if self.private and node != self.nodes[0] else None
        done = subprocess.run(
            ssh.command(self.inventory, target, command, user="ubuntu", jump=jump),
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=timeout,
            check=False,
        )
        if check and done.returncode:
            raise AssertionError(f"{node}: `{command}` ended with {done.returncode}: {done.stderr}{done.stdout}")
        return done


def read_lab(name: str) -> LabHandle:
    """A handle of the lab of this name, which must exist."""
    inventory = PROJECT / "inventory" / name
    found = json.loads((STATE / name / "lab.json").read_text())
    nodes = tuple(f"node{number}" for number in range(1, found["nodes"] + 1))
    known = (inventory / "known_hosts").read_text().splitlines()
    pairs = [line.split()[0].split(",") for line in known]
    addresses = {node: address for address, node in pairs}
    return LabHandle(name, inventory, nodes, addresses, found.get("topology") == "private")
