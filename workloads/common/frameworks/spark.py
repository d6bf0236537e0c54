"""Spark: this process is the driver, rank -1; executors do items, and parts that know Spark's way; others are ranks."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
import socket
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

from workloads.common import events
from workloads.common.framework import How
from workloads.common.items.gathering import workers
from workloads.common.items.work import Doing, Done, Task
from workloads.common.part import Group, MakePart, SparkPart
from workloads.common.ranks import Ranks

WAVE = 32
"""Tasks of each worker that one job of Spark has: a job's tasks are all made before it begins."""


@dataclass(frozen=True)
class OnHost:
    """Does a task in an executor, and says on which host."""

    do: Doing

    def __call__(self, task: Task) -> Done:
        """See :class:`Doing`."""
        return replace(self.do(task), address=own_address())


@functools.cache
def own_address() -> str | None:
    """Which address of the run's ranks is this host's; None where it has none of them."""
    for address in {*json.loads(os.environ.get("REGATTA_RANK_MAP") or "[]")}:
        with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
            return str(address)
    return None


def answers(make: MakePart, *, grouped: Group | None, restarts: int) -> AbstractContextManager[Sequence[Any]]:
    """Run a part that knows Spark's way here, where executors do its work; others as ranks, in torch's process group.

    Of the former Spark does again what a lost executor had; a rank that is lost is not started again.
    """
    events.set_rank(events.DRIVER)
    if grouped != "train" and isinstance(part := make(Ranks()), SparkPart):
        from workloads.common.spark import driven

        return driven.answers(part)
    from workloads.common.spark import training

    return training.answers(make, restarts)


@contextlib.contextmanager
def spread(do: Doing, tasks: Iterator[Task], how: How) -> Iterator[Iterable[Done]]:
    """Have executors do the tasks, each of which Spark tries again where its executor is lost."""
    from workloads.common.spark import driven

    events.set_rank(events.DRIVER)
    with contextlib.ExitStack() as stack:
        with events.phase("rendezvous"):
            context = stack.enter_context(driven.joined())
        yield _results(context, OnHost(do), tasks, WAVE * workers())


def _results(context: Any, do: OnHost, tasks: Iterator[Task], most: int) -> Iterator[Done]:
    from workloads.common.spark import driven

    while wave := list(itertools.islice(tasks, most)):
        with driven.gives_up():
            done = context.parallelize(wave, len(wave)).map(do).collect()
        yield from done


def leave() -> None:
    """End as Python does."""
