"""ray.util.multiprocessing.Pool over the cluster: this process is the driver, rank -1."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

from workloads.common import events
from workloads.common.framework import How
from workloads.common.items.work import Doing, Done, Task
from workloads.common.ray import itempool, itemtasks


@contextlib.contextmanager
def spread(do: Doing, tasks: Iterator[Task], how: How) -> Iterator[Iterable[Done]]:
    """Have the pool's actors take the tasks, each its own in turn: Ray gives them out one after the other."""
    with contextlib.ExitStack() as stack:
        with events.phase("rendezvous"):
            places = stack.enter_context(itemtasks.joined())
            pool = stack.enter_context(itempool.opened(places))
        yield itempool.explained(pool.imap_unordered(itempool.OnNode(do), tasks, chunksize=1))


def leave() -> None:
    """End as Python does: Ray has been left by then."""
