"""A trial in its own process, forked from this one: whatever it does, this one continues."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

from workloads.common.search.trial import Outcome, Trial, ended, limit_memory, words

_READ_BYTES = 1 << 16


def run(trial: Trial, number: int, point: dict[str, Any], folder: Path) -> Outcome:
    """Run a trial; what it raises, a limit that it meets and a signal that kills it are its `error`."""
    folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _be(trial, point, folder, writing)
    os.close(writing)
    with os.fdopen(reading, "rb", buffering=0) as pipe:
        said, late = _heard(pipe.fileno(), began + trial.seconds if trial.seconds else None)
    if late:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    lines = [json.loads(line) for line in said.split(b"\n")[:-1]]
    made = Outcome(number, point, [line["report"] for line in lines if "report" in line])
    made.seconds, made.host = time.monotonic() - began, socket.gethostname()
    made.error = next((line["error"] for line in lines if "error" in line), None)
    if late:
        made.error = f"took longer than {trial.seconds:g} s"
    elif status and made.error is None:
        made.error = ended(os.waitstatus_to_exitcode(status))
    made.folder = str(folder) if any(folder.iterdir()) else None
    return made


def _heard(pipe: int, deadline: float | None) -> tuple[bytes, bool]:
    """All that a trial says, and whether the deadline has come first."""
    said = b""
    while True:
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        if not select.select([pipe], [], [], left)[0]:
            return said, True
        more = os.read(pipe, _READ_BYTES)
        if not more:
            return said, False
        said += more


def _be(trial: Trial, point: dict[str, Any], folder: Path, pipe: int) -> NoReturn:
    """Be the trial's process."""
    code = 1
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        try:
            limit_memory(trial.megabytes)
            for report in trial.reports(point, folder):
                _say(pipe, {"report": report})
        except BaseException as error:
            _say(pipe, {"error": words(error, trial.megabytes)})
        sys.stdout.flush()
        sys.stderr.flush()
        code = 0
    finally:
        os._exit(code)


def _say(pipe: int, line: dict[str, Any]) -> None:
    rest = json.dumps(line).encode() + b"\n"
    while rest:
        rest = rest[os.write(pipe, rest) :]
