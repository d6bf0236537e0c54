"""A rank of a run on a node: its process, and what it prints as lines."""

from __future__ import annotations

import collections
import contextlib
import ctypes
import os
import subprocess
from typing import Mapping

from regatta_protocol.run import Process

if __package__:
    from regatta.node import cgroup
else:  # next to the supervisor, in the run's folder
    import cgroup  # type: ignore[import-not-found, no-redef, unused-ignore]

PR_SET_PTRACER, PR_SET_PTRACER_ANY = 0x59616D61, (1 << 8 * ctypes.sizeof(ctypes.c_ulong)) - 1
"""Of Yama, which some systems have: without these only a process's own ancestors may look into it."""
LAST_LINES = 20
MOST_LINE_BYTES = 1 << 20
MOST_LAST = 4096
"""Characters that are kept of a line for the message of a failure; the log has all of it."""
OURS = b"regatta: "
"""With these words begins what Regatta's own code in a rank says to its user."""


class Output:
    """Turns blocks of bytes into lines. Of parts separated by carriage returns the last is left, as on a terminal.

    `bar`: a line that has been written over and has not ended: a progress bar; None where there is none.
    """

    def __init__(self) -> None:
        self.bar: bytes | None = None
        self._rest = b""

    def take(self, block: bytes) -> list[bytes]:
        """The lines that have ended with this block. One of more than 1 MiB ends by itself."""
        *lines, self._rest = (self._rest + block).split(b"\n")
        if lines:
            self.bar = None
        if b"\r" in self._rest:
            self.bar = _last_part(self._rest)
            # Text behind the last carriage return may grow; text before it is needed while that is nothing.
            self._rest = self._rest.rpartition(b"\r")[2] or self.bar + b"\r"
        elif self.bar is not None:
            self.bar = self._rest
        if len(self._rest) > MOST_LINE_BYTES:
            lines, self._rest = [*lines, self._rest], b""
        return [_last_part(line) for line in lines]

    def flush(self) -> list[bytes]:
        """The line that has not ended, if there is one."""
        rest, self._rest, self.bar = self._rest, b"", None
        return [_last_part(rest)] if rest else []


def _last_part(line: bytes) -> bytes:
    return next((part for part in reversed(line.split(b"\r")) if part), b"")


def _go_first() -> None:
    """Let the kernel end ranks first where the memory of a host is used up, and let py-spy look into them."""
    ctypes.CDLL(None).prctl(PR_SET_PTRACER, ctypes.c_ulong(PR_SET_PTRACER_ANY), 0, 0, 0)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write(str(cgroup.RANK_OOM_SCORE))


class Rank:
    """One process of the run, with its last lines, and what Regatta's own code in it said last (None: nothing)."""

    def __init__(self, spec: Process, common_env: Mapping[str, str], folder: str) -> None:
        self.rank = spec.rank
        self.lines = Output()
        self.last: collections.deque[str] = collections.deque(maxlen=LAST_LINES)
        self.ours: str | None = None
        self.code: int | None = None
        self.closed = False
        self.process = subprocess.Popen(
            spec.argv,
            cwd=folder,
            env={**os.environ, **common_env, **spec.env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_go_first,  # noqa: PLW1509 (the supervisor has no threads)
        )
        assert self.process.stdout is not None
        self.output = self.process.stdout.fileno()
        os.set_blocking(self.output, False)

    def signal(self, number: int) -> None:
        """Signal the rank's process group; its processes that left the group are ended by `end_descendants`."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)

    def read(self) -> list[bytes] | None:
        """The lines of one block of what it has printed; None where there is no more, for now or for ever."""
        try:
            block = os.read(self.output, 1 << 16)
        except (BlockingIOError, ValueError):
            return None
        if not block:
            self.closed = True
            return None
        return self.remember(self.lines.take(block))

    def remember(self, lines: list[bytes]) -> list[bytes]:
        """Keep the last ones for the message of a failure, see `last_lines`."""
        for line in lines:
            if OURS in line:
                self.ours = line.decode("utf-8", "replace")
        self.last.extend(line.decode("utf-8", "replace") for line in lines[-LAST_LINES:])
        return lines

    def last_lines(self) -> list[str]:
        """Return what was printed last; what Regatta's own code said comes before it, where many lines came
        after that.
        """
        lines = [*([self.ours] if self.ours and self.ours not in self.last else []), *self.last]
        return [line[:MOST_LAST] for line in lines]
