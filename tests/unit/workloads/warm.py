"""Processes that begin with torch and numba loaded: forked from one that has loaded them and done nothing else.

Loading both takes longer than most of what the tests start does. `Forked` is what `subprocess.Popen` is, as far as
these tests use that; `python warm.py FD` is the process that forks.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import IO

LOADED = (
    "numpy",
    "scipy.sparse",
    "numba",
    "torch",
    "torch.distributed",
    "workloads.ppr.power",
    "workloads.common.training",
)
_MOST = 1 << 20


class Forked:
    """A process of the project's Python, begun by the one that has loaded everything."""

    def __init__(self, channel: socket.socket, arguments: list[str], env: dict[str, str]) -> None:
        self.args, self.returncode = arguments, None
        out, err, status = os.pipe(), os.pipe(), os.pipe()
        request = json.dumps({"arguments": arguments, "env": env}).encode()
        socket.send_fds(channel, [request], [out[1], err[1], status[1]])
        for pair in (out, err, status):
            os.close(pair[1])
        self.stdout: IO[str] = os.fdopen(out[0])
        self.stderr: IO[str] = os.fdopen(err[0])
        self._status = status[0]
        self.pid = int(channel.recv(32))
        self.returncode: int | None

    def poll(self) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        if self.returncode is None and select.select([self._status], [], [], 0)[0]:
            said = os.read(self._status, 32)
            self.returncode = int(said) if said else -signal.SIGKILL
            os.close(self._status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end."""
        if self.returncode is None and not select.select([self._status], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        status = self.poll()
        assert status is not None
        return status

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """All that it still prints, after its end."""
        end = None if timeout is None else time.monotonic() + timeout
        texts = ["", ""]

        def read(number: int, file: IO[str]) -> None:
            texts[number] = file.read()

        readers = [
            threading.Thread(target=read, args=each, daemon=True) for each in enumerate((self.stdout, self.stderr))
        ]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(None if end is None else max(0, end - time.monotonic()))
            if reader.is_alive():
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
        self.wait(None if end is None else max(0, end - time.monotonic()))
        self.stdout.close()
        self.stderr.close()
        return texts[0], texts[1]

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def __enter__(self) -> Forked:
        return self

    def __exit__(self, *_: object) -> None:
        self.stdout.close()
        self.stderr.close()
        self.wait()


class Loaded:
    """The process that forks the others; it ends with the one that made this, and takes what still runs with it."""

    def __init__(self, folder: str) -> None:
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._channel.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MOST)
        env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": folder}
        command = [sys.executable, __file__, str(theirs.fileno())]
        self._process = subprocess.Popen(command, cwd=folder, env=env, pass_fds=[theirs.fileno()])
        theirs.close()

    def start(self, arguments: list[str], env: dict[str, str]) -> Forked:
        """`python ARGUMENTS` in this environment."""
        return Forked(self._channel, arguments, env)

    def close(self) -> None:
        """End it."""
        self._channel.close()
        self._process.wait()


def _serve(channel: socket.socket) -> None:
    running: dict[int, int] = {}
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    woken, waking = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(waking)
    while True:
        ready = select.select([channel, woken], [], [])[0]
        if woken in ready:
            os.read(woken, 100)
            _reap(running)
        if channel in ready:
            request, given, _, _ = socket.recv_fds(channel, _MOST, 3)
            if not request:
                break
            out, err, status = given
            if (pid := os.fork()) == 0:
                signal.set_wakeup_fd(-1)
                for number in (signal.SIGCHLD, signal.SIGINT):
                    signal.signal(number, signal.SIG_DFL if number != signal.SIGINT else signal.default_int_handler)
                for file in (channel.detach(), woken, waking, status, *running.values()):
                    os.close(file)
                _become(json.loads(request), out, err)
            running[pid] = status
            os.close(out)
            os.close(err)
            channel.send(str(pid).encode())
    for pid in running:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _reap(running: dict[int, int]) -> None:
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            status = running.pop(ended[0])
            with contextlib.suppress(BrokenPipeError):
                os.write(status, str(os.waitstatus_to_exitcode(ended[1])).encode())
            os.close(status)


def _become(request: dict[str, object], out: int, err: int) -> None:
    """The same as a fresh interpreter does with these arguments."""
    for number, file in ((1, out), (2, err)):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(request["env"])  # type: ignore[arg-type,call-overload]
    program, *arguments = request["arguments"]  # type: ignore[misc]
    code: object = 0
    try:
        if program == "-m":
            sys.path[0] = str(Path.cwd())
            sys.argv = arguments
            runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
        else:
            sys.path[0] = str(Path(program).parent)
            sys.argv = [program, *arguments]
            runpy.run_path(program, run_name="__main__")
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
        code = 1
    if not isinstance(code, (int, type(None))):
        print(code, file=sys.stderr)
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit((code or 0) & 0xFF)


if __name__ == "__main__":
    for name in LOADED:
        __import__(name)
    _serve(socket.socket(fileno=int(sys.argv[1])))
