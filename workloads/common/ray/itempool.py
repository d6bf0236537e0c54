"""Items over ray.util.multiprocessing's Pool, as it is and behind joblib."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from workloads.common.events import BadInput
from workloads.common.items.work import Doing, Done, Task
from workloads.common.ray import cluster, itemtasks

ARGUMENTS = {"num_cpus": 0, "scheduling_strategy": "SPREAD"}
"""Of the pool's actors: Ray places them, on one node after the other."""


@dataclass(frozen=True)
class OnNode:
    """Does a task in a worker of Ray, and says on which node."""

    do: Doing

    def __call__(self, task: Task) -> Done:
        """See :func:`itemtasks.on_node`."""
        return itemtasks.on_node(self.do, task)


def check(processes: int) -> None:
    """Raise :class:`BadInput` where the pool would not start: it takes no more processes than Ray has cores."""
    import ray

    if processes > (cores := cluster.resource(ray.nodes(), "CPU")):
        raise BadInput(
            f"{processes} workers, and Ray has {cores} cores: its Pool starts no more processes than these; "
            f"ask for {cores} workers, or take the framework ray or ray-actors"
        )


@contextlib.contextmanager
def opened(processes: int) -> Iterator[Any]:
    """A pool of so many actors, which end with it. Raises :class:`BadInput`, :class:`WorkerFailed`."""
    from ray.util.multiprocessing import Pool

    check(processes)
    with itemtasks.explained():
        pool = Pool(processes, ray_remote_args=ARGUMENTS)
    try:
        yield pool
    finally:
        pool.terminate()


def explained(results: Iterable[Any]) -> Iterator[Done]:
    """The results; the pool gives an exception of Ray as one of them, and joblib raises it."""
    with itemtasks.explained():
        for one in results:
            if isinstance(one, Exception):
                raise one
            yield one
