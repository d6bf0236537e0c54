"""Tasks that need each other's results, under each framework."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, Protocol

from workloads.common import events
from workloads.common.items.gathering import workers

WIDEST = 4
"""Tasks of a graph that do not need each other: Ray starts workers for so many before the clocks do."""
START_SECONDS = 0.1


class Graph(Protocol):
    """Takes tasks, whose arguments may be tasks that it has taken."""

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """A task; it starts when its arguments are there."""

    def get(self, task: Any) -> Any:
        """The result of a task."""


class Alone:
    """This process does each task at once."""

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The result itself."""
        return function(*arguments)

    def get(self, task: Any) -> Any:
        """See :class:`Graph`."""
        return task


class Pooled:
    """A pool of processes; a thread for each task waits for its arguments, which the pool cannot."""

    def __init__(self, pool: Any, waiting: ThreadPoolExecutor) -> None:
        self._pool, self._waiting = pool, waiting

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """See :class:`Graph`."""
        return self._waiting.submit(lambda: self._pool.apply(function, [self.get(one) for one in arguments]))

    def get(self, task: Any) -> Any:
        """See :class:`Graph`."""
        return task.result() if isinstance(task, Future) else task


class InRay:
    """Tasks of Ray, each of which takes a core of any host."""

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """See :class:`Graph`."""
        import ray

        return ray.remote(max_retries=0)(_call).remote(function, *arguments)

    def get(self, task: Any) -> Any:
        """See :class:`Graph`."""
        import ray

        return ray.get(task)


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


@contextlib.contextmanager
def alone() -> Iterator[Graph]:
    """One process."""
    yield Alone()


@contextlib.contextmanager
def pooled() -> Iterator[Graph]:
    """multiprocessing.Pool, with ``REGATTA_WORKERS`` processes."""
    events.set_rank(events.DRIVER)
    with multiprocessing.Pool(workers()) as pool, ThreadPoolExecutor(32) as waiting:
        yield Pooled(pool, waiting)


@contextlib.contextmanager
def in_ray() -> Iterator[Graph]:
    """The cluster's Ray, or a private one."""
    from workloads.common.ray import cluster

    with cluster.driver() as arguments:
        import ray

        with events.phase("rendezvous"):
            ray.init(logging_level=logging.WARNING, **arguments)
            call = ray.remote(_call)
            ray.get([call.remote(time.sleep, START_SECONDS) for _ in range(WIDEST)])
        yield InRay()


KINDS: Mapping[str, Callable[[], AbstractContextManager[Graph]]] = {
    "single": alone,
    "multiprocessing": pooled,
    "ray": in_ray,
}
