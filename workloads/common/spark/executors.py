"""Executors of a Spark driver: which of them are lost, and what their processes of Python have used."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from workloads.common import events
from workloads.common.frameworks.spark import own_address
from workloads.common.items.gathering import Use
from workloads.common.items.work import Done, this_process


@dataclass(frozen=True)
class Used:
    """The resources that a process has used since it started: seconds of CPU, and the most memory that it has had, in
    bytes.
    """

    worker: tuple[str, int]
    address: str | None
    cpu: float
    peak: int

    @classmethod
    def here(cls) -> Used:
        """Return what this process has."""
        return cls(this_process(), own_address(), events.cpu_seconds(), events.peak_bytes())


class Executors:
    """The executors of the driver in this process, as it sees them."""

    def __init__(self, context: Any) -> None:
        self._store = context._jsc.sc().statusStore()
        self._known = self._there()
        self._used: dict[tuple[str, int], Used] = {}

    def look(self) -> None:
        """Warn of executors that were there the last time and are gone; Spark does again what they had."""
        there = self._there()
        for host in sorted(self._known[number] for number in self._known.keys() - there.keys()):
            events.warning(f"an executor on {host} is lost: Spark does again what it had")
        self._known = there

    def take(self, used: Iterable[Used]) -> None:
        """Keep what processes say."""
        self._used.update((one.worker, one) for one in used)

    def tell(self) -> None:
        """Write what each rank has used, as that rank."""
        use = Use()
        for one in self._used.values():
            use.add(Done(0, 0, b"", None, one.worker, one.cpu, one.peak, one.address))
        use.tell()

    def _there(self) -> dict[str, str]:
        """The host of each by its number, which no other one ever has: another may be in its place already."""
        found = self._store.executorList(True)
        every = (found.apply(place) for place in range(found.size()))
        return {str(one.id()): str(one.hostPort()).rpartition(":")[0] for one in every}
