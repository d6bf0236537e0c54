"""A node's part of a run without a controller: a task of Slurm, as root, that starts it and waits for its end.

It exits with 1 where the part has failed, so that Slurm ends those of the other nodes, which end theirs.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

from regatta.node import rundirs, runs
from regatta_protocol.decoding import decode
from regatta_protocol.operations.runs import StartRun
from regatta_protocol.states import State

POLL_SECONDS = 0.25


class _Ended(BaseException):
    """Slurm ends the task: another node's part has failed, or the run was cancelled."""


def main(what: str, asked: str) -> None:
    """Do this node's part of `asked`, which is by Slurm's name of the node: `run` it to its end, or `stop` it."""
    own = json.loads(asked)[os.environ["SLURMD_NODENAME"]]
    place, start = own["place"], decode(StartRun, own["args"])
    run = start.spec.id
    if what == "stop":
        _stop(place, run, "the run ended on another node")
        return
    signal.signal(signal.SIGTERM, _end)
    try:
        runs.start(place, start.spec, start.hidden)
        while rundirs.state(place, run) is State.RUNNING:
            time.sleep(POLL_SECONDS)
        sys.exit(0 if rundirs.state(place, run) is State.SUCCEEDED else 1)
    except _Ended:
        _stop(place, run, "the run ended on another node, or was cancelled in the queue")
    except Exception as error:  # the journal is the only place for it
        subprocess.run(["logger", "--tag=regatta-queue", f"{run}: {error}"], check=False)
        _stop(place, run, str(error))
    sys.exit(1)


def _stop(place: dict[str, object], run: str, reason: str) -> None:
    if rundirs.there(place, run):
        runs.stop(place, run, reason)


def _end(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise _Ended
