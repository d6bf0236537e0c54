"""Ray's actors, one a rank, which take items: this process is the driver, rank -1."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager

from workloads.common.framework import How
from workloads.common.items.work import Doing, Done, Task
from workloads.common.ray import itemtasks


def spread(do: Doing, tasks: Iterator[Task], how: How) -> AbstractContextManager[Iterable[Done]]:
    """Have an actor on each rank's node take the tasks."""
    return itemtasks.spread(do, tasks, itemtasks.Actors)


def leave() -> None:
    """End as Python does: Ray has been left by then."""
