"""How a Ray run goes, as its job and its driver tell it; and where the driver fails, because of which process."""

import collections
import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

from regatta.errors import RegattaError
from regatta.frameworks import raydeaths
from regatta.frameworks.api import SETTLE_SECONDS, Blame, Handle, Judge
from regatta.frameworks.rayjob import ENDED, JobApi
from regatta.frameworks.rayservice import RayService
from regatta.records import events
from regatta.records.events import DRIVER
from regatta.text import clean

JOB_END_SECONDS = 10.0
SPOKEN_LINES = 400
"""So much of what a driver printed last is looked through for why it failed."""


class RayJudge(Judge):
    """The job's state and the driver's exit say when a run is over; Ray's words who is to blame."""

    def __init__(self, handle: Handle, *, whole_log: bool = True) -> None:
        super().__init__(handle, whole_log=whole_log)
        self.job: dict[str, Any] | None = None
        self.told: events.RankFailed | None = None
        self.signals: dict[int, str] = {}
        self._spoken: collections.deque[str] = collections.deque(maxlen=SPOKEN_LINES)

    @property
    def _api(self) -> JobApi | None:
        return self.handle.service.api if isinstance(self.handle.service, RayService) else None

    def poll(self) -> Any:
        """See `Judge`."""
        if self._api is not None:
            with contextlib.suppress(RegattaError):
                job = self._api.job(self.handle.run)
                if job.get("status") in ENDED:
                    return {**job, "seen": time.monotonic()}
        return None

    def take(self, answer: Any) -> None:
        """See `Judge`."""
        self.job = answer

    def ask(self) -> None:
        """See `Judge`."""
        if self._api is not None and self.job is None:
            with contextlib.suppress(RegattaError):
                self.job = {**self._api.job(self.handle.run), "seen": 0.0}

    def hear(self, rank: int | None, text: str) -> None:
        """Keep what a driver prints of a rank that failed: it will fail because of that."""
        if rank != DRIVER:
            return
        self._spoken.append(text)
        if "*** SIG" in text and (found := raydeaths.signal_in(text)):
            self.signals[found[0]] = found[1]
        elif '"failed"' in text and isinstance(event := events.parse_line(text), events.RankFailed):
            self.told = self.told or event

    def over(self, ended: Mapping[str, float]) -> bool:
        """See `Judge`."""
        if self._api is None:
            return super().over(ended)
        at = ended.get(self.handle.cluster.head.name)
        if self.job is None or self.job["status"] not in ENDED:
            # Ray may never say it: what the supervisor on the head has written is as good.
            return at is not None and time.monotonic() - at > JOB_END_SECONDS
        return at is not None or bool(time.monotonic() - self.job["seen"] > SETTLE_SECONDS)

    def failed(self) -> bool:
        """See `Judge`."""
        return self.job is not None and self.job["status"] != "SUCCEEDED"

    def words(self) -> str | None:
        """See `Judge`."""
        if self.job is not None and self.job["status"] == "FAILED":
            return f"Ray ended the job: {self.job.get('message')}"
        return None

    def died(self, node: str, daemons: Sequence[str]) -> str:
        """See `Judge`."""
        return f"Ray's {super().died(node, daemons)} (journalctl -u 'regatta-ray-*' there)"

    def blame(self, rank: int | None, last_lines: Sequence[str]) -> Blame | None:
        """The process because of which the driver failed; None where it failed by itself."""
        if rank != DRIVER:
            return None
        told, lines = self.told, raydeaths.last_error([*self._spoken] if self.whole_log else last_lines)
        words = [clean(line) for line in told.words.split("\n")] if told else lines
        death = raydeaths.in_words("\n".join(words), self.signals)
        if told is None and (death is None or death.address is None) and raydeaths.speaks_of_ray(lines):
            death = self._asked()
        if told is not None:
            cause = death.cause if death else (" ".join(words[-1:]).strip() or "failed")
            node = self._node_at((death.address if death else None) or told.address) or self.handle.ranks.get(told.of)
            return Blame(node, told.of, cause) if node else None
        if death is None or (node := self._node_at(death.address)) is None:
            return None
        there = [number for number, name in self.handle.ranks.items() if name == node]
        if len(there) == 1:
            return Blame(node, there[0], death.cause)
        named = " ".join(filter(None, ["a process of", death.what, f"({death.pid})" if death.pid else ""]))
        return Blame(node, None, f"{named}: {death.cause}")

    def _asked(self) -> raydeaths.Death | None:
        """What Ray itself knows of processes of the run that died."""
        if (api := self._api) is None:
            return None
        with contextlib.suppress(RegattaError, KeyError, TypeError, ValueError, AttributeError):
            job = str((self.job or {}).get("job_id") or api.job(self.handle.run)["job_id"])
            addresses = {node.id: node.address for node in api.nodes()}
            return raydeaths.in_state(api.actors(job), api.failed_tasks(job), addresses, self.signals)
        return None

    def _node_at(self, address: str | None) -> str | None:
        """The name of a node by its address; on inventory/local Ray knows this machine by another one."""
        if self.handle.cluster.local:
            return self.handle.nodes[0].name
        return next((node.name for node in self.handle.nodes if node.cluster_address == address), None)
