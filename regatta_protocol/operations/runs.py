"""Runs on a node: started, watched, ended, told of, deleted."""

from typing import Any, Dict, Optional, Tuple

from regatta_protocol.operations.operation import Operation, Telling
from regatta_protocol.run import Ended, Finished, Listing, Spec, Started
from regatta_protocol.standing import Stood
from regatta_protocol.states import State
from regatta_protocol.value import Value


class StartRun(Operation[Started]):
    """Start a node's part of a run; `hidden`: variables of its processes whose values other users must not see."""

    op = "run.start"
    spec: Spec
    hidden: Dict[str, str] = {}


class Watched(Value):
    """The report of a watched run: only what it is about has a value.

    `lines`: lists of rank (None: the supervisor's) and text, which may be many. `offset`: the byte of the log behind
    them. `bars`: lists of rank and what is in place now. `exit`: how the run has ended there. `beat`: a heartbeat.
    """

    lines: Any = None
    offset: Optional[int] = None
    bars: Any = None
    exit: Optional[Ended] = None
    beat: Optional[int] = None


class WatchRun(Telling[None, Watched]):
    """Follow a run's log from a byte of it (or only its events) until the run has ended there."""

    op = "run.watch"
    run: str
    offset: int = 0
    events_only: bool = False


class AskStanding(Operation[Stood]):
    """The present state of a run's processes."""

    op = "run.standing"
    run: str


class StopRun(Operation[Finished]):
    """End a run's processes and wait until they are gone."""

    op = "run.stop"
    run: str
    reason: str


class FinishRun(Operation[Finished]):
    """End what is left of a run, and write how it ended."""

    op = "run.finish"
    run: str
    state: State
    code: int


class Contended(Value):
    """Ids of other runs that were on a node meanwhile; `load`: cores that processes outside of Regatta have used.

    `joules`: energy of its processors, `gpu_joules` of its GPUs; None: not measured.
    """

    runs: Tuple[str, ...] = ()
    load: Optional[float] = None
    joules: Optional[float] = None
    gpu_joules: Optional[float] = None


class AskContention(Operation[Contended]):
    """Which other work used a node during a run, and the energy; `before`, `energy`: at its start, see `Started`."""

    op = "run.contention"
    run: str
    before: Optional[Dict[str, float]] = None
    energy: Optional[Dict[str, float]] = None


class MarkRecorded(Operation[None]):
    """Say that a run has a record."""

    op = "run.recorded"
    run: str


class Account(Value):
    """A node's data of a run for its record, and the interface of the cluster's address."""

    record: Optional[Dict[str, Any]] = None
    interface: Optional[str] = None


class AskAccount(Operation[Account]):
    """A node's data of a run for its record."""

    op = "run.account"
    run: str


class ListRuns(Operation[Listing]):
    """The runs that a node knows of."""

    op = "run.list"


class Pruned(Value):
    """Ids of deleted runs, and of those that have not ended and stay; how many input files went; bytes of all."""

    runs: Tuple[str, ...]
    going: Tuple[str, ...]
    inputs: int
    bytes: int


class Prune(Operation[Pruned]):
    """Delete runs' folders, and input files that no run has used for `unused` seconds."""

    op = "prune"
    runs: Tuple[str, ...]
    unused: float
