"""Judges a Spark run by what its driver tells: what ended an executor and where, and that none will ever come."""

import contextlib
import re
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from regatta.errors import RegattaError
from regatta.frameworks.api import Blame, Judge, StartedRun
from regatta.frameworks.spark import service as master
from regatta.frameworks.spark.service import SparkService
from regatta.program import about_hosts, hint
from regatta.text import clean
from regatta_protocol import events
from regatta_protocol.log import DRIVER

WORDS = 100
"""The number of lines that are kept of a driver's output about a task that failed."""
REGISTER_SECONDS, LOOK_SECONDS = 180.0, 1.0
"""Seconds for which the master is asked about the driver, and between two times: one whose script names it otherwise is
not found."""
WAITS = "has not accepted any resources"
"""Words of a driver that waits for executors, every 15 s."""
REFUSED, UNREACHED = "IllegalArgumentException: Authentication failed", "Failed to connect to master"
GIVEN_UP = "All masters are unresponsive! Giving up"
SECRET = (
    "Spark's master refuses its secret: leave spark.authenticate.secret to Regatta, and where none is set let "
    f"'{about_hosts('provision')}' give all nodes the same"
)
DEAF = f"Spark's master did not answer its driver; see '{hint('status')}'"
FULL = "No space left on device"
GATEWAY, SILENT = "the Java of the driver has ended", "it says nothing of why"
RECENT = 60
"""Lines before the end of Java in which its error is looked for."""
_JAVA = re.compile(
    r"Exception in thread|^(?:Invalid|Unrecognized|Error)\b.*|#\s+(?:SIG[A-Z]+|There is insufficient memory).*|"
    r"(?:^|: )(?:[a-z]\w*\.){2,}[A-Z]\w*(?:Exception|Error)\b"
)
_GATEWAY = re.compile(r"Answer from Java side is empty|Py4JNetworkError|Java gateway process exited")
_TASK = re.compile(r"Lost task \S+ in stage (\S+) \(TID \d+\) \(([\d.]+) executor (\w+)\): (?!TaskKilled)(.*)")
_GIVEN_UP = re.compile(r"in stage (\S+) failed \d+ times[;,] (?:aborting job|most recent failure)")
_RAISED = re.compile(r"((?:\w+\.)*\w*(?:Error|Exception|Interrupt|Exit)\b.*)")
_REASON = re.compile(r"Reason: (.*)")
_HEAP = "out of memory: the heap of its Java is full (spark.executor.memory)"
_CODES = {
    "52": _HEAP,
    "137": "killed by SIGKILL, as the kernel does where a host's memory is used up",
}


class SparkJudge(Judge):
    """The driver says when a run is over; Spark's words who is to blame, and its master whether it waits for ever."""

    def __init__(self, handle: StartedRun, *, whole_log: bool = True) -> None:
        super().__init__(handle, whole_log=whole_log)
        self._failed: dict[str, list[str]] = {}
        self._heard: list[str] = []
        self._given_up: str | None = None
        self._waits = self._refused = False
        self._gateway: str | None = None
        self._recent: deque[str] = deque(maxlen=RECENT)
        self._looks_until = time.monotonic() + REGISTER_SECONDS
        self._next_look = 0.0
        self._never: str | None = None
        self._told: events.RankFailed | None = None

    def poll(self) -> Any:
        """See `Judge`; whether executors can come: asked once the master knows the driver, and whenever it waits."""
        service, now = self.handle.service, time.monotonic()
        if not isinstance(service, SparkService):
            return None
        with contextlib.suppress(RegattaError):
            if self._waits:
                self._waits = False
                return master.never(service.look(), self.handle.run)
            if self._next_look <= now < self._looks_until:
                self._next_look = now + LOOK_SECONDS
                said = service.look()
                if master.registered(said, self.handle.run):
                    self._looks_until = 0.0
                return master.too_much(said, self.handle.run)
        return None

    def on_state(self, answer: Any) -> None:
        """See `Judge`."""
        self._never = answer

    def on_line(self, rank: int | None, text: str) -> None:
        """Keep what a driver prints of the last task that failed in each stage, and which stage Spark gave up; of
        ranks, which of them failed."""
        if rank != DRIVER:
            return
        if '"failed"' in text and isinstance(event := events.parse_line(text), events.RankFailed):
            self._told = self._told or event
        self._waits = self._waits or WAITS in text
        self._refused = self._refused or REFUSED in text
        if self._refused and UNREACHED in text:
            self._never = SECRET
        elif GIVEN_UP in text:
            self._never = self._never or DEAF
        if self._gateway is None and _GATEWAY.search(text):
            self._gateway = next((clean(line) for line in self._recent if _JAVA.search(line)), SILENT)
        if not text[:1].isspace():  # frames of Java, and a screen of spark-submit's usage
            self._recent.append(text)
        if found := _TASK.search(text):
            self._heard = self._failed[found[1]] = [text]
        elif len(self._heard) < WORDS:
            self._heard.append(text)
        if given_up := _GIVEN_UP.search(text):
            self._given_up = given_up[1]

    def over(self, ended: Mapping[str, float]) -> bool:
        """See `Judge`."""
        return self._never is not None or self.handle.cluster.head.name in ended

    def outlives(self, node: str) -> bool:
        """See `Judge`: what an executor had done is done again elsewhere."""
        return node != self.handle.cluster.head.name

    def failed(self) -> bool:
        """See `Judge`."""
        return self._never is not None

    def failure_message(self) -> str | None:
        """See `Judge`."""
        return self._never

    def blame(self, rank: int | None, last_lines: Sequence[str]) -> Blame | None:
        """The rank, or the executor, because of which the driver failed; None where it failed by itself."""
        if rank == DRIVER and self._told:
            cause = clean((self._told.words.strip().splitlines() or ["failed"])[-1])
            node = self._node_at(self._told.address) or self.handle.ranks.get(self._told.of)
            return Blame(node, self._told.of, cause) if node else None
        lines = [clean(line) for line in self._failed.get(self._given_up or "", ())]
        if rank == DRIVER and self._gateway:
            return Blame(self.handle.cluster.head.name, DRIVER, f"{GATEWAY}: {self._gateway}")
        if rank != DRIVER or not lines or not (found := _TASK.search(lines[0])):
            return None
        if not (node := self._node_at(found[2])):
            return None
        cause = f"executor {found[3]}: {in_words(found[4], lines[1:])}"
        if FULL in cause:
            place = f"{self.handle.cluster.node(node).state}/spark"
            cause += f"; the disk of {node} is full: free some space there (df -h {place})"
        return Blame(node, None, cause)

    def _node_at(self, address: str | None) -> str | None:
        return next((node.name for node in self.handle.nodes if node.cluster_address == address), None)


def in_words(first: str, following: Sequence[str]) -> str:
    """Return how a task ended: the exception that it raised, or what befell its executor."""
    if found := _REASON.search(first):
        code = re.search(r"exited with code (\d+)", found[1])
        return _CODES.get(code[1], found[1]) if code else found[1]
    if first.startswith("java.lang.OutOfMemoryError"):
        return _HEAP
    raised = None
    if "PythonException" in first:
        for line in following:
            if line.lstrip().startswith("at ") or " WARN " in line or " ERROR " in line:
                break
            raised = _RAISED.match(line) or raised
    return raised[1] if raised else first
