"""Follow a run on all its nodes to its end; the first failure ends it everywhere."""

import contextlib
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from regatta.errors import HostKeyError, RemoteError, RunError, UnreachableError
from regatta.frameworks.api import SETTLE_SECONDS, StartedRun
from regatta.hosts.channel import Stream
from regatta.hosts.cluster import Node
from regatta.hosts.remote import Remote
from regatta.program import hint
from regatta.run import causes
from regatta.run.launch import stop_everywhere
from regatta.run.outcome import Accounts, Outcome
from regatta_protocol.decoding import decode
from regatta_protocol.run import Ended
from regatta_protocol.states import State

SILENT_SECONDS = 5.0
FIRST_SECONDS = 10.0
LOST_SECONDS = 15.0
SERVICE_POLL_SECONDS = 0.25
MOST_WAITING = 16
"""Messages, of 256 KiB of log at most, that wait to be shown; nodes then hold back what else there is."""


class ConnectionLostError(RunError):
    """No node answers any more: the run goes on without us."""


OnLine = Callable[[str, int | None, str, float], None]
"""Node, rank, text, and when it came (time.monotonic)."""
OnBars = Callable[[str, dict[int, str]], None]


class Follower:
    """One thread a node reads its log and heartbeats; `follow` decides. `events_only`: of the log only the events.

    `on_gone` is told the name of a node that is lost, where the run goes on without it. `held`: seconds that each node
    has waited until what it sent was shown; what it sent then came late by as much at most.
    """

    def __init__(
        self,
        remote: Remote,
        handle: StartedRun,
        on_line: OnLine,
        on_bars: OnBars = lambda node, bars: None,
        *,
        on_gone: Callable[[str], None] = lambda node: None,
        events_only: bool = False,
    ) -> None:
        self.remote = remote
        self.handle = handle
        self.on_line = on_line
        self.on_bars = on_bars
        self.on_gone = on_gone
        self.events_only = events_only
        self.messages: queue.Queue[tuple[str, str, Any, float]] = queue.Queue(MOST_WAITING)
        self.held_back: set[str] = set()
        self.held: dict[str, float] = {}
        self.heard = {node.name: time.monotonic() for node in handle.nodes}
        self.told = Accounts()
        self.ended_at: dict[str, float] = {}
        self.judge = handle.framework.judge(handle, whole_log=not events_only)
        self.ending = threading.Event()
        self._streams: dict[str, Stream] = {}
        self._silent: set[Stream] = set()

    def follow(self) -> Outcome:
        """Return when the run has ended on every node; KeyboardInterrupt and ConnectionLostError leave it as it is."""
        threads = [threading.Thread(target=self._watch, args=(node,), daemon=True) for node in self.handle.nodes]
        if self.handle.service is not None:
            threads.append(threading.Thread(target=self._poll_service, daemon=True))
        for thread in threads:
            thread.start()
        try:
            ended = self._decide()
            return replace(ended, used=self.told.used)
        finally:
            self.ending.set()
            for stream in list(self._streams.values()):
                stream.close()
            for thread in threads:
                thread.join(1)

    def _decide(self) -> Outcome:
        while not self.judge.over(self.ended_at):
            self._check_silence()
            try:
                kind, name, value, came = self.messages.get(timeout=0.25)
            except queue.Empty:
                continue
            self._take(kind, name, value, came)
            if kind == "lost":
                self._raise_if_alone(value)
            gone = kind == "lost" or (kind == "exit" and value.state != State.SUCCEEDED)
            if gone and not self.judge.outlives(name):
                return self._end_all()
            if gone:
                self.on_gone(name)
        return self._end_all() if self.judge.failed() else self._success()

    def _take(self, kind: str, name: str, value: Any, came: float = 0.0) -> None:
        if kind == "lines":
            for rank, text in value:
                self.judge.on_line(rank, text)
                self.on_line(name, rank, text, came)
        elif kind == "bars":
            self.on_bars(name, dict(value))
        elif kind == "exit":
            self.told.exits[name] = self.told.said[name] = value
            self.ended_at[name] = came
        elif kind == "lost":
            self.told.lost[name] = value
        elif kind == "service":
            self.judge.on_state(value)

    def _success(self) -> Outcome:
        self._finish_members()
        return Outcome(State.SUCCEEDED, 0, None, self.told.exits)

    def _finish_members(self) -> None:
        if self.handle.service is not None:
            for_all = {"run": self.handle.run, "state": State.SUCCEEDED, "code": 0}
            answers, _ = self.remote.gather(
                [node for node in self.handle.nodes if node.name not in self.told.lost],
                lambda node: self.remote.call(node, "run.finish", timeout=8, **for_all),
            )
            self.told.hear(answers)

    def _end_all(self) -> Outcome:
        """Stop the run where it still goes on, hear every node's account, name the cause."""
        vanished = {name for name, value in self.told.exits.items() if value.state == State.LOST}
        ended = self.told.exits.keys() - vanished
        going = [node for node in self.handle.nodes if node.name not in ended and node.name not in self.told.lost]
        if self.handle.service is not None:
            going = [node for node in self.handle.nodes if node.name not in self.told.lost]
        first = next(iter(self.told.exits), None) or next(iter(self.told.lost), None)
        answers, unanswered = stop_everywhere(self.remote, self.handle, going, f"the run ended on {first}")
        self.told.lost |= {name: error for name, error in unanswered.items() if isinstance(error, UnreachableError)}
        end = time.monotonic() + SETTLE_SECONDS
        waiting = {node.name for node in going}
        while waiting - self.told.exits.keys() - self.told.lost.keys() and time.monotonic() < end:
            try:
                kind, name, value, came = self.messages.get(timeout=0.1)
            except queue.Empty:
                continue
            self._take(kind, name, value, came)
        if self.handle.service is not None:
            self.told.hear(answers)
        failure = causes.failure(self.judge, self.told)
        if failure is None:
            stopped = all(value.state in (State.STOPPED, State.SUCCEEDED) for value in self.told.exits.values())
            return Outcome(State.STOPPED if stopped else State.LOST, 143 if stopped else 1, None, self.told.exits)
        return Outcome(State.LOST if self.told.lost else State.FAILED, failure.code, failure, self.told.exits)

    def _check_silence(self) -> None:
        """End connections that say nothing; a new one has longer for its first word, as its node may be busy."""
        now = time.monotonic()
        for name, stream in list(self._streams.items()):
            if name in self.held_back:
                continue
            limit = FIRST_SECONDS if stream.last_heard == stream.began else SILENT_SECONDS
            if now - stream.last_heard > limit and name not in self.told.exits:
                self._silent.add(stream)
                stream.close()

    def _raise_if_alone(self, error: RemoteError) -> None:
        others = [
            node.name for node in self.handle.nodes if node.name != error.node and node.name not in self.told.lost
        ]
        now = time.monotonic()
        answering = self.told.exits.keys() | self.held_back
        if any(now - self.heard[name] < SILENT_SECONDS or name in answering for name in others):
            return
        if isinstance(error, UnreachableError):
            raise ConnectionLostError(
                f"no node answers any more ({error}). The run goes on if they are up: {hint('attach', self.handle.run)}"
            )

    def _watch(self, node: Node) -> None:
        offset, ended = 0, False
        while not (ended or self.ending.is_set()):
            try:
                run, only = self.handle.run, self.events_only
                with self.remote.stream(node, "run.watch", run=run, offset=offset, events_only=only) as stream:
                    self._streams[node.name] = stream
                    for line in stream:
                        self.heard[node.name] = time.monotonic()
                        offset = line.get("offset", offset)
                        if "lines" in line:
                            self._put("lines", node.name, line["lines"], stream)
                        if "bars" in line:
                            self._put("bars", node.name, line["bars"], stream)
                        if "exit" in line:
                            ended = True
                            self._put("exit", node.name, decode(Ended, line["exit"]), stream)
            except RemoteError as error:
                if ended:
                    return
                if isinstance(error, HostKeyError) or not self._away(node, error):
                    self._put("lost", node.name, error)
                    return
                if not isinstance(error, UnreachableError):
                    error = UnreachableError(node.name, f"no word from it for {LOST_SECONDS:g} s; is the host up?")
                if time.monotonic() - self.heard[node.name] > LOST_SECONDS:
                    self._put("lost", node.name, error)
                    return
                self.ending.wait(0.5)
            except (OSError, ValueError):
                self.ending.wait(0.2)

    def _put(self, kind: str, name: str, value: Any, stream: Stream | None = None) -> None:
        """Hand on what came now as soon as there is room; a node that waits for that is not silent."""
        began = time.monotonic()
        self.held_back.add(name)
        while not self.ending.is_set():
            with contextlib.suppress(queue.Full):
                self.messages.put((kind, name, value, began), timeout=0.2)
                break
        now = time.monotonic()
        self.held[name] = self.held.get(name, 0.0) + now - began
        if stream is not None:
            self.heard[name] = stream.last_heard = now
        self.held_back.discard(name)

    def _away(self, node: Node, error: RemoteError) -> bool:
        """Whether a connection ended because the node was silent, and not because of something that it said."""
        return isinstance(error, UnreachableError) or self._streams.get(node.name) in self._silent

    def _poll_service(self) -> None:
        while not self.ending.is_set():
            if (answer := self.judge.poll()) is not None:
                self._put("service", "", answer)
                return
            self.ending.wait(SERVICE_POLL_SECONDS)
