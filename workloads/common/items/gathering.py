"""The driver's side of a spread: progress, results in the order of their items, what each worker has used."""

from __future__ import annotations

import itertools
import json
import os
import pickle
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from regatta_protocol.events import Cpu, Memory
from workloads.common import events
from workloads.common.failures import WorkerFailed
from workloads.common.items.work import Done, this_process

PROGRESS_SECONDS = 0.5
Keep = Callable[[int, Sequence[Any]], None]
"""Takes the number of an item, and the results from there on, as they come in."""


def gather(done: Iterable[Done], total: int, keep: Keep | None = None, what: str = "items") -> list[Any]:
    """The results of all items, in their order; progress names them by `what`.

    Raises :class:`WorkerFailed` for the first item that fails.
    """
    results: list[Any] = [None] * total
    seen, told, use = 0, time.monotonic(), Use()
    for one in done:
        use.add(one)
        if one.fault is not None:
            raise _failed(one, total, use.rank(one))
        own = pickle.loads(one.results)
        results[one.first : one.first + one.count] = own
        if keep is not None and own:
            keep(one.first, own)
        seen += one.count
        if time.monotonic() - told > PROGRESS_SECONDS or seen == total:
            events.progress(what, seen, total)
            told = time.monotonic()
    if seen != total:
        raise WorkerFailed(f"{seen:,} of {total:,} items came back, as a worker was lost: run it again")
    use.tell()
    return results


class Use:
    """The resources of the worker processes, by rank: a process is the next rank of its host that has none yet."""

    def __init__(self) -> None:
        addresses = json.loads(os.environ.get("REGATTA_RANK_MAP") or "[]")
        self._places: dict[str | None, Iterator[int]] = {
            address: itertools.cycle(_at(addresses, address)) for address in {*addresses}
        }
        self._anywhere = itertools.cycle(range(len(addresses) or workers()))
        self._ranks: dict[tuple[str, int], int] = {}
        self._cpu: dict[int, float] = defaultdict(float)
        self._peak: dict[int, int] = defaultdict(int)

    def rank(self, one: Done) -> int:
        """The rank of the worker that has done it."""
        if one.worker not in self._ranks:
            self._ranks[one.worker] = next(self._places.get(one.address, self._anywhere))
        return self._ranks[one.worker]

    def add(self, one: Done) -> None:
        """Count what a task took."""
        if one.worker != this_process():
            rank = self.rank(one)
            self._cpu[rank] += one.cpu
            self._peak[rank] = max(self._peak[rank], one.peak)

    def tell(self) -> None:
        """Write what each rank has used, as that rank."""
        now = round(time.time(), 6)
        for rank in sorted(self._cpu):
            events.replay(
                [
                    Memory(rank, now, peak_bytes=self._peak[rank]),
                    Cpu(rank, now, seconds=round(self._cpu[rank], 3)),
                ]
            )


def workers() -> int:
    """Return how many workers: ``REGATTA_WORKERS``, or one for each core that this process may use."""
    return int(os.environ.get("REGATTA_WORKERS") or len(os.sched_getaffinity(0)))


def _at(addresses: Sequence[str], address: str) -> list[int]:
    return [rank for rank, own in enumerate(addresses) if own == address]


def _failed(one: Done, total: int, rank: int) -> WorkerFailed:
    fault = one.fault
    assert fault is not None
    message = f"item {fault.number + 1:,} of {total:,}, {fault.item}, failed: {fault.words}"
    return WorkerFailed(message, f"{fault.trace}\n{message}", rank, one.address)
