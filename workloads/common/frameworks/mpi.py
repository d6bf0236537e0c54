"""Ranks that talk by MPI, through mpi4py: items by its own executor, or a part on each rank; this process is one."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import queue
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from typing import Any, NoReturn

from workloads.common import events, failures
from workloads.common.events import BadInput
from workloads.common.failures import WorkerFailed
from workloads.common.framework import How
from workloads.common.items.work import Doing, Done, Task
from workloads.common.part import Group, MakePart, steps
from workloads.common.ranks import Ranks, process_group
from workloads.common.shared import HostFolder

AHEAD = 2
"""Tasks that a worker has at most: the one that it does, and the next."""
POLL_SECONDS = 0.002
JOINED = "PMIX_RANK"
"""The variables that OpenMPI sets for each rank that it has started."""
_doing: list[Doing] = []


@contextlib.contextmanager
def spread(do: Doing, tasks: Iterator[Task], how: How) -> Iterator[Iterable[Done] | None]:
    """Have all ranks do the tasks; the one of rank 0 in another process. Gives what they say there, None elsewhere.

    The process is there before MPI is: one that has joined MPI must not be copied.
    """
    ranks = Ranks.from_environment()
    _take(do)
    if ranks.rank:
        comm = _joined()
        events.ready()
        with _others(comm):
            pass
        events.used()
        yield None
        return
    context: Any = multiprocessing.get_context(how.start)
    with contextlib.ExitStack() as stack:
        own = stack.enter_context(ProcessPoolExecutor(1, context, _take_apart, (do,)))
        own.submit(_nothing).result()
        comm = _joined()
        workers: list[Executor] = [own]
        if ranks.world > 1:
            workers += [stack.enter_context(_others(comm))] * (ranks.world - 1)
        try:
            yield _results(workers, tasks)
        except WorkerFailed as failed:
            _end(failed)


def _results(workers: list[Executor], tasks: Iterator[Task]) -> Iterator[Done]:
    """Yield what workers say, as it comes in: each has a few tasks at a time."""
    said: queue.SimpleQueue[tuple[Executor, Future[Done]]] = queue.SimpleQueue()
    under_way = 0

    def given(worker: Executor) -> int:
        task = next(tasks, None)
        if task is None:
            return 0
        worker.submit(_done, task).add_done_callback(lambda future: said.put((worker, future)))
        return 1

    for worker in workers * AHEAD:
        under_way += given(worker)
    while under_way:
        worker, future = said.get()
        try:
            done = future.result()
        except BrokenProcessPool as error:
            raise WorkerFailed(f"the worker process of rank 0 is lost, and its items with it: {error}") from None
        under_way += given(worker) - 1
        yield done


def _end(failed: WorkerFailed) -> NoReturn:
    """Tell of a failure and end at once: executors would wait for the items that others have."""
    with contextlib.suppress(SystemExit), failures.said():
        raise failed
    sys.stdout.flush()
    os._exit(1)


def _others(comm: Any) -> Any:
    """The executor of mpi4py: on rank 0 that of all other ranks, which on the others runs what it receives."""
    from mpi4py.futures import MPICommExecutor

    return MPICommExecutor(comm, root=0)


def _joined() -> Any:
    """The communicator of all ranks, when all have joined. Raises :class:`BadInput` where nothing started them."""
    if JOINED not in os.environ:
        raise BadInput("the framework mpi needs ranks that OpenMPI has started: Regatta starts them, and mpirun")
    with events.phase("rendezvous"):
        from mpi4py import MPI

        MPI.COMM_WORLD.Barrier()
    return MPI.COMM_WORLD


def _take(do: Doing) -> None:
    """Know what to do with tasks, which are all that is sent."""
    _doing[:] = [do]


def _take_apart(do: Doing) -> None:
    """The same in the process next to rank 0, which is no rank: an item that uses MPI there is alone."""
    for name in [name for name in os.environ if name.startswith(("PMIX_", "OMPI_COMM_"))]:
        del os.environ[name]
    _take(do)


def _done(task: Task) -> Done:
    addresses: list[str] = json.loads(os.environ.get("REGATTA_RANK_MAP") or "[]")
    rank = Ranks.from_environment().rank
    return replace(_doing[0](task), address=addresses[rank] if rank < len(addresses) else None)


def _nothing() -> None:
    """Run first in a process: it is there then."""


@contextlib.contextmanager
def answers(make: MakePart, *, grouped: Group | None, restarts: int) -> Iterator[Sequence[Any] | None]:
    """Run this rank's part. Parts that talk to each other through torch have its process group."""
    part = make(Ranks.from_environment())
    comm = _joined()
    with process_group() if grouped else contextlib.nullcontext(Ranks.from_environment()) as ranks:
        events.ready()
        token = os.environ.get("REGATTA_RUN_ID", "mpi")
        steps(part, HostFolder.of_run(ranks.local_world, token) if ranks.local_world > 1 else None)
        with events.phase("collect"):
            gathered = _gathered(comm, part.answer())
        yield gathered


def _gathered(comm: Any, answer: Any) -> list[Any] | None:
    """All answers by rank on rank 0, None elsewhere. Waiting ranks sleep: MPI itself would keep a core busy."""
    if comm.rank:
        comm.send(answer, dest=0)
        return None
    from mpi4py import MPI

    found, status = {0: answer}, MPI.Status()
    while len(found) < comm.size:
        message = comm.improbe(status=status)
        if message is None:
            time.sleep(POLL_SECONDS)
        else:
            found[status.Get_source()] = message.recv()
    return [found[rank] for rank in range(comm.size)]


def leave() -> None:
    """End as Python does: mpi4py parts from MPI then."""
