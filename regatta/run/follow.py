"""Follow a run on all its nodes to its end; the first failure ends it everywhere."""

import queue
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from regatta.errors import HostKeyError, RemoteError, RunError, UnreachableError
from regatta.frameworks.api import SETTLE_SECONDS, Handle
from regatta.hosts.channel import Stream
from regatta.hosts.cluster import Node
from regatta.hosts.remote import Remote
from regatta.records.events import DRIVER
from regatta.run.launch import stop_everywhere
from regatta.text import clean

SILENT_SECONDS = 5.0
FIRST_SECONDS = 10.0
LOST_SECONDS = 15.0
SERVICE_POLL_SECONDS = 0.25


class ConnectionLostError(RunError):
    """No node answers any more: the run goes on without us."""


@dataclass(frozen=True)
class Failure:
    """What ended a run: `rank` is None where a node or a service was lost; `code` is what to pass on.

    `host`: the node that was lost, or booted anew, where that is what ended the run.
    """

    node: str
    rank: int | None
    cause: str
    code: int
    last_lines: tuple[str, ...] = ()
    host: str | None = None

    def text(self) -> str:
        """Node, rank, cause and the last lines, for a person."""
        where = self.node if self.rank is None or self.rank == DRIVER else f"rank {self.rank} on {self.node}"
        if self.rank == DRIVER:
            where = f"the driver on {self.node}"
        shown = [clean(line) for line in self.last_lines if "@regatta {" not in line][-12:]
        tail = "".join(f"\n    | {line}" for line in shown)
        return f"{where}: {self.cause}" + (f"; its last lines:{tail}" if shown else "")


@dataclass(frozen=True)
class Outcome:
    """How a run ended: `state` is succeeded, failed, stopped or lost; `exits` is each node's own account.

    `used`: what the run has used on each node, as its supervisor measured it.
    """

    state: str
    code: int
    failure: Failure | None
    exits: dict[str, dict[str, Any]] = field(default_factory=dict)
    used: dict[str, dict[str, Any]] = field(default_factory=dict)


OnLine = Callable[[str, int | None, str], None]
OnBars = Callable[[str, dict[int, str]], None]


