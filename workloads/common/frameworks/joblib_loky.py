"""joblib on this host, with loky's processes: this process is the driver, rank -1."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

from workloads.common import events
from workloads.common.failures import WorkerFailed
from workloads.common.framework import How
from workloads.common.items.gathering import workers
from workloads.common.items.work import Doing, Done, Task


@contextlib.contextmanager
def spread(do: Doing, tasks: Iterator[Task], how: How) -> Iterator[Iterable[Done]]:
    """Have joblib's processes take the tasks, one at a time. joblib starts them with the first ones."""
    import joblib

    events.set_rank(events.DRIVER)
    with joblib.Parallel(
        workers(), backend="loky", return_as="generator_unordered", batch_size=1, max_nbytes=None
    ) as parallel:
        yield _watched(parallel(joblib.delayed(do)(task) for task in tasks))


def _watched(results: Iterator[Done]) -> Iterator[Done]:
    from joblib.externals.loky.process_executor import BrokenProcessPool

    try:
        yield from results
    except BrokenProcessPool as error:
        raise WorkerFailed(f"a worker process of joblib is lost: {error}") from None


def leave() -> None:
    """End as Python does."""
