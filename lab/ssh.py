"""Logs in to nodes: strict host keys, the lab's own key, through node1 where that is the only way."""

import shlex
from pathlib import Path


def options(inventory: Path) -> list[str]:
    """ssh's options for every node of the inventory."""
    return [
        *("-F", "/dev/null", "-i", str(inventory / "secrets/lab_key"), "-o", "IdentitiesOnly=yes"),
        *("-o", "StrictHostKeyChecking=yes", "-o", f"UserKnownHostsFile={inventory}/known_hosts"),
        *("-o", "GlobalKnownHostsFile=/dev/null", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5"),
    ]


def command(inventory: Path, target: str, *words: str, user: str, jump: str | None = None) -> list[str]:
    """`ssh TARGET WORDS`; with `jump` through that address, where `user` logs in."""
    way = options(inventory)
    through: list[str] = []
    if jump:
        hop = shlex.join(["ssh", *way]).replace("%", "%%")
        through = ["-o", f"ProxyCommand={hop} -W [%h]:%p {user}@{jump}"]
    return ["ssh", *way, *through, target, *words]
