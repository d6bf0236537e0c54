"""Workloads of tasks that need each other's results: how each framework runs them, and their command line."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, Protocol

from workloads.common import cardfile, commandline, events, framework
from workloads.common.items.gathering import workers

START_SECONDS = 0.1
"""Seconds of sleep of a worker of Ray that is started before the timers are, so that none takes the part of another."""
WAITING = 128
"""Tasks that wait for their arguments, at most, besides a pool: those that were submitted first."""


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
    """Tasks of Ray, on any host, ``REGATTA_WORKERS`` at a time where these are more than the cluster's cores.

    A task takes a core, or that part of one which lets each worker have one.
    """

    def __init__(self) -> None:
        import ray

        cores = max(1, int(ray.cluster_resources().get("CPU", 1)))
        self._workers = int(os.environ.get("REGATTA_WORKERS") or cores)
        share = int(10_000 / -(-self._workers // cores)) / 10_000
        self._call = ray.remote(num_cpus=share, max_retries=0)(_call)

    def stand(self) -> None:
        """Return when Ray has started the workers."""
        import ray

        ray.get([self._call.remote(time.sleep, START_SECONDS) for _ in range(self._workers)])

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """See :class:`Graph`."""
        return self._call.remote(function, *arguments)

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
    with multiprocessing.Pool(workers()) as pool, ThreadPoolExecutor(WAITING) as waiting:
        yield Pooled(pool, waiting)


@contextlib.contextmanager
def in_ray() -> Iterator[Graph]:
    """The cluster's Ray, or a private one."""
    from workloads.common.ray import cluster

    with cluster.driver() as arguments:
        import ray

        with events.phase("rendezvous"):
            ray.init(logging_level=logging.WARNING, **arguments)
            graph = InRay()
            graph.stand()
        yield graph


KINDS: Mapping[str, Callable[[], AbstractContextManager[Graph]]] = {
    "single": alone,
    "multiprocessing": pooled,
    "ray": in_ray,
}


def main(package: str, run: Callable[[Mapping[str, Any], str, Graph], None]) -> None:
    """Run a workload of tasks with the arguments of the process; bad input ends it with status 2.

    `run` gets the options of its card, the framework's name, and the graph, when all workers are ready.
    """
    try:
        given = vars(commandline.parser(cardfile.of_package(package), package).parse_args())
        chosen = given.pop("framework")
        name = framework.of_environment() if chosen == framework.AUTO else chosen
        if name not in KINDS:
            raise events.BadInput(f"the framework {name} runs no graphs, {', '.join(KINDS)} do")
        with KINDS[name]() as graph:
            run(given, name, graph)
    except events.BadInput as error:
        events.bad_input(error)


def told(answer: Mapping[str, Any], show: list[str]) -> None:
    """Write the answer, and for a person what is to be shown of it."""
    events.used()
    events.result(dict(answer), {}, show)
    if not os.environ.get("REGATTA_RUN_ID"):
        print("\n".join(show))
