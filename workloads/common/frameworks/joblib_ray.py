"""joblib with Ray behind it: this process is the driver, rank -1."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator
from typing import Any

from workloads.common import events
from workloads.common.framework import How
from workloads.common.items.work import Doing, Done, Task
from workloads.common.ray import itempool, itemtasks

WAVE = 32
"""Tasks for each worker in one call of joblib, whose backend for Ray tells nothing before the last one has ended."""


@contextlib.contextmanager
def spread(do: Doing, tasks: Iterator[Task], how: How) -> Iterator[Iterable[Done]]:
    """Have the actors behind joblib take the tasks, wave after wave."""
    with contextlib.ExitStack() as stack:
        with events.phase("rendezvous"):
            places = stack.enter_context(itemtasks.joined())
            import joblib
            from ray.util.joblib import register_ray

            register_ray()
            itempool.check(len(places))
            stack.enter_context(joblib.parallel_config("ray", ray_remote_args=itempool.arguments(places)))
            parallel = stack.enter_context(joblib.Parallel(len(places), batch_size=1))
        yield itempool.explained(_waves(parallel, itempool.OnNode(do), tasks, WAVE * len(places)))


def _waves(parallel: Any, do: itempool.OnNode, tasks: Iterator[Task], size: int) -> Iterator[Any]:
    import joblib

    while wave := list(itertools.islice(tasks, size)):
        yield from parallel(joblib.delayed(do)(task) for task in wave)


def leave() -> None:
    """End as Python does: Ray has been left by then."""
