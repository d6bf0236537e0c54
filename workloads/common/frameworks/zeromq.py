"""Items over a queue of ZeroMQ: rank 0 has it, and a worker in its own process; every other rank is a worker."""

from __future__ import annotations

import contextlib
import multiprocessing
import pickle
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from workloads.common import events
from workloads.common.failures import WorkerFailed
from workloads.common.framework import How
from workloads.common.items import queuekeys
from workloads.common.items.processes import lost
from workloads.common.items.work import Doing, Done, Task
from workloads.common.ranks import Ranks, group_timeout

AHEAD = 2
"""Tasks that a worker has at most: the one that it does, and the next."""
TICK_SECONDS = 2.0
"""Seconds between messages of the queue to each worker that it is there."""
HELLO, NOTHING, END = b"hello", b"", b"end"


@contextlib.contextmanager
def spread(do: Doing, tasks: Iterator[Task], how: How) -> Iterator[Iterable[Done] | None]:
    """Take the tasks from the queue of rank 0. Gives what workers say there, and None elsewhere, once all is done."""
    ranks, keys = Ranks.from_environment(), queuekeys.of_environment()
    if ranks.rank:
        events.ready()
        _work(do, keys, ranks.rank)
        events.used()
        yield None
        return
    context: Any = multiprocessing.get_context(how.start)
    worker = context.Process(target=_work, args=(do, keys, 0), daemon=True)
    worker.start()
    try:
        with queuekeys.listening(keys) as socket:
            with events.phase("rendezvous"):
                names = _met(socket, ranks.world, worker)
            yield _results(socket, names, tasks, worker)
            for name in names:
                socket.send_multipart([name, END])
            worker.join()
    finally:
        worker.kill()


def _met(socket: Any, world: int, worker: Any) -> list[bytes]:
    """The names of all workers, once each has said hello. Raises :class:`WorkerFailed` where some do not come."""
    names: list[bytes] = []
    end = time.monotonic() + group_timeout().total_seconds()
    while len(names) < world:
        _look(worker)
        if time.monotonic() > end:
            raise WorkerFailed(
                f"{len(names)} of {world} workers came to the queue in time: see what the others printed"
            )
        if socket.poll(TICK_SECONDS * 1000):
            name, _ = socket.recv_multipart()
            names.append(name)
    return names


def _results(socket: Any, names: list[bytes], tasks: Iterator[Task], worker: Any) -> Iterator[Done]:
    under_way, told = 0, time.monotonic()
    for name in names * AHEAD:
        under_way += _given(socket, name, tasks)
    while under_way:
        if time.monotonic() - told > TICK_SECONDS:
            _look(worker)
            told = time.monotonic()
            for name in names:
                socket.send_multipart([name, NOTHING])
        if socket.poll(TICK_SECONDS * 1000):
            name, said = socket.recv_multipart()
            under_way += _given(socket, name, tasks) - 1
            yield pickle.loads(said)


def _given(socket: Any, name: bytes, tasks: Iterator[Task]) -> int:
    """Give a worker the next task; how many that were, 0 or 1."""
    task = next(tasks, None)
    if task is None:
        return 0
    socket.send_multipart([name, pickle.dumps(task, pickle.HIGHEST_PROTOCOL)])
    return 1


def _look(worker: Any) -> None:
    if worker.exitcode is not None:
        raise WorkerFailed(lost(worker, "fork", worked=True))


def _work(do: Doing, keys: queuekeys.Keys, rank: int) -> None:
    """Do tasks until the queue says that there are no more. Raises :class:`WorkerFailed` where it is gone."""
    patience = group_timeout().total_seconds()
    with queuekeys.connected(keys) as socket:
        socket.send(HELLO)
        while True:
            if not socket.poll(patience * 1000):
                raise WorkerFailed(
                    f"rank {rank} has heard nothing of the queue of rank 0 for {patience:g} s: see its log", "", rank
                )
            said = socket.recv()
            if said == END:
                return
            if said != NOTHING:
                done = replace(do(pickle.loads(said)), address=keys.address(rank))
                socket.send(pickle.dumps(done, pickle.HIGHEST_PROTOCOL))


def leave() -> None:
    """End as Python does."""
