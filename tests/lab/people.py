"""People with a home, a key and a checkout of their own, who log in to a lab's hosts as themselves."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from provisioning import said

from lab import ssh
from lab.handle import LabHandle
from lab.model import PROJECT
from regatta.hosts import hostkeys

REGATTA = str(Path(sys.executable).parent / "regatta")


@dataclass(frozen=True)
class Person:
    """A person with a home, a key and a checkout of their own, who logs in to the hosts as themselves."""

    name: str
    home: Path
    lab: LabHandle

    @property
    def copy(self) -> Path:
        return self.home / "inventory" / self.lab.name

    @property
    def environment(self) -> dict[str, str]:
        others = ("REGATTA_INVENTORY", "REGATTA_RESULTS", "CONFIRM")
        left = {name: value for name, value in os.environ.items() if name not in others}
        return {**left, "HOME": str(self.home), "PYTHONPATH": str(self.home / "regatta")}

    def types(self, *words: str, good: bool = True) -> str:
        """What `regatta WORDS` prints, on one line."""
        return " ".join(said([REGATTA, *words], self.home, self.environment, good=good).split())

    def begins(self, *words: str) -> "subprocess.Popen[str]":
        """`regatta WORDS` in the background, in its own process group."""
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        command, own = [REGATTA, *words], {"cwd": self.home, "env": self.environment, "start_new_session": True}
        process: subprocess.Popen[str] = subprocess.Popen(command, text=True, **own, **pipes)  # type: ignore[call-overload]
        return process

    def there(self, node: str, command: str, given: str = "") -> "subprocess.CompletedProcess[str]":
        """A shell command of this person on a node."""
        target = f"{self.name}@{self.lab.addresses[node]}"
        words = ["ssh", *ssh.options(self.lab.inventory), "-i", str(self.home / "key"), target, command]
        return subprocess.run(words, input=given, capture_output=True, text=True, errors="replace", check=False)

    def joins(self, node: str, *words: str, good: bool = True) -> str:
        key = ("--key", str(self.home / "key"))
        return self.types("join", f"{self.name}@{self.lab.addresses[node]}", *words, *key, good=good)


def account(lab: LabHandle, name: str, home: Path, *, sudo: bool = True) -> Person:
    home.mkdir()
    subprocess.run(["git", "clone", "-q", "--shared", str(PROJECT), str(home / "regatta")], check=True)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(home / "key")], check=True)
    key = (home / "key.pub").read_text().strip()
    rule = f"echo '{name} ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/{name}" if sudo else "true"
    for node in lab.nodes:
        made = f"id {name} || useradd -m -s /bin/bash {name}; mkdir -p ~{name}/.ssh"
        lab.ssh(node, f'sudo sh -c "{made}; echo {key} > ~{name}/.ssh/authorized_keys; {rule}"')
    return Person(name, home, lab)


def fingerprint(lab: LabHandle, node: str) -> str:
    (pin, *_) = hostkeys.find(lab.inventory / "known_hosts", (lab.addresses[node],))
    return pin.shown.split()[-1]
