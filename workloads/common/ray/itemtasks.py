"""Items over the cluster's Ray: in tasks, or in actors. As many at a time on each node as it has ranks."""

from __future__ import annotations

import contextlib
import logging
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from workloads.common import events
from workloads.common.failures import WorkerFailed
from workloads.common.items.work import Doing, Done, Task
from workloads.common.ray import cluster, placement

AHEAD, MOST_AHEAD = 2, 8
"""Tasks that a rank has: the one that it does, and one that waits there; and at most, where they are short."""
AHEAD_SECONDS = 0.05
"""Seconds that the tasks of a rank may last: what waits at one rank no other does."""
Place = tuple[str, str]
"""A rank's node: its address and Ray's id."""


def on_node(do: Doing, task: Task) -> Done:
    """Do a task in a worker of Ray, and say on which node."""
    import ray

    return replace(do(task), address=ray.util.get_node_ip_address())


class Ranks(ABC):
    """A pool for tasks: as many lanes as there are ranks, each with its place."""

    def __init__(self, do: Doing, places: Sequence[Place]) -> None:
        self.do, self.places = do, places

    @abstractmethod
    def stand(self) -> None:
        """Return when the workers have started."""

    @abstractmethod
    def submit(self, rank: int, task: Task) -> Any:
        """Give a task to a rank; what Ray calls its result."""


class Tasks(Ranks):
    """Tasks of Ray: those of a node are held to as many at a time as it has ranks by a share of the node's own unit."""

    def __init__(self, do: Doing, places: Sequence[Place]) -> None:
        super().__init__(do, places)
        import ray

        on_each, units = Counter(places), {node["NodeID"]: _unit(node) for node in ray.nodes() if node["Alive"]}
        remote = ray.remote(num_cpus=0, max_retries=0)(on_node)
        shares = {place: int(10_000 / number) / 10_000 for place, number in on_each.items()}
        self._remote = {place: remote.options(resources={units[place[1]]: shares[place]}) for place in on_each}

    def stand(self) -> None:
        """Have Ray start a worker for each rank, by a task that does nothing."""
        import ray

        nothing = Task(0, ())
        ray.get([self.submit(rank, nothing) for rank in range(len(self.places))])

    def submit(self, rank: int, task: Task) -> Any:
        """See :class:`Ranks`."""
        return self._remote[self.places[rank]].remote(self.do, task)


class Worker:
    """An actor that does tasks."""

    def __init__(self, do: Doing) -> None:
        self._do = do

    def stands(self) -> None:
        """It has started."""

    def take(self, task: Task) -> Done:
        """Do a task."""
        return on_node(self._do, task)


class Actors(Ranks):
    """An actor for each rank, on its node."""

    def __init__(self, do: Doing, places: Sequence[Place]) -> None:
        super().__init__(do, places)
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        actor = ray.remote(num_cpus=0, max_restarts=0)(Worker)
        at = [NodeAffinitySchedulingStrategy(node, soft=False) for _, node in places]
        self._actors = [actor.options(scheduling_strategy=place).remote(do) for place in at]

    def stand(self) -> None:
        """See :class:`Ranks`."""
        import ray

        ray.get([actor.stands.remote() for actor in self._actors])

    def submit(self, rank: int, task: Task) -> Any:
        """See :class:`Ranks`."""
        return self._actors[rank].take.remote(task)


@contextlib.contextmanager
def joined() -> Iterator[list[Place]]:
    """Be the driver of Ray; gives the place of each rank. The time until then is part of `rendezvous`."""
    with cluster.driver() as arguments:
        import ray

        ray.init(logging_level=logging.WARNING, **arguments)
        yield placement.places(ray.nodes(), ray.get_runtime_context().get_node_id())


@contextlib.contextmanager
def spread(do: Doing, tasks: Iterator[Task], kind: type[Ranks]) -> Iterator[Iterable[Done]]:
    """Have ranks of this kind do the tasks."""
    with contextlib.ExitStack() as stack:
        with events.phase("rendezvous"):
            places = stack.enter_context(joined())
            ranks = kind(do, places)
            with explained():
                ranks.stand()
        yield _results(ranks, tasks)


def _results(ranks: Ranks, tasks: Iterator[Task]) -> Iterator[Done]:
    """Keep each rank busy, and give what comes back."""
    import ray

    pending: dict[Any, int] = {}
    had = [0] * len(ranks.places)
    began, count, ahead = time.monotonic(), 0, AHEAD
    while True:
        while had[rank := had.index(min(had))] < ahead and (task := next(tasks, None)) is not None:
            pending[ranks.submit(rank, task)] = rank
            had[rank] += 1
        if not pending:
            return
        (ref,), _ = ray.wait(list(pending), num_returns=1)
        rank = pending.pop(ref)
        had[rank] -= 1
        with explained(rank, ranks.places[rank][0]):
            done = ray.get(ref)
        count += 1
        each = (time.monotonic() - began) * len(had) / count
        ahead = max(AHEAD, min(MOST_AHEAD, int(AHEAD_SECONDS / each)))
        yield done


@contextlib.contextmanager
def explained(rank: int | None = None, address: str | None = None) -> Iterator[None]:
    """Put what Ray raises of a worker in words. Raises :class:`WorkerFailed`."""
    from ray.exceptions import RayError

    try:
        yield
    except RayError as error:
        where = f" on {address}" if address else ""
        last = str(error).strip().splitlines()[-1:] or [type(error).__name__]
        raise WorkerFailed(f"a worker{where} is lost: {last[0]}", str(error), rank, address) from None


def _unit(node: cluster.Node) -> str:
    """The resource that each node has once."""
    return f"node:{node['NodeManagerAddress']}"
