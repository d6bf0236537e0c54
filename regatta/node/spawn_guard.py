"""Ends a program of a run that starts processes by `spawn` and has no main guard.

A process that is started so imports the program's main module, which without a guard starts processes again. Python
refuses that by a RuntimeError, and a pool replaces each process that ends: for ever. The first one
says what is wrong here, and ends its parent. The first file of Python in a run calls `watch`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from types import TracebackType
from typing import List, Type

STARTED = ("from multiprocessing.spawn import ", "from multiprocessing.forkserver import ")
REFUSED = "bootstrapping phase"
"""Python's own words begin so."""
WORDS = (
    "regatta: this program starts processes by spawn (or forkserver), and each of them begins to run it again. "
    'Put what it does below `if __name__ == "__main__":`. The run ends here: it would start processes for ever'
)
RUN = "REGATTA_RUN_ID"


def watch(argv: List[str]) -> None:
    """In a process that multiprocessing has started, `argv` being its command: see above."""
    if not any(word.startswith(STARTED) for word in argv):
        return
    parent, before = os.getppid(), sys.excepthook

    def told(kind: Type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        before(kind, error, trace)
        if issubclass(kind, RuntimeError) and REFUSED in str(error):
            # At once and on its own line: other processes print their tracebacks meanwhile.
            sys.stderr.write(f"\n{WORDS}\n")
            sys.stderr.flush()
            if of_this_run(parent):
                os.kill(parent, signal.SIGTERM)

    sys.excepthook = told


def of_this_run(pid: int) -> bool:
    """Whether a process belongs to this one's run, as its supervisor and daemons of a service do not."""
    with contextlib.suppress(OSError, KeyError), open(f"/proc/{pid}/environ", "rb") as file:
        return f"{RUN}={os.environ[RUN]}".encode() in file.read().split(b"\0")
    return False
