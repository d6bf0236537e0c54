"""Judges a Ray run by what its driver tells; where the driver fails, names the process that was the cause."""

import collections
import contextlib
from collections.abc import Mapping, Sequence

from regatta.errors import RegattaError
from regatta.frameworks.api import Blame, Judge, StartedRun
from regatta.frameworks.ray import deaths
from regatta.frameworks.ray.service import RayService
from regatta.frameworks.ray.state import RayState
from regatta.text import clean
from regatta_protocol import events
from regatta_protocol.log import DRIVER

SPOKEN_LINES = 400
"""So much of what a driver printed last is looked through for why it failed."""


class RayJudge(Judge):
    """The driver's end says when a run is over; Ray's words who is to blame."""

    def __init__(self, handle: StartedRun, *, whole_log: bool = True) -> None:
        super().__init__(handle, whole_log=whole_log)
        self.told: events.RankFailed | None = None
        self.signals: dict[int, str] = {}
        self._spoken: collections.deque[str] = collections.deque(maxlen=SPOKEN_LINES)

    @property
    def _state(self) -> RayState | None:
        return self.handle.service.state if isinstance(self.handle.service, RayService) else None

    def on_line(self, rank: int | None, text: str) -> None:
        """Keep what a driver prints of a rank that failed: it will fail because of that."""
        if rank != DRIVER:
            return
        self._spoken.append(text)
        if "*** SIG" in text and (found := deaths.signal_in(text)):
            self.signals[found[0]] = found[1]
        elif '"failed"' in text and isinstance(event := events.parse_line(text), events.RankFailed):
            self.told = self.told or event

    def over(self, ended: Mapping[str, float]) -> bool:
        """See `Judge`."""
        if self._state is None:
            return super().over(ended)
        return self.handle.cluster.head.name in ended

    def died(self, node: str, daemons: Sequence[str]) -> str:
        """See `Judge`."""
        return f"Ray's {super().died(node, daemons)} (journalctl -u 'regatta-ray-*' there)"

    def blame(self, rank: int | None, last_lines: Sequence[str]) -> Blame | None:
        """The process because of which the driver failed; None where it failed by itself."""
        if rank != DRIVER:
            return None
        told, lines = self.told, deaths.last_error([*self._spoken] if self.whole_log else last_lines)
        words = [clean(line) for line in told.words.split("\n")] if told else lines
        death = deaths.in_words("\n".join(words), self.signals)
        if told is None and (death is None or death.address is None) and deaths.speaks_of_ray(lines):
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

    def _asked(self) -> deaths.Death | None:
        """Return what Ray itself knows of processes of the run that died."""
        if (state := self._state) is None:
            return None
        with contextlib.suppress(RegattaError, KeyError, TypeError, ValueError, AttributeError):
            actors, tasks = state.dead(self.handle.run)
            return deaths.in_state(actors, tasks, {node.id: node.address for node in state.nodes()}, self.signals)
        return None

    def _node_at(self, address: str | None) -> str | None:
        """The name of a node by its address; on inventory/local Ray knows this machine by another one."""
        if self.handle.cluster.local:
            return self.handle.nodes[0].name
        return next((node.name for node in self.handle.nodes if node.cluster_address == address), None)
