"""Items under dask: rank 0 has the scheduler, and a worker in its own process; every other rank is a worker."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from workloads.common import events
from workloads.common.events import BadInput
from workloads.common.failures import WorkerFailed
from workloads.common.framework import How
from workloads.common.items.work import Doing, Done, Task
from workloads.common.ranks import Ranks, group_timeout

AHEAD = 2
"""Tasks that a worker has at most: the one that it does, and the next."""
QUIET: dict[str, Any] = {"distributed.scheduler.http.routes": [], "distributed.worker.http.routes": []}
"""Pages that scheduler and workers show to whoever asks, without TLS: none."""
VARIABLES = ("REGATTA_SCHEDULER", "REGATTA_ADDRESS", "REGATTA_TLS_KEY", "REGATTA_TLS_CERTIFICATE")


@dataclass(frozen=True)
class Place:
    """The address of the scheduler, this host's, and the key and the certificate of the run."""

    scheduler: str
    address: str
    key: str = field(repr=False)
    certificate: str = field(repr=False)

    def security(self) -> Any:
        """Return what dask takes: all show the run's certificate, and believe no other."""
        from distributed.security import Security

        both = self.key + self.certificate
        names = ("scheduler", "worker", "client")
        shown = {f"tls_{name}_{what}": text for name in names for what, text in (("key", self.key), ("cert", both))}
        return Security(tls_ca_file=self.certificate, require_encryption=True, **shown)


@dataclass(frozen=True)
class OnHost:
    """Does a task in a worker of dask, and says on which host."""

    do: Doing

    def __call__(self, task: Task) -> Done:
        """See :class:`Doing`."""
        return replace(self.do(task), address=os.environ.get("REGATTA_ADDRESS"))


@contextlib.contextmanager
def spread(do: Doing, tasks: Iterator[Task], how: How) -> Iterator[Iterable[Done] | None]:
    """Have dask's workers do the tasks. Gives what they say on rank 0, and None elsewhere, once all is done."""
    found = [os.environ.get(name) for name in VARIABLES]
    if None in found:
        raise BadInput(f"the framework dask needs {', '.join(VARIABLES)}: start it by Regatta, which sets them")
    if do.seconds:
        raise BadInput(
            "--item-seconds: dask's workers do items in a thread, which cannot be told to stop; leave it out"
        )
    place, ranks = Place(*(text or "" for text in found)), Ranks.from_environment()
    if ranks.rank:
        events.ready()
        _work(place)
        events.used()
        yield None
        return
    context: Any = multiprocessing.get_context("spawn" if how.start == "fork" else how.start)
    worker = context.Process(target=_work, args=(place,), daemon=True)
    with contextlib.ExitStack() as stack:
        with events.phase("rendezvous"):
            client = stack.enter_context(_scheduler(place))
            worker.start()
            stack.callback(worker.kill)
            client.wait_for_workers(ranks.world, timeout=group_timeout().total_seconds())
        yield _results(client, OnHost(do), tasks, AHEAD * ranks.world)
        client.shutdown()
        worker.join()


@contextlib.contextmanager
def _scheduler(place: Place) -> Iterator[Any]:
    """The scheduler, in this process; gives a client of it."""
    import dask
    from distributed import Client, LocalCluster

    port = int(place.scheduler.rpartition(":")[2])
    own = {"distributed.scheduler.allowed-failures": 0, "distributed.admin.tick.limit": "60s"}
    scratch = {"temporary-directory": os.environ.get("REGATTA_SCRATCH")}  # it leaves files of locks there
    dask.config.set(QUIET | own | scratch)
    with (
        LocalCluster(
            n_workers=0,
            host=place.address,
            scheduler_port=port,
            protocol="tls",
            security=place.security(),
            dashboard_address=None,
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def _results(client: Any, do: OnHost, tasks: Iterator[Task], most: int) -> Iterator[Done]:
    from distributed import as_completed
    from distributed.scheduler import KilledWorker

    under_way = as_completed(with_results=False)

    def give() -> None:
        if (task := next(tasks, None)) is not None:
            under_way.add(client.submit(do, task, pure=False))

    for _ in range(most):
        give()
    for future in under_way:
        try:
            done = future.result()
        except KilledWorker as error:
            raise WorkerFailed(f"a worker of dask is lost: {error}") from None
        give()
        yield done


def _work(place: Place) -> None:
    """Be a worker until the scheduler is gone."""
    import dask
    from distributed import Worker

    dask.config.set(QUIET)

    async def serve() -> None:
        with tempfile.TemporaryDirectory(dir=os.environ.get("REGATTA_SCRATCH")) as folder:
            async with Worker(
                place.scheduler,
                nthreads=1,
                host=place.address,
                security=place.security(),
                local_directory=folder,
                dashboard=False,
                death_timeout=group_timeout().total_seconds(),
            ) as worker:
                await worker.finished()

    asyncio.run(serve())


def leave() -> None:
    """End as Python does."""
