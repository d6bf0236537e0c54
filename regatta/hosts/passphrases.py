"""Keys with a passphrase that no agent holds: it is asked for on the terminal, once for a command and all its hosts.

An ssh-agent of this command's own takes the key: `ssh-add` asks, so that the passphrase passes through no program of
ours. The agent ends with this command, however that ends: a shell beside it waits for the end of a pipe.
"""

import atexit
import contextlib
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from regatta.errors import UsageError
from regatta.hosts import logins, openssh
from regatta.hosts.cluster import Node
from regatta.paths import runtime_dir

_AT_A_TIME = 32
_LOGIN_SECONDS = 40
_END_SECONDS = 2.0
_BESIDE = 'echo "$SSH_AGENT_PID"; cat; kill "$SSH_AGENT_PID"'
_lock = threading.Lock()
_open: set[Node] = set()
_agents: "list[subprocess.Popen[bytes]]" = []


def ask(config: Path, nodes: Iterable[Node]) -> None:
    """Ask for each passphrase without which one of these nodes refuses the login. UsageError where none is given.

    Without a terminal there is no question, and the message of the refused login names the key.
    """
    with _lock:
        left = [node for node in nodes if node not in _open]
        if not left or not _on_terminal():
            return
        with ThreadPoolExecutor(min(_AT_A_TIME, len(left))) as pool:
            while waiting := [key for key in pool.map(lambda node: _waiting(config, node), left) if key]:
                _add(waiting[0])
        _open.update(left)


def _on_terminal() -> bool:
    try:
        return sys.stdin.isatty() and os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (OSError, ValueError, AttributeError):
        return False


def _waiting(config: Path, node: Node) -> str | None:
    """The first key with a passphrase that a host on the way would take, where there is no login without it."""
    stops = reversed(openssh.way(config, node))
    locked = [key for key in dict.fromkeys(key for stop in stops for key in stop.keys) if logins.locked(key)]
    if not locked:
        return None
    command = [*openssh.words(config, node, ["-v"]), "--", openssh.destination(node), "true"]
    said = logins.ran(_LOGIN_SECONDS, *command)[1]
    taken = re.findall(r"Server accepts key: (.+?) \S+ SHA256:|Trying private key: (.+?)\s*$", said, re.M)
    files = {path for pair in taken for path in pair} if "Permission denied" in said else set()
    return next((key for key in locked if key in files), None)


def _add(key: str) -> None:
    """Let ssh-add ask, as often as the passphrase is wrong and not empty."""
    if not _agents:
        _begin()
    print(f"{key} has a passphrase and no agent holds it: this command asks once, for all hosts", file=sys.stderr)
    if subprocess.run(["ssh-add", "-q", key], check=False).returncode:
        raise UsageError(f"{key} stays closed: repeat the command with its passphrase, or 'ssh-add {key}' before it")


def _begin() -> None:
    """Start the agent; this program and what it starts use it from here on."""
    path = runtime_dir() / f"a{os.getpid()}"
    path.unlink(missing_ok=True)
    agent = subprocess.Popen(
        ["ssh-agent", "-a", str(path), "sh", "-c", _BESIDE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert agent.stdout
    with agent.stdout:
        agent.stdout.readline()
    _agents.append(agent)
    atexit.register(end)
    os.environ["SSH_AUTH_SOCK"] = str(path)


def end() -> None:
    """End the agent of this program."""
    while _agents:
        agent = _agents.pop()
        assert agent.stdin
        agent.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            agent.wait(_END_SECONDS)
