"""A process of ssh as what paramiko reads from and writes to: the way to a host, or a subsystem there."""

import contextlib
import logging
import os
import select
import subprocess
from typing import TYPE_CHECKING

import paramiko

if TYPE_CHECKING:
    from typing_extensions import Buffer

logging.getLogger("paramiko").setLevel(logging.CRITICAL)  # its errors reach us as exceptions
_LEAVE_SECONDS = 1.0


class Process(paramiko.ProxyCommand):
    """As paramiko's, which reads on after the end, loses what a pipe did not take, and leaves its process behind."""

    def get_name(self) -> str:
        """The name in paramiko's log."""
        return "ssh"

    def recv(self, size: int) -> bytes:
        """The bytes that have come, at most `size`; nothing at the end. TimeoutError."""
        assert self.process.stdout
        if self.process.stdout.closed:
            return b""
        if not select.select([self.process.stdout], [], [], self.timeout)[0]:
            raise TimeoutError
        return os.read(self.process.stdout.fileno(), size)

    def send(self, content: "Buffer") -> int:
        """Write; the number of bytes that were taken. OSError."""
        assert self.process.stdin
        if self.process.stdin.closed:
            raise BrokenPipeError
        return os.write(self.process.stdin.fileno(), content)

    def close(self) -> None:
        """End it; `said` works until `end`."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                with contextlib.suppress(OSError):
                    pipe.close()
        try:
            self.process.wait(_LEAVE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def said(self) -> str | None:
        """Its error message, where it has failed by itself; else None. For use after `close`."""
        failed = self.process.returncode not in (0, None) and self.process.returncode > 0
        return self.process.stderr.read().decode("utf-8", "replace").strip() if failed and self.process.stderr else None

    def end(self) -> None:
        """Close all."""
        self.close()
        if self.process.stderr:
            self.process.stderr.close()
