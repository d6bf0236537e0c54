"""What continues an elastic run without a controller: a unit of the head that waits for its end.

Where a node of it was lost, it puts the next generation into the queue, which is then followed likewise. The unit's
program is kept beside the copies of runs in the queue: after a reboot `roles/slurm/files/tidy.sh` starts it again.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from typing import TYPE_CHECKING, Sequence, Set, Tuple

from regatta.node import batch, queue
from regatta.node.problem import Problem
from regatta_protocol import sent
from regatta_protocol.decoding import decode, encode
from regatta_protocol.operations.queue import Further, QueuedRun, SubmitRun, Submitted

if TYPE_CHECKING:
    from regatta_protocol.place import Place

POLL_SECONDS, LATE_SECONDS = 2.0, 10.0
"""How often it looks; how much later than after its timeout Slurm may see that a node does not answer."""
_LOST, _PERHAPS = ("NODE_FAIL", "BOOT_FAIL"), ("FAILED", "OUT_OF_MEMORY")
_ENDED = (*_LOST, *_PERHAPS, "COMPLETED", "CANCELLED", "TIMEOUT", "DEADLINE", "PREEMPTED")


def submit(place: Place, first: QueuedRun, further: Sequence[Further] = ()) -> Submitted:
    """Put a run into the queue, as :func:`queue.submit` does; and what continues it, each time when a node was lost."""
    if further and queue.existing() is not None:
        raise Problem("--elastic with --detach: this cluster's Slurm is not Regatta's, which this needs: leave one out")
    done = queue.submit(place, first)
    if further:
        then = first.changed(run=further[0].run, carried=further[0].carried, after=None)
        _follow(place, first.run, SubmitRun(then, tuple(further[1:])))
    return done


def _follow(place: Place, run: str, asked: SubmitRun) -> None:
    """Let a unit do what is `asked` as soon as `run` has ended because a node was lost."""
    then = "from regatta.node import generations\n"
    then += f"generations.main({dict(place)!r}, {run!r}, {json.dumps(encode(asked))!r})\n"
    program = queue.keep_copy(_program(run), sent.program(batch.sources(), then).decode())
    unit = ["systemd-run", "--quiet", "--collect", f"--unit=regatta-further-{run}"]
    subprocess.run([*unit, "/usr/bin/python3", "-IS", program], check=True)


def main(place: Place, run: str, text: str) -> None:
    """Do what :func:`_follow` says, as the unit."""
    asked = decode(SubmitRun, json.loads(text))
    try:
        if _lost(*_end(run)):
            left = {*asked.first.carried.nodes} - {*queue.lost()}
            submit(place, asked.first.changed(wanted=max(1, min(asked.first.wanted, len(left)))), asked.further)
    except Problem as error:  # the journal is the only place for it
        print(f"{run}: {asked.first.run} does not continue it: {error}", flush=True)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"{queue.COPIES}/{_program(run)}")


def _program(run: str) -> str:
    return f".further-{run}"


def _end(run: str) -> Tuple[str, Set[str]]:
    """Wait for the end of a run; gives its state, and its nodes, also those that Slurm has taken from it."""
    nodes: Set[str] = set()
    while True:
        found = queue.job(run)
        if found is not None:
            nodes |= {*found[1]}
            if found[0] in _ENDED:
                return found[0], nodes
        elif not os.path.exists(f"{queue.COPIES}/{run}"):
            return "", nodes  # it was taken out of the queue
        time.sleep(POLL_SECONDS)


def _lost(state: str, nodes: Set[str]) -> bool:
    """Whether a run has ended because one of its nodes was lost."""
    end = time.monotonic() + queue.node_timeout() + LATE_SECONDS
    while state in _PERHAPS and time.monotonic() < end:
        if nodes & {*queue.lost()}:
            return True
        time.sleep(POLL_SECONDS)
    return state in _LOST
