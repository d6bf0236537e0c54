"""Requests to nodes, over SSH or (inventory/local) here, many at a time.

OpenSSH carries the requests: one multiplexed connection a node, kept for a minute after its last use, under the pinned
host keys of the inventory. Requests are served by `regatta.node.main`, in a Python on the node which takes the next
one when it has answered, and which ends with this program.
"""

import contextlib
import functools
import getpass
import os
import platform
import queue
import re
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, TypeVar

from regatta.errors import AuthenticationError, NodesError, PrivilegeError, RegattaError, RemoteError, UnreachableError
from regatta.hosts import hostkeys, logins, openssh, passphrases, sources, sshconfig, sudo
from regatta.hosts.channel import Channel, Stream
from regatta.hosts.cluster import Cluster, Node
from regatta.program import about_hosts
from regatta_protocol import sent
from regatta_protocol.operations.hosts import GATE
from regatta_protocol.operations.operation import Answer, Line, Operation, Telling
from regatta_protocol.place import Place

Done = TypeVar("Done")
_NO_PASSWORD = re.compile("password is required|authentication is required|terminal is required|no password was")

WITHOUT_SUDO = (
    "your login is a member's, without sudo (regatta_member in own.yml), and this needs sudo: ask who has it. "
    "Nothing was changed"
)
AT_A_TIME = 32
TIMEOUT, LATE_SECONDS = 30.0, 0.2
_BOOT = (
    "import os,sys;requests=os.fdopen(os.dup(0),'rb');os.dup2(os.open(os.devnull,os.O_RDONLY),0);"
    "exec(requests.read(int(sys.argv[1])))"
)
"""As `sources.BOOT`; what a request starts on the node finds an empty standard input: the requests are only for us."""


