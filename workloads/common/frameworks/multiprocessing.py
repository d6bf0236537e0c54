"""multiprocessing.Pool on this host: this process is the driver, rank -1."""

from __future__ import annotations

import contextlib
import multiprocessing
import time
from collections.abc import Iterable, Iterator, Sequence
from multiprocessing.process import BaseProcess
from typing import Any

from workloads.common import events
from workloads.common.failures import WorkerFailed
from workloads.common.framework import How
from workloads.common.items.gathering import workers
from workloads.common.items.processes import lost
from workloads.common.items.work import Doing, Done, Task

FORKS = True
"""Its workers are processes of this host that may fork: a trial of a search is its own process."""
POLL_SECONDS = 0.5


@contextlib.contextmanager
def spread(do: Doing, tasks: Iterator[Task], how: How) -> Iterator[Iterable[Done]]:
    """Have a pool of processes take the tasks, one at a time."""
    events.set_rank(events.DRIVER)
    context = multiprocessing.get_context(how.start)
    with context.Pool(workers()) as pool:
        processes = multiprocessing.active_children()  # before any task: the pool replaces a process that ends
        yield _watched(pool.imap_unordered(do, tasks), processes, how.start)


def _watched(results: Any, processes: Sequence[BaseProcess], start: str) -> Iterator[Done]:
    """The results; a process that ends meanwhile has taken its task along, which the pool itself waits for forever."""
    looked, worked = time.monotonic(), False
    while True:
        with contextlib.suppress(multiprocessing.TimeoutError):
            try:
                yield results.next(timeout=POLL_SECONDS)
            except StopIteration:
                return
            worked = True
        if time.monotonic() - looked > POLL_SECONDS:
            looked = time.monotonic()
            if ended := [process for process in processes if process.exitcode is not None]:
                raise WorkerFailed(lost(ended[0], start, worked=worked))


def leave() -> None:
    """End as Python does."""
