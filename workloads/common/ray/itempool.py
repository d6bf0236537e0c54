"""Items over ray.util.multiprocessing's Pool, as it is and behind joblib."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from workloads.common.events import BadInput
from workloads.common.items.work import Doing, Done, Task
from workloads.common.ray import cluster, itemtasks


def arguments(places: Sequence[itemtasks.Place]) -> dict[str, Any]:
    """Of the pool's actors: Ray places them on one node after the other, of those that the run has.

    By a selector of labels: for actors that ask for no cores, Ray 2.60 takes no notice of NodeLabelSchedulingStrategy.
    """
    own = sorted({node for _, node in places})
    selector = {"ray.io/node-id": f"in({','.join(own)})"}
    return {"num_cpus": 0, "scheduling_strategy": "SPREAD", "label_selector": selector}


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
def opened(places: Sequence[itemtasks.Place]) -> Iterator[Any]:
    """A pool of an actor for each place, which end with it. Raises :class:`BadInput`, :class:`WorkerFailed`."""
    from ray.util.multiprocessing import Pool

    check(len(places))
    with itemtasks.explained():
        pool = Pool(len(places), ray_remote_args=arguments(places))
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