class Follower:
    """One thread a node reads its log and heartbeats; `follow` decides. `events_only`: of the log only the events."""

    def __init__(
        self,
        remote: Remote,
        handle: Handle,
        on_line: OnLine,
        on_bars: OnBars = lambda node, bars: None,
        *,
        events_only: bool = False,
    ) -> None:
        self.remote = remote
        self.handle = handle
        self.on_line = on_line
        self.on_bars = on_bars
        self.events_only = events_only
        self.messages: queue.Queue[tuple[str, str, Any]] = queue.Queue()
        self.heard = {node.name: time.monotonic() for node in handle.nodes}
        self.exits: dict[str, dict[str, Any]] = {}
        self.ended_at: dict[str, float] = {}
        self.said: dict[str, dict[str, Any]] = {}
        self.lost: dict[str, RemoteError] = {}
        self.died: dict[str, list[str]] = {}
        self.rebooted: list[str] = []
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
            return replace(ended, used={name: said.get("used") or {} for name, said in self.said.items()})
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
                kind, name, value = self.messages.get(timeout=0.25)
            except queue.Empty:
                continue
            self._take(kind, name, value)
            if kind == "lost":
                self._raise_if_alone(value)
            if kind == "lost" or (kind == "exit" and value["state"] != "succeeded"):
                return self._end_all()
        return self._end_all() if self.judge.failed() else self._success()

    def _take(self, kind: str, name: str, value: Any) -> None:
        if kind == "lines":
            for rank, text in value:
                self.judge.hear(rank, text)
                self.on_line(name, rank, text)
        elif kind == "bars":
            self.on_bars(name, dict(value))
        elif kind == "exit":
            self.exits[name] = self.said[name] = value
            self.ended_at[name] = time.monotonic()
        elif kind == "lost":
            self.lost[name] = value
        elif kind == "service":
            self.judge.take(value)

    def _success(self) -> Outcome:
        self._finish_members()
        return Outcome("succeeded", 0, None, self.exits)

    def _finish_members(self) -> None:
        if self.handle.service is not None:
            for_all = {"run": self.handle.run, "state": "succeeded", "code": 0}
            answers, _ = self.remote.gather(
                [node for node in self.handle.nodes if node.name not in self.lost],
                lambda node: self.remote.call(node, "run.finish", timeout=8, **for_all),
            )
            self._hear(answers)

    def _hear(self, answers: dict[str, dict[str, Any]]) -> None:
        """What nodes say of the run's end: `run.finish`'s answers, by node."""
        self.said |= {name: answer["exit"] for name, answer in answers.items() if answer.get("exit")}
        self.rebooted = [name for name, answer in answers.items() if answer["rebooted"]]
        self.died = {name: answer["died"] for name, answer in answers.items() if answer["died"]}

    def _end_all(self) -> Outcome:
        """Stop the run where it still goes on, hear every node's account, name the cause."""
        vanished = {name for name, value in self.exits.items() if value["state"] == "lost"}
        ended = self.exits.keys() - vanished
        going = [node for node in self.handle.nodes if node.name not in ended and node.name not in self.lost]
        if self.handle.service is not None:
            going = [node for node in self.handle.nodes if node.name not in self.lost]
        first = next(iter(self.exits), None) or next(iter(self.lost), None)
        driver_ended = self.handle.cluster.head.name in ended
        answers, unanswered = stop_everywhere(
            self.remote, self.handle, going, f"the run ended on {first}", driver_ended=driver_ended
        )
        self.lost |= {name: error for name, error in unanswered.items() if isinstance(error, UnreachableError)}
        end = time.monotonic() + SETTLE_SECONDS
        waiting = {node.name for node in going}
        while waiting - self.exits.keys() - self.lost.keys() and time.monotonic() < end:
            try:
                kind, name, value = self.messages.get(timeout=0.1)
            except queue.Empty:
                continue
            self._take(kind, name, value)
        if self.handle.service is not None:
            self.judge.ask()
            self._hear(answers)
        failure = self._cause()
        if failure is None:
            stopped = all(value["state"] in ("stopped", "succeeded") for value in self.exits.values())
            return Outcome("stopped" if stopped else "lost", 143 if stopped else 1, None, self.exits)
        return Outcome("lost" if self.lost else "failed", failure.code, failure, self.exits)

    def _cause(self) -> Failure | None:
        """A rank killed by a signal comes before one that exited (its peers' complaint), then the earliest."""
        found = [(name, value["failure"]) for name, value in self.exits.items() if value.get("failure")]
        for name, error in self.lost.items():
            left = (
                "what is left of the run there ends with the next run or 'fab cancel'; 'fab status' shows who answers"
            )
            return Failure(name, None, f"the node was lost in mid-run ({error.reason}): {left}", 1, host=name)
        vanished = [name for name, value in self.exits.items() if value["state"] == "lost"]
        if vanished:
            name = vanished[0]
            how = self._befell([name]) or ": was the host rebooted, or its supervisor killed? See 'fab status'"
            return Failure(name, None, f"the run vanished there{how}", 1, host=name)
        if found:
            name, worst = min(found, key=lambda item: _weight(item[1]))
            lines = self._named(worst["last_lines"])
            host = name if worst["rank"] is None else None
            rank = worst["rank"]
            if rank == DRIVER:
                host = next((lost for lost in (*self.rebooted, *self.died) if lost != name), None)
            if blamed := self.judge.blame(rank, worst["last_lines"]):
                name, rank = blamed.node, blamed.rank
                worst = {**worst, "cause": blamed.cause}
            return Failure(name, rank, self._how(name, worst, lines), worst["code"], lines, host)
        words = self.judge.words()
        return Failure(self.handle.cluster.head.name, None, words, 1) if words else None

    def _how(self, node: str, failure: dict[str, Any], lines: tuple[str, ...]) -> str:
        """The way in which a rank or a supervisor ended, and which host was short of memory meanwhile.

        That is asked of the node itself; a driver's failure may be that of any node which its last lines name.
        """
        how = f"killed by {failure['signal']}" if failure["signal"] else f"exited with code {failure['code']}"
        how = failure.get("cause") or how
        accounts, where = self.said | self.exits, [node]
        if failure["rank"] == DRIVER:
            where = [name for name in accounts if any(f"({name})" in line for line in lines)] or [*accounts]
        how += self._befell([*self.rebooted, *self.died])
        met = [name for name in dict.fromkeys([*where, *accounts]) if accounts.get(name, {}).get("reached")]
        how += "".join(f"; {text}" for name in met for text in reached(name, accounts[name]["reached"]))
        if failure.get("disk_full"):
            state = self.remote.cluster.node(node).state
            how += f"; the disk of {node} is full: free some room there (df -h {state}; 'fab runs-gc' deletes old runs)"
        short = [name for name in where if name not in met and accounts.get(name, {}).get("oom_kills", 0) > 0]
        if short:
            kernel = f"the kernel of {', '.join(short)} has killed a process meanwhile (journalctl -k there)"
            how += f"; out of memory: {kernel}"
        return how

    def _befell(self, nodes: list[str]) -> str:
        """What happened in mid-run to nodes beside the run itself; nothing that is known: ''."""
        how = ""
        for name in dict.fromkeys(nodes):
            if name in self.rebooted:
                how += f"; {name} was rebooted in mid-run ('fab status' shows whether its services are back)"
            elif name in self.died:
                how += f"; {self.judge.died(name, self.died[name])}"
        return how

    def _named(self, lines: list[str]) -> tuple[str, ...]:
        """Lines in which an address of a node is followed by the node's name."""
        known = {node.cluster_address: node.name for node in self.remote.cluster.nodes if not node.local}
        if not known:
            return tuple(lines)
        address = re.compile(rf"(?<![\d.])({'|'.join(map(re.escape, known))})(?![\d.]*\d)")
        return tuple(address.sub(lambda found: f"{found[1]} ({known[found[1]]})", line) for line in lines)

    def _check_silence(self) -> None:
        """End connections that say nothing; a new one has longer for its first word, as its node may be busy."""
        now = time.monotonic()
        for name, stream in list(self._streams.items()):
            limit = FIRST_SECONDS if stream.last_heard == stream.began else SILENT_SECONDS
            if now - stream.last_heard > limit and name not in self.exits:
                self._silent.add(stream)
                stream.close()

    def _raise_if_alone(self, error: RemoteError) -> None:
        others = [node.name for node in self.handle.nodes if node.name != error.node and node.name not in self.lost]
        now = time.monotonic()
        if any(now - self.heard[name] < SILENT_SECONDS or name in self.exits for name in others):
            return
        if isinstance(error, UnreachableError):
            raise ConnectionLostError(
                f"no node answers any more ({error}). The run goes on if they are up: fab attach {self.handle.run}"
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
                            self.messages.put(("lines", node.name, line["lines"]))
                        if "bars" in line:
                            self.messages.put(("bars", node.name, line["bars"]))
                        if "exit" in line:
                            ended = True
                            self.messages.put(("exit", node.name, line["exit"]))
            except RemoteError as error:
                if ended:
                    return
                if isinstance(error, HostKeyError) or not self._away(node, error):
                    self.messages.put(("lost", node.name, error))
                    return
                if not isinstance(error, UnreachableError):
                    error = UnreachableError(node.name, f"no word from it for {LOST_SECONDS:g} s; is the host up?")
                if time.monotonic() - self.heard[node.name] > LOST_SECONDS:
                    self.messages.put(("lost", node.name, error))
                    return
                self.ending.wait(0.5)
            except (OSError, ValueError):
                self.ending.wait(0.2)

    def _away(self, node: Node, error: RemoteError) -> bool:
        """Whether a connection ended because the node was silent, and not because of something that it said."""
        return isinstance(error, UnreachableError) or self._streams.get(node.name) in self._silent

    def _poll_service(self) -> None:
        while not self.ending.is_set():
            if (answer := self.judge.poll()) is not None:
                self.messages.put(("service", "", answer))
                return
            self.ending.wait(SERVICE_POLL_SECONDS)


def reached(node: str, limits: dict[str, int]) -> list[str]:
    """In words which of its limits a run has met on a node, and which variable of the inventory sets it."""
    said = []
    if "memory" in limits:
        said.append(
            f"out of memory: the limit of runs on {node}, {limits['memory'] / 1e9:.2f} GB, was reached "
            "(regatta_run_memory_share in the inventory)"
        )
    if "processes" in limits:
        said.append(
            f"the limit of runs on {node}, {limits['processes']:,} processes and threads, was reached "
            "(regatta_run_processes in the inventory)"
        )
    return said


def _weight(failure: dict[str, Any]) -> tuple[int, float]:
    """Orders failures, the likeliest first cause first: a signal, what befell a supervisor, a rank that exited (its
    peers' complaint), then by time."""
    return (0 if failure["signal"] else 1 if failure.get("cause") else 2, failure["at"])