class Remote:
    """The nodes of one cluster, reachable. `call` asks one node, `everywhere` many, `stream` follows one."""

    def __init__(
        self, cluster: Cluster, *, accept_new: bool = False, alone: bool = False, options: Sequence[str] = ()
    ) -> None:
        """`accept_new` and `alone`: see `sshconfig.render`; `options` are more of ssh's."""
        self.cluster, self._options = cluster, options
        self._payload = sent.program(sources.of_requests(), "from regatta.node import main\nmain.main(requests)\n")
        self._idle: dict[str, Channel] = {}
        self._allowed: set[str] = set()
        self._config: Path | None = None
        if not cluster.local:
            self._config = sshconfig.write(cluster.folder, cluster.everybody, accept_new=accept_new, alone=alone)
            passphrases.ask(self._config, cluster.nodes)

    @property
    def config(self) -> Path:
        """The SSH configuration of the inventory; for hosts that SSH reaches."""
        assert self._config is not None
        return self._config

    def ssh(self, node: Node) -> list[str]:
        """The ssh program with every option for this node, without the destination. RemoteError: there is no way."""
        openssh.checked(self.config, node)
        return openssh.words(self.config, node, self._options)

    def destination(self, node: Node) -> str:
        """`user@host` as ssh takes it."""
        return openssh.destination(node)

    def place(self, node: Node) -> Place:
        """Return what the node's side needs to know about where things are on this node; a gate knows them itself."""
        if node.member:
            return {"gate": self._identity}
        return {
            "root": node.root,
            "state": node.state,
            "python": node.python,
            "cluster_address": node.cluster_address,
            "user": None if node.local else "regatta",
            "by": ourselves(),
        }

    def call(self, node: Node, asked: Operation[Answer], *, timeout: float = TIMEOUT) -> Answer:
        """Ask a node for one thing; raises RemoteError or a subclass."""
        said: Stream[Answer, Any]
        with self._ask(node, asked, timeout) as said:
            for _ in said:
                pass
            return said.answer

    def everywhere(
        self,
        nodes: Iterable[Node],
        asked: Operation[Answer] | Callable[[Node], Operation[Answer]],
        *,
        timeout: float = TIMEOUT,
        step: str | None = None,
    ) -> dict[str, Answer]:
        """Ask many nodes at once, the same or what `asked` gives for each. NodesError names every node that failed."""

        def ask(node: Node) -> Answer:
            return self.call(node, asked if isinstance(asked, Operation) else asked(node), timeout=timeout)

        done, failed = self.gather(nodes, ask)
        if failed:
            raise NodesError(step or str(getattr(asked, "op", "asking")), failed)
        return done

    def gather(
        self, nodes: Iterable[Node], work: Callable[[Node], Done], *, at_a_time: int = AT_A_TIME
    ) -> tuple[dict[str, Done], dict[str, Exception]]:
        """Call `work` for many nodes at once, a bounded number at a time: (results, errors) by node name."""
        done: dict[str, Done] = {}
        failed: dict[str, Exception] = {}
        nodes = list(nodes)
        with ThreadPoolExecutor(max_workers=min(at_a_time, max(1, len(nodes)))) as pool:
            futures = {pool.submit(work, node): node.name for node in nodes}
            for future in as_completed(futures):
                error = future.exception()
                if error is None:
                    done[futures[future]] = future.result()
                elif isinstance(error, RegattaError | OSError | subprocess.SubprocessError):
                    failed[futures[future]] = error
                else:
                    raise error
        order = [node.name for node in nodes]
        return {n: done[n] for n in order if n in done}, {n: failed[n] for n in order if n in failed}

    def promptly(
        self, nodes: Iterable[Node], asked: Operation[Answer], seconds: float
    ) -> tuple[dict[str, Answer], dict[str, Exception]]:
        """Ask many nodes for one thing, and wait no longer than this: (answers, errors) by node name.

        A connection that is kept to a host that has just frozen ends by itself some seconds later.
        """
        nodes, said = list(nodes), queue.SimpleQueue[tuple[str, Answer | None, Exception | None]]()

        def ask(node: Node) -> None:
            try:
                said.put((node.name, self.call(node, asked, timeout=seconds), None))
            except (RegattaError, OSError, ValueError, subprocess.SubprocessError) as error:
                said.put((node.name, None, error))

        done: dict[str, Answer] = {}
        failed: dict[str, Exception] = {
            node.name: UnreachableError(node.name, f"no answer within {seconds:g} s; is the host up?") for node in nodes
        }
        for node in nodes:
            threading.Thread(target=ask, args=(node,), daemon=True).start()
        end = time.monotonic() + seconds + LATE_SECONDS
        with contextlib.suppress(queue.Empty):
            for _ in nodes:
                name, answer, error = said.get(timeout=max(0.0, end - time.monotonic()))
                failed.pop(name)
                if error is not None:
                    failed[name] = error
                elif answer is not None:
                    done[name] = answer
        return done, failed

    def stream(self, node: Node, asked: Telling[Answer, Line], *, timeout: float | None = None) -> Stream[Answer, Line]:
        """Follow a request's answer line by line; closing it ends the request, not what it started."""
        return self._ask(node, asked, timeout)

    def _ask(self, node: Node, asked: Operation[Answer], timeout: float | None) -> Stream[Answer, Any]:
        channel = self._idle.pop(node.name, None)
        if channel is None or not channel.alive:
            channel = self._channel(node)
        place = self.place(node)
        return Stream(node, channel, asked, place, timeout, lambda channel: self._keep(node, channel), self._explain)

    def _explain(self, node: Node, code: int, stderr: str) -> RemoteError:
        return explain(node, code, stderr, self._config)

    @functools.cached_property
    def _identity(self) -> str:
        return sources.identity()

    def _channel(self, node: Node) -> Channel:
        if node.member:
            way = shlex.join(["sudo", "-n", GATE])
            return Channel([*self.ssh(node), "--", self.destination(node), way], b"")
        program = [sys.executable if node.local else "/usr/bin/python3", "-ISuc", _BOOT, str(len(self._payload))]
        if node.local:
            return Channel(program, self._payload)
        there, first = self.as_root(node, program)
        return Channel([*self.ssh(node), "--", self.destination(node), there], first + self._payload)

    def as_root(self, node: Node, program: Sequence[str], options: Sequence[str] = ()) -> tuple[str, bytes]:
        """Return what a node's shell gets to start a program by sudo, and what its standard input begins with.

        A password is tried first, once: PrivilegeError where it is wrong, before anything else is sent, and for a
        login without sudo.
        """
        if node.member:
            raise PrivilegeError(node.name, WITHOUT_SUDO)
        if (first := sudo.first(node)) and node.name not in self._allowed:
            self._try_password(node, first.partition(b"\n")[0])
            self._allowed.add(node.name)
        return sudo.command(node, program, options), first

    def _try_password(self, node: Node, password: bytes) -> None:
        command = [*self.ssh(node), "--", self.destination(node), "sudo -k -S -p '' true"]
        late = f"sudo does not answer within {TIMEOUT:g} s; is the host up?"
        run_once(self.config, node, command, TIMEOUT, late, password + b"\n")

    def _keep(self, node: Node, channel: Channel) -> None:
        """Keep one idle channel a node."""
        if not channel.alive or self._idle.setdefault(node.name, channel) is not channel:
            channel.close()

    def rest(self, nodes: Iterable[Node]) -> None:
        """End the processes that wait for the next request of these nodes: something large comes first."""

        def end(node: Node) -> None:
            if channel := self._idle.pop(node.name, None):
                channel.close()

        self.gather(nodes, end)

    def close(self) -> None:
        """End the kept connections once no other command uses them (they end by themselves after a minute)."""
        self.rest(self.cluster.nodes)
        for node in self.cluster.nodes:
            if not node.local:
                with contextlib.suppress(OSError, subprocess.SubprocessError):
                    command = [*self.ssh(node), "-O", "stop", self.destination(node)]
                    subprocess.run(command, capture_output=True, timeout=10, check=False)


