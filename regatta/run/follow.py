"""Follow a run on all its nodes to its end; the first failure ends it everywhere."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from regatta.errors import RemoteError, RunError, UnreachableError
from regatta.frameworks.api import SETTLE_SECONDS, StartedRun
from regatta.hosts.remote import Remote
from regatta.program import hint
from regatta.run.launch import stop_everywhere
from regatta.run.outcome import Accounts, Outcome, waited
from regatta.run.watch import Watch
from regatta.terminal.console import QUIET_SECONDS
from regatta_protocol.operations.runs import AskStanding, FinishRun
from regatta_protocol.run import Ended
from regatta_protocol.states import State

SERVICE_POLL_SECONDS = 0.25
LOOK_SECONDS = 4.0


class ConnectionLostError(RunError):
    """No node answers any more: the run continues without us."""


OnLine = Callable[[str, int | None, str, float], None]
"""Node, rank, text, and when it came (time.monotonic)."""
OnBars = Callable[[str, dict[int, str]], None]


class Follower:
    """A `Watch` reads what the nodes say; `follow` decides. `events_only`: of the log only the events.

    `on_gone` gets the name of a node that is lost, where the run continues without it. `on_quiet` gets how long nothing
    was printed, once.
    """

    def __init__(
        self,
        remote: Remote,
        handle: StartedRun,
        on_line: OnLine,
        on_bars: OnBars = lambda node, bars: None,
        *,
        on_gone: Callable[[str], None] = lambda node: None,
        on_quiet: Callable[[float], None] = lambda seconds: None,
        events_only: bool = False,
    ) -> None:
        self.remote = remote
        self.handle = handle
        self.on_line = on_line
        self.on_bars = on_bars
        self.on_gone = on_gone
        self.on_quiet = on_quiet
        self.quiet_from: float | None = time.monotonic()
        self.watch = Watch(remote, handle.run, handle.nodes, events_only=events_only)
        self.told = Accounts()
        self.ended_at: dict[str, float] = {}
        self.judge = handle.framework.judge(handle, whole_log=not events_only)

    def follow(self) -> Outcome:
        """Return when the run has ended on every node; KeyboardInterrupt and ConnectionLostError leave it as it is."""
        if self.handle.service is not None:
            self.watch.beside(self._poll_service)
        with self.watch:
            ended = self._decide()
            return replace(ended, used=self.told.used)

    def _decide(self) -> Outcome:
        while not self.judge.over(self.ended_at):
            self.watch.check_silence()
            if (message := self.watch.take()) is None:
                self._note_quiet()
                continue
            kind, name, value, _ = message
            self._take(*message)
            if kind == "lost":
                self._raise_if_alone(value)
            gone = kind == "lost" or (kind == "exit" and value.state != State.SUCCEEDED)
            if gone and not self.judge.outlives(name):
                self._look(value)
                return self._end_all()
            if gone:
                self.on_gone(name)
        return self._end_all() if self.judge.failed() else self._success()

    def _note_quiet(self) -> None:
        if self.quiet_from is not None and (seconds := time.monotonic() - self.quiet_from) >= QUIET_SECONDS:
            self.quiet_from = None
            self.on_quiet(seconds)

    def _look(self, ended: Any) -> None:
        """Ask where ranks stand, before they end, where one has waited too long for others."""
        if isinstance(ended, Ended) and ended.failure and waited(ended.failure.last_lines):
            going = [node for node in self.handle.nodes if node.name not in {*self.told.exits, *self.told.lost}]
            asked = AskStanding(self.handle.run)
            answers, _ = self.remote.gather(going, lambda node: self.remote.call(node, asked, timeout=LOOK_SECONDS))
            self.told.stood |= answers

    def _take(self, kind: str, name: str, value: Any, came: float = 0.0) -> None:
        if self.quiet_from is not None:
            self.quiet_from = time.monotonic()
        if kind == "lines":
            for rank, text in value:
                self.told.heard(rank, text)
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
            for_all = FinishRun(self.handle.run, State.SUCCEEDED, 0)
            answers, _ = self.remote.gather(
                [node for node in self.handle.nodes if node.name not in self.told.lost],
                lambda node: self.remote.call(node, for_all, timeout=8),
            )
            self.told.hear(answers)

    def _end_all(self) -> Outcome:
        """Stop the run where it still runs, hear every node's account, name the cause."""
        going = [node for node in self.handle.nodes if self._may_run(node.name)]
        first = next(iter((*self.told.exits, *self.told.lost)), None)
        answers, unanswered = stop_everywhere(self.remote, self.handle, going, f"the run ended on {first}")
        self.told.lost |= {name: error for name, error in unanswered.items() if isinstance(error, UnreachableError)}
        self._settle({node.name for node in going})
        if self.handle.service is not None:
            self.told.hear(answers)
        return self._outcome()

    def _may_run(self, name: str) -> bool:
        """Whether something of it may run there: its service's processes do when its own have ended."""
        if name in self.told.lost:
            return False
        ended = self.told.exits.get(name)
        return self.handle.service is not None or ended is None or ended.state == State.LOST

    def _settle(self, waiting: set[str]) -> None:
        end = time.monotonic() + SETTLE_SECONDS
        while waiting - self.told.exits.keys() - self.told.lost.keys() and time.monotonic() < end:
            if message := self.watch.take(0.1):
                self._take(*message)

    def _outcome(self) -> Outcome:
        from regatta.run import causes

        failure = causes.failure(self.judge, self.told)
        if failure is None:
            stopped = all(value.state in (State.STOPPED, State.SUCCEEDED) for value in self.told.exits.values())
            return Outcome(State.STOPPED if stopped else State.LOST, 143 if stopped else 1, None, self.told.exits)
        return Outcome(State.LOST if self.told.lost else State.FAILED, failure.code, failure, self.told.exits)

    def _raise_if_alone(self, error: RemoteError) -> None:
        others = [
            node.name for node in self.handle.nodes if node.name != error.node and node.name not in self.told.lost
        ]
        if any(self.watch.answers(name) or name in self.told.exits for name in others):
            return
        if isinstance(error, UnreachableError):
            raise ConnectionLostError(
                f"no node answers any more ({error}). The run continues if they are up: "
                f"{hint('attach', self.handle.run)}"
            )

    def _poll_service(self) -> None:
        while not self.watch.left.is_set():
            if (answer := self.judge.poll()) is not None:
                self.watch.put("service", "", answer)
                return
            self.watch.left.wait(SERVICE_POLL_SECONDS)
