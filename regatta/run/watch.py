"""Reads what a run prints on all its nodes, and how it ends there; decides nothing, and ends nothing."""

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from regatta.errors import HostKeyError, RemoteError, UnreachableError
from regatta.hosts.channel import Stream
from regatta.hosts.cluster import Node
from regatta.hosts.remote import Remote
from regatta_protocol.operations.runs import Watched, WatchRun

SILENT_SECONDS = 5.0
FIRST_SECONDS = 10.0
LOST_SECONDS = 15.0
MOST_WAITING = 16
"""Messages, of 256 KiB of log at most, that wait to be shown; nodes then hold back what else there is."""
_LOOK_SECONDS = 0.25

Message = tuple[str, str, Any, float]
"""Kind (lines, bars, exit, lost, or what else is put), node, value, and when it came (time.monotonic)."""


class Watch:
    """One thread a node, within `with`, reads its log and heartbeats, and connects again where a node falls silent.

    `events_only`: of the log only the events. `since`: bytes of each node's log that are passed over.
    `held`: seconds that each node has waited until what it sent was taken;
    what it sent then came late by as much at most. `held_back`: those that wait now. `heard`: when each last spoke.
    """

    def __init__(
        self,
        remote: Remote,
        run: str,
        nodes: Sequence[Node],
        *,
        events_only: bool = False,
        since: Mapping[str, int] | None = None,
    ) -> None:
        self.messages: queue.Queue[Message] = queue.Queue(MOST_WAITING)
        self.held: dict[str, float] = {}
        self.held_back: set[str] = set()
        self.heard = {node.name: time.monotonic() for node in nodes}
        self.left = threading.Event()
        self._remote, self._run, self._events_only = remote, run, events_only
        self._since = since or {}
        self._ended: set[str] = set()
        self._streams: dict[str, Stream[None, Watched]] = {}
        self._silent: set[Stream[None, Watched]] = set()
        self._threads = [threading.Thread(target=self._watch, args=(node,), daemon=True) for node in nodes]

    def __enter__(self) -> "Watch":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.left.set()
        for stream in list(self._streams.values()):
            stream.close()
        for thread in self._threads:
            thread.join(1)

    def beside(self, work: Callable[[], None]) -> None:
        """Have a thread do this meanwhile, until `left` is set."""
        self._threads.append(threading.Thread(target=work, daemon=True))

    def take(self, seconds: float = _LOOK_SECONDS) -> Message | None:
        """The next message, None where none comes in so many seconds."""
        with contextlib.suppress(queue.Empty):
            return self.messages.get(timeout=seconds)
        return None

    def lines(self) -> Iterator[tuple[str, int | None, str]]:
        """(node, rank, text) of what is printed until the run has ended on each node. RemoteError for a lost one."""
        going = set(self.heard)
        while going:
            self.check_silence()
            match self.take():
                case ("lines", name, value, _):
                    yield from ((name, rank, text) for rank, text in value)
                case ("exit", name, _, _):
                    going.discard(name)
                case ("lost", _, RemoteError() as error, _):
                    raise error

    def put(self, kind: str, name: str, value: Any, stream: Stream[None, Watched] | None = None) -> None:
        """Hand on what came now as soon as there is space; a node that waits for that is not silent."""
        began = time.monotonic()
        self.held_back.add(name)
        while not self.left.is_set():
            with contextlib.suppress(queue.Full):
                self.messages.put((kind, name, value, began), timeout=0.2)
                break
        now = time.monotonic()
        self.held[name] = self.held.get(name, 0.0) + now - began
        if stream is not None:
            self.heard[name] = stream.last_heard = now
        self.held_back.discard(name)

    def check_silence(self) -> None:
        """End connections that say nothing; a new one has longer for its first word, as its node may be busy."""
        now = time.monotonic()
        for name, stream in list(self._streams.items()):
            if name in self.held_back:
                continue
            limit = FIRST_SECONDS if stream.last_heard == stream.began else SILENT_SECONDS
            if now - stream.last_heard > limit and name not in self._ended:
                self._silent.add(stream)
                stream.close()

    def answers(self, name: str) -> bool:
        """Whether a node speaks, or waits until what it said is taken."""
        return time.monotonic() - self.heard[name] < SILENT_SECONDS or name in self.held_back

    def _watch(self, node: Node) -> None:
        offset = self._since.get(node.name, 0)
        while not (node.name in self._ended or self.left.is_set()):
            try:
                for line in self._said(node, offset):
                    offset = offset if line.offset is None else line.offset
            except RemoteError as error:
                if node.name in self._ended:
                    return
                if isinstance(error, HostKeyError) or not self._away(node, error):
                    self.put("lost", node.name, error)
                    return
                if not isinstance(error, UnreachableError):
                    error = UnreachableError(node.name, f"no word from it for {LOST_SECONDS:g} s; is the host up?")
                if time.monotonic() - self.heard[node.name] > LOST_SECONDS:
                    self.put("lost", node.name, error)
                    return
                self.left.wait(0.5)
            except (OSError, ValueError):
                self.left.wait(0.2)

    def _said(self, node: Node, offset: int) -> Iterator[Watched]:
        """Each line of a node's answer, when what is in it has been handed on."""
        with self._remote.stream(node, WatchRun(self._run, offset, self._events_only)) as stream:
            self._streams[node.name] = stream
            if self.left.is_set():
                return
            for line in stream:
                self.heard[node.name] = time.monotonic()
                if line.exit:
                    self._ended.add(node.name)
                for kind in ("lines", "bars", "exit"):
                    if (said := getattr(line, kind)) is not None:
                        self.put(kind, node.name, said, stream)
                yield line

    def _away(self, node: Node, error: RemoteError) -> bool:
        """Whether a connection ended because the node was silent, and not because of something that it said."""
        return isinstance(error, UnreachableError) or self._streams.get(node.name) in self._silent
