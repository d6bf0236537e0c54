"""The threads of this process: as many as the launcher says, each on its own core where there are enough."""

from __future__ import annotations

import itertools
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from workloads.common.ranks import Ranks

Item = TypeVar("Item")
Made = TypeVar("Made")


def count() -> int:
    """``OMP_NUM_THREADS``, as launchers set it, else the cores that this process may use."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    return int(given) if given.isdigit() and int(given) else len(os.sched_getaffinity(0))


def pool(ranks: Ranks | None = None) -> ThreadPoolExecutor:
    """Threads that work without the GIL. If the ranks of this host use every core, each thread stays on one."""
    ranks, threads = ranks or Ranks(), count()
    cores = sorted(os.sched_getaffinity(0))
    numbers = itertools.count(ranks.local_rank * threads)

    def pin() -> None:
        os.sched_setaffinity(threading.get_native_id(), {cores[next(numbers) % len(cores)]})

    pinned = ranks.local_world * threads == len(cores)
    return ThreadPoolExecutor(threads, initializer=pin if pinned else None)


def in_order(
    workers: ThreadPoolExecutor, work: Callable[[Item], Made], items: Iterable[Item], ahead: int
) -> Iterator[Made]:
    """Yield what `work` makes of each item, in order, with at most `ahead` items taken and not yet given back."""
    waiting: deque[Future[Made]] = deque()
    for item in items:
        waiting.append(workers.submit(work, item))
        if len(waiting) >= ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()
