"""Keys with a passphrase that no agent holds: asked for once on a terminal, by the real ssh-add."""

import contextlib
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from sshserver import Server, keypair, server

from regatta.paths import runtime_dir

REGATTA = str(Path(sys.executable).parent / "regatta")
ASKS, AGAIN = "Enter passphrase for ", "Bad passphrase, try again for "
PATIENCE = 30


@dataclass
class Typed:
    """A command on a terminal, and all that the terminal shows."""

    process: int
    terminal: int
    shown: str = ""

    def until(self, text: str) -> None:
        """Read until the terminal shows a text that it has not shown before; '' is the command's end."""
        begin, end = len(self.shown), time.monotonic() + PATIENCE
        while not text or text not in self.shown[begin:]:
            assert select.select([self.terminal], [], [], max(0, end - time.monotonic()))[0], self.shown
            try:
                self.shown += os.read(self.terminal, 4096).decode(errors="replace")
            except OSError:  # all writers are gone
                assert not text, self.shown
                return

    def answer(self, question: str, words: str) -> None:
        """Type words at a question."""
        self.until(question)
        os.write(self.terminal, f"{words}\r".encode())

    def code(self) -> int:
        """Wait for the end: the exit code."""
        self.until("")
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])

    def agent_is_gone(self) -> bool:
        """Whether the socket of the command's agent goes, and with it the agent."""
        return self.wait_until(lambda: not (runtime_dir() / f"a{self.process}").exists())

    def wait_until(self, holds: Callable[[], bool]) -> bool:
        """Wait for something outside of the terminal; the terminal is read meanwhile, for the message of a failure."""
        end = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < end, self.shown
            if select.select([self.terminal], [], [], 0.02)[0]:
                with contextlib.suppress(OSError):  # the command has ended
                    self.shown += os.read(self.terminal, 4096).decode(errors="replace")
        return True


@contextlib.contextmanager
def typed(*words: str) -> Iterator[Typed]:
    process, terminal = pty.fork()
    if process == 0:
        os.execv(REGATTA, [REGATTA, *words])
    command = Typed(process, terminal)
    try:
        yield command
    finally:
        with contextlib.suppress(ChildProcessError, ProcessLookupError):
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
        os.close(terminal)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Path]]:
    """Two hosts that let in one key, which has the passphrase "a phrase"; the person's configuration names it."""
    folder = tmp_path_factory.mktemp("person")
    key, inventory = keypair(folder / "locked", "a phrase"), folder / "inventory"
    inventory.mkdir()
    with server(folder) as sshd:
        sshd.accepts.clear()
        sshd.accept_key(key)
        (folder / "known_hosts").rename(inventory / "known_hosts")
        (folder / "own").write_text(f"Host gpu*\n HostName 127.0.0.1\n Port {sshd.port}\n IdentityFile {key}\n")
        hosts = "{gpu1: {cluster_address: 10.0.0.1}, gpu2: {cluster_address: 10.0.0.2}}"
        (inventory / "hosts.yml").write_text(f"head: {{hosts: {{gpu1: }}}}\nworkers: {{hosts: {hosts}}}\n")
        yield sshd, key


@pytest.fixture
def locked(host: tuple[Server, Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The key; connections end with the test."""
    sshd, key = host
    monkeypatch.setenv("REGATTA_INVENTORY", str(key.parent / "inventory"))
    monkeypatch.setenv("REGATTA_SSH_CONFIG", str(key.parent / "own"))
    for name in ("SSH_AUTH_SOCK", "SSH_ASKPASS", "SSH_ASKPASS_REQUIRE"):
        monkeypatch.delenv(name, raising=False)
    yield key
    sshd.drop()


def test_a_passphrase_is_asked_once_for_all_hosts(locked: Path) -> None:
    with typed("exec", "echo", "in") as command:
        command.answer(ASKS, "a phrase")
        assert command.code() == 0, command.shown
    assert command.shown.count(ASKS) == 1 and "gpu1, gpu2:\r\n    in" in command.shown, command.shown
    assert f"{locked} has a passphrase and no agent holds it" in command.shown and "a phrase" not in command.shown
    assert command.agent_is_gone()


def test_a_wrong_one_is_asked_again_and_none_ends_the_command(locked: Path) -> None:
    with typed("exec", "echo", "in") as command:
        command.answer(ASKS, "pear")
        command.answer(AGAIN, "")
        assert command.code() == 2
    assert f"{locked} stays closed" in command.shown and f"'ssh-add {locked}'" in command.shown
    assert command.agent_is_gone()


@pytest.mark.parametrize("killed", [False, True])
def test_the_agent_ends_with_a_command_that_is_stopped(host: tuple[Server, Path], locked: Path, killed: bool) -> None:
    sshd = host[0]
    sshd.commands.clear()
    with typed("exec", "sleep", "60") as command:
        command.answer(ASKS, "a phrase")
        command.wait_until(lambda: sum("sleep 60" in one for one in sshd.commands) == 2)
        socket = runtime_dir() / f"a{command.process}"
        assert socket.stat().st_mode & 0o077 == 0
        if killed:
            os.kill(command.process, signal.SIGKILL)
        else:
            os.write(command.terminal, b"\x03")
        assert command.agent_is_gone()


def test_a_key_that_no_host_takes_is_not_asked_for(host: tuple[Server, Path], locked: Path) -> None:
    sshd = host[0]
    sshd.accepts.clear()
    with typed("exec", "echo", "in") as command:
        assert command.code() == 1
    sshd.accept_key(locked)
    assert ASKS not in command.shown and "has a passphrase" in command.shown, command.shown


def test_without_a_terminal_the_key_is_named(locked: Path) -> None:
    words = [REGATTA, "exec", "echo", "in"]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    told = done.stdout + done.stderr
    assert done.returncode == 1 and told.count(f"gets no key: {locked} has a passphrase") == 2, told
    assert f"'ssh-add {locked}'" in told