@functools.cache
def ourselves() -> str:
    """Return who asks, as other controllers see it: `ann on laptop`."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = f"user {os.getuid()}"
    return f"{user} on {platform.node()}"


def run_once(config: Path, node: Node, command: Sequence[str], seconds: float, late: str, given: bytes = b"") -> None:
    """Run one command of ssh, which reads `given`. RemoteError says what its failure means, or `late`."""
    try:
        done = subprocess.run(
            command, input=given, capture_output=True, timeout=seconds, check=False, start_new_session=True
        )
    except subprocess.TimeoutExpired:
        raise UnreachableError(node.name, late) from None
    if done.returncode:
        raise explain(node, done.returncode, done.stderr.decode("utf-8", "replace"), config)


def explain(node: Node, code: int, stderr: str, config: Path | None = None) -> RemoteError:
    """Return what failed in ssh or sudo, and what to do about it; with `config`, also what a jump host has said."""
    if config and code == 255:
        stderr = logins.whole(config, node, stderr)
    name, where = node.name, f"{node.user + '@' if node.user else ''}{node.host}"
    if "HOST IDENTIFICATION HAS CHANGED" in stderr or "Host key verification failed" in stderr:
        return hostkeys.explain(name, node.host, stderr)
    if "Permission denied" in stderr:
        return AuthenticationError(name, logins.refused(node, where, stderr))
    if "incorrect password attempt" in stderr or "incorrect authentication attempt" in stderr:
        return PrivilegeError(name, f"the password for sudo of {where} is wrong: correct it; it was tried once")
    if node.member and "sudo:" in stderr:
        return PrivilegeError(
            name,
            f"{where} is no member of this cluster there: whoever has sudo names the account in members_accounts, and "
            f"runs '{about_hosts('provision')}'. If you have sudo, take regatta_member out of own.yml",
        )
    if "sudo" in stderr and _NO_PASSWORD.search(stderr):
        return PrivilegeError(
            name,
            f"{where} may not use sudo without a password: give it (--ask-become-pass, {sudo.ENVIRONMENT[0]}, or "
            f"{sudo.VARIABLES[0]} in a vault), or allow it there (NOPASSWD)",
        )
    if "sudo:" in stderr and ("not allowed" in stderr or "sudoers" in stderr):
        return PrivilegeError(name, f"{where} may not use sudo: allow it there, in /etc/sudoers.d")
    if code == 255 or code < 0:
        return UnreachableError(name, f"{where} does not answer ({_last_line(stderr) or 'connection closed'})")
    return RemoteError(
        name, f"the node's side failed with exit code {code}; try again: {stderr[-600:] or 'no message'}"
    )


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
