"""A multiprocessing.Process for each chunk of items, on this host: this process is the driver, rank -1."""

from __future__ import annotations

import contextlib
import multiprocessing
from collections.abc import Iterable, Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from workloads.common import events
from workloads.common.failures import WorkerFailed
from workloads.common.framework import How
from workloads.common.items.gathering import workers
from workloads.common.items.processes import lost
from workloads.common.items.work import Doing, Done, Task

END_SECONDS = 5.0
"""Seconds that a process which has answered may take to end."""

FORKS = True
"""Its workers are processes of this host that may fork: a trial of a search is its own process."""


@contextlib.contextmanager
def spread(do: Doing, tasks: Iterator[Task], how: How) -> Iterator[Iterable[Done]]:
    """Start a process for each task, ``REGATTA_WORKERS`` at a time."""
    events.set_rank(events.DRIVER)
    running: dict[Connection, BaseProcess] = {}
    try:
        yield _results(do, tasks, how.start, running)
    finally:
        for process in running.values():
            process.kill()
            process.join()


def _results(do: Doing, tasks: Iterator[Task], start: str, running: dict[Connection, BaseProcess]) -> Iterator[Done]:
    context: Any = multiprocessing.get_context(start)
    worked = False
    while True:
        while len(running) < workers() and (task := next(tasks, None)) is not None:
            receiver, sender = context.Pipe(duplex=False)
            process = context.Process(target=_one, args=(do, task, sender))
            process.start()
            sender.close()
            running[receiver] = process
        if not running:
            return
        for ready in wait([*running]):
            assert isinstance(ready, Connection)
            with ready:
                process = running.pop(ready)
                done = _received(ready)
                process.join(END_SECONDS)
                if done is None:
                    raise WorkerFailed(lost(process, start, worked=worked))
                process.kill()
                worked = True
                yield done


def _received(receiver: Connection) -> Done | None:
    """Return what a process has done; None where it has ended without a word, or in the middle of one."""
    try:
        done: Done = receiver.recv()
    except (EOFError, OSError):
        return None
    return done


def _one(do: Doing, task: Task, sender: Connection) -> None:
    sender.send(do(task))
    sender.close()


def leave() -> None:
    """End as Python does."""
