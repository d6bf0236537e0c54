"""Processes of multiprocessing that end before their time, in words."""

from __future__ import annotations

import signal
from multiprocessing.process import BaseProcess


def lost(process: BaseProcess, start: str, *, worked: bool) -> str:
    """Return how a worker has ended. `start`: how it was started; `worked`: whether any has done a task."""
    code = process.exitcode
    if code is None:
        how = "is gone"
    elif code < 0:
        how = f"was killed by {signal.Signals(-code).name}"
    else:
        how = f"exited with code {code}"
    said = f"a worker process ({process.pid}) {how}, and its items with it"
    if start != "fork" and not worked and (code or 0) > 0:
        said += f"; with --start={start} a worker imports the program's main module, which must do nothing then: "
        said += 'put what it does below `if __name__ == "__main__":`'
    return said
