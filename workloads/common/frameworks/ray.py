"""Ray: this process is the driver, rank -1. Parts run in actors or as the workers of Ray Train, items as tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

from workloads.common.framework import How
from workloads.common.items.work import Doing, Done, Task
from workloads.common.part import Group, MakePart
from workloads.common.ray import actors, itemtasks, train


def answers(make: MakePart, *, grouped: Group | None, restarts: int) -> AbstractContextManager[Sequence[Any]]:
    """Run the parts in the cluster at ``RAY_ADDRESS``, or in a private one. Only Ray Train starts lost ranks again."""
    if grouped == "train":
        return train.answers(make, restarts)
    return actors.answers(make, grouped=grouped is not None)


def spread(do: Doing, tasks: Iterator[Task], how: How) -> AbstractContextManager[Iterable[Done]]:
    """A task of Ray for each task."""
    return itemtasks.spread(do, tasks, itemtasks.Tasks)


def leave() -> None:
    """End as Python does: Ray has been left by then."""
