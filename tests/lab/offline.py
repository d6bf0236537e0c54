"""A controller without a way to anything but the hosts of a lab: a network namespace with one cable to their bridge."""

import contextlib
import ipaddress
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.handle import LabHandle
from lab.model import load


@contextmanager
def offline(lab: LabHandle, checkout: Path, cache: Path) -> Iterator["Offline"]:
    """For as long as the context is open, a controller of the lab that has an empty cache and no other network."""
    found = load(lab.name)
    assert found
    space, outside, inside = f"rgo{os.getpid()}", f"ra{os.getpid()}", f"rb{os.getpid()}"
    network = ipaddress.IPv4Network(found.outer)
    commands = [
        f"ip netns add {space}",
        f"ip link add {outside} type veth peer name {inside} netns {space}",
        f"ip link set {outside} master {found.bridge} up",
        f"ip -n {space} link set lo up",
        f"ip -n {space} address add {network[2]}/{network.prefixlen} dev {inside}",
        f"ip -n {space} link set {inside} up",
    ]
    try:
        for command in commands:
            subprocess.run(command.split(), check=True)
        yield Offline(space, lab, checkout, cache)
    finally:
        for command in (f"ip link delete {outside}", f"ip netns delete {space}"):
            with contextlib.suppress(subprocess.CalledProcessError):
                subprocess.run(command.split(), check=True)


class Offline:
    """Runs commands there."""

    def __init__(self, space: str, lab: LabHandle, checkout: Path, cache: Path) -> None:
        self.space, self.lab, self.checkout, self.cache = space, lab, checkout, cache

    def run(self, *words: str, cwd: Path | None = None, **env: str) -> "subprocess.CompletedProcess[str]":
        """A command in the checkout, or in `cwd`; its exit code and all its output."""
        hidden = ("PIP_", "UV_", "REGATTA_CACHE")
        kept = {key: value for key, value in os.environ.items() if not key.startswith(hidden)}
        own = {"XDG_CACHE_HOME": str(self.cache), "PIP_CONFIG_FILE": "/dev/null"}
        return subprocess.run(
            ["ip", "netns", "exec", self.space, *words],
            cwd=cwd or self.checkout,
            env=kept | own | env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
