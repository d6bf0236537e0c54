"""Why a host, or a jump host on the way to it, refuses a login: what ssh has said, and what this machine knows."""

import functools
import os
import re
import subprocess
from pathlib import Path

from regatta.errors import RemoteError
from regatta.hosts import openssh
from regatta.hosts.cluster import Node

_REFUSED = re.compile(r"^(\S+): Permission denied \(([^)]*)\)", re.M)
BEHIND = ("UNKNOWN port 65535", "kex_exchange_identification", "stdio forwarding failed")
"""The messages of ssh when a connection through a jump host ends."""
_LOGIN = 20.0
_ANSWER = 5.0
_NO_AGENT = 2
"""ssh-add's exit code where no agent answers."""


def whole(config: Path, node: Node, stderr: str) -> str:
    """What ssh says, with the words of a jump host's ssh, which one that shares connections leaves out.

    Its last line is what a jump host has said, where one has.
    """
    if any(word in stderr for word in BEHIND) and not _REFUSED.search(stderr):
        words = openssh.words(config, node, openssh.ALONE)
        stderr = ran(_LOGIN, *words, "--", openssh.destination(node), "true")[1] or stderr
        lines = stderr.splitlines()
        stderr = "\n".join(sorted(lines, key=lambda line: not any(word in line for word in BEHIND)))
    return stderr


def refused(node: Node, where: str, stderr: str) -> str:
    """Say who refuses which login, and what to do. `where` is the node's `user@host`."""
    found = _REFUSED.search(stderr)
    who, methods = (found[1], found[2].split(",")) if found else (where, ["publickey"])
    if found and any(word in stderr for word in BEHIND):
        where = f"the jump host {who}"
    if "publickey" not in methods:
        return (
            f"{where} accepts no keys, only {' or '.join(methods)}: allow keys there (PubkeyAuthentication yes) and "
            "put yours there (ssh-copy-id), as Regatta enters no passwords of SSH"
        )
    if "no mutual signature" in stderr:
        return f"{where} accepts no key of this type: make one of another (ssh-keygen -t ed25519) and put it there"
    behind = where.startswith("the jump host")
    if key := next((key for key in _keys(node, behind) if locked(key)), None):
        return f"{where} gets no key: {key} has a passphrase, and {_agent() or 'no agent holds it'}: 'ssh-add {key}'"
    if behind:
        return f"{where} refuses our key: put it there (ssh-copy-id {who}), or name another in your ssh configuration"
    return f"{where} {_of_key(node)}"


def _keys(node: Node, behind: bool) -> list[str]:
    """The files of keys that ssh tries at a node, or at the jump hosts `behind` which it is."""
    own = Path(openssh.file_of_person()).expanduser()
    try:
        stops = openssh.way(own if own.exists() else Path("none"), node)
    except RemoteError:
        return []
    return [key for stop in (stops[1:] if behind else stops[:1]) for key in stop.keys]


def _of_key(node: Node) -> str:
    key, agent = node.key_file, _agent()
    if key and not Path(key).expanduser().is_file():
        return f"gets no key: {key} is not there; correct ansible_ssh_private_key_file in the inventory"
    if agent and os.environ.get("SSH_AUTH_SOCK") and not key:
        return f"refuses our key, and {agent}: start one and 'ssh-add' your key"
    user = openssh.of_person(node.host).get("user")
    if node.user and user and user != node.user:
        return (
            f"refuses our key: ansible_user ({node.user}) of the inventory goes before User ({user}) of your ssh "
            "configuration: correct it, or leave it out to log in as the latter"
        )
    return (
        "refuses our key: check ansible_user and ansible_ssh_private_key_file of the inventory; 'ssh -v' to it says "
        "whether it accepts keys of this type ('no mutual signature algorithm': make one with ssh-keygen -t ed25519)"
    )


def _agent() -> str:
    """Why the agent does not answer; '' where it does."""
    place = os.environ.get("SSH_AUTH_SOCK")
    if not place:
        return "there is no ssh-agent (SSH_AUTH_SOCK is not set)"
    silent = ran(_ANSWER, "ssh-add", "-l")[0] == _NO_AGENT
    return f"the ssh-agent at {place} (SSH_AUTH_SOCK) does not answer" if silent else ""


def locked(key: str) -> bool:
    """Whether a key has a passphrase and no agent holds it; ssh-add reads the public one next to it, or in it."""
    return _has_passphrase(key) and ran(_ANSWER, "ssh-add", "-T", key)[0] != 0


@functools.cache
def _has_passphrase(key: str) -> bool:
    """Whether a key has a passphrase. Asked once for each key, because all nodes may name it and each try is slow."""
    return "incorrect passphrase" in ran(_ANSWER, "ssh-keygen", "-y", "-P", "", "-f", key)[1]


def ran(seconds: float, *words: str) -> tuple[int, str]:
    """(exit code, standard error) of a program of OpenSSH, which asks nothing."""
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
            start_new_session=True,
        )
    except (OSError, subprocess.TimeoutExpired):
        return _NO_AGENT, ""
    return done.returncode, done.stderr
