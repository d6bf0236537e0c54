"""Root's rights on nodes by sudo, with a password where one is given: it is sent on standard input, and kept in memory.

Where sudo does not ask (NOPASSWD, a login that it remembers), what is started drops the password unread: on the node
all up to a mark is left out before the program begins.
"""

import getpass
import os
import secrets
import shlex
import subprocess
import sys
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from regatta.errors import UsageError
from regatta.hosts.cluster import Node

VARIABLES = ("ansible_become_password", "ansible_become_pass", "ansible_sudo_pass")
"""As Ansible reads them: of several that are there, the last."""
ENVIRONMENT = ("ANSIBLE_BECOME_PASS", "ANSIBLE_SUDO_PASS")
ASK = "ANSIBLE_BECOME_ASK_PASS"
OF_RSYNC, OF_GATE = "REGATTA_SUDO", "REGATTA_GATE"
_MARK = f"regatta-{secrets.token_hex(8)}"
_FROM_MARK = f'while IFS= read -r line; do [ "$line" = {_MARK} ] && exec "$@"; done; exit 1'
_VAULT_SECONDS = 60
_lock = threading.Lock()
_typed: list[str] = []


def ask() -> str:
    """Ask for the password, once for this program. UsageError where there is no terminal."""
    with _lock:
        if not _typed:
            if not sys.stdin.isatty():
                raise UsageError(
                    f"sudo's password can be asked only on a terminal: else set {ENVIRONMENT[0]}, or "
                    f"{VARIABLES[0]} in a vault of the inventory"
                )
            _typed.append(getpass.getpass("sudo password on the hosts: "))
        return _typed[0]


def password(node: Node) -> str | None:
    """The password of a node: the inventory's, the environment's, or the one that was asked for. UsageError."""
    if node.become is not None:
        return _opened(node.become)
    for name in reversed(ENVIRONMENT):
        if value := os.environ.get(name):
            return value
    wanted = os.environ.get(ASK, "").lower() in ("1", "true", "yes", "on")
    return ask() if wanted or _typed else None


def environment() -> dict[str, str]:
    """Variables for Ansible and its steps, which have no terminal."""
    if not _typed and os.environ.get(ASK):
        ask()
    return {ASK: "false", **({ENVIRONMENT[0]: _typed[0]} if _typed else {})}


def command(node: Node, program: Sequence[str], options: Sequence[str] = ()) -> str:
    """Return what a node's shell gets to start a program as root, or by `options` of sudo as another account."""
    if password(node) is None:
        return shlex.join(["sudo", "-n", *options, *program])
    return shlex.join(["sudo", "-S", "-p", "", *options, "/bin/sh", "-c", _FROM_MARK, "sh", *program])


def first(node: Node) -> bytes:
    """Return what the standard input of that command begins with."""
    known = password(node)
    return b"" if known is None else f"{known}\n{_MARK}\n".encode()


def through(node: Node, ssh: Sequence[str]) -> list[str]:
    """Return ssh as rsync starts it, which knows nothing of passwords; it needs `of_rsync` as its environment."""
    if password(node) is None:
        return list(ssh)
    return own(ssh)


def own(ssh: Sequence[str]) -> list[str]:
    """Return our program between rsync and ssh; it needs one of its variables."""
    return [sys.executable, "-IS", str(Path(__file__).with_name("rsyncssh.py")), *ssh]


def of_rsync(node: Node) -> dict[str, str] | None:
    """The environment of an rsync to or from a node; None where it is ours."""
    begins = first(node)
    return {**os.environ, OF_RSYNC: begins.decode()} if begins else None


@cache
def _opened(value: str) -> str:
    """A password as it is in an inventory, or in a vault there. UsageError where the vault stays closed."""
    if not value.lstrip().startswith("$ANSIBLE_VAULT"):
        return value
    program = str(Path(sys.executable).parent / "ansible-vault")
    text = "\n".join(line.strip() for line in value.strip().splitlines()) + "\n"
    try:
        done = subprocess.run(
            [program, "decrypt", "--output", "-"],
            input=text,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_VAULT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"ansible-vault does not open {VARIABLES[0]}: {error}") from None
    if done.returncode:
        raise UsageError(
            f"ansible-vault does not open {VARIABLES[0]}: name the file with the vault's password in "
            f"ANSIBLE_VAULT_PASSWORD_FILE ({(done.stderr.strip().splitlines() or ['no message'])[-1]})"
        )
    return done.stdout.rstrip("\n")
