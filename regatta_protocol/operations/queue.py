"""The queue of a cluster, kept by Slurm on its head: runs wait there for whole nodes."""

from typing import Any, Dict, Optional, Tuple

from regatta_protocol.operations.operation import Operation, Telling
from regatta_protocol.value import Value


class Entry(Value):
    """An entry of the queue: a run that holds nodes (`since` then), or that waits (`reason`: Slurm's word).

    `job`: Slurm's number; `owner`: the login account and its key's fingerprint. `since` and `submitted` are Unix
    seconds. `ours`: not a job that another program has submitted; `detached`: it needs no controller. `expected`: when
    it starts at the latest, where all before it have a time limit. `nice`: the lower, the sooner among the owner's
    runs. `others`: it is not a run of who asks. `down`: the nodes to which Slurm gives no run, where it waits for some.
    """

    job: int
    run: str
    owner: str
    holds: bool
    ours: bool = False
    detached: bool = False
    priority: int = 0
    nice: int = 0
    others: bool = False
    nodes: Tuple[str, ...] = ()
    wanted: int = 0
    reason: str = ""
    submitted: float = 0.0
    since: Optional[float] = None
    expected: Optional[float] = None
    down: Tuple[str, ...] = ()

    def is_run(self, name: str) -> bool:
        """Whether this is the run of that name, and not a job of another program that is called so."""
        return self.ours and self.run == name


class QueueWord(Value):
    """The state of a request for nodes: `waits` behind others, `granted` nodes, still held (`alive`), or `revoked`.

    `down`: nodes to which Slurm gives no run, where no other run is ahead. `cpus`: by node, where cores were asked for,
    which of its CPUs are granted, counted from 0; `gpus` likewise.
    """

    waits: Tuple[Entry, ...] = ()
    down: Tuple[str, ...] = ()
    granted: Tuple[str, ...] = ()
    cpus: Dict[str, Tuple[int, ...]] = {}
    gpus: Dict[str, Tuple[int, ...]] = {}
    alive: bool = False
    revoked: bool = False


class HoldNodes(Telling[None, QueueWord]):
    """Hold `wanted` whole nodes (those of `only`, if any) for a run until the connection ends and the run has, too.

    `seconds`: for how long at most, where that is known. `nice`: see `Entry`. `ranks` of so many `cores`: not whole
    nodes, but these on as many nodes. `memory`: MiB that each node has for it. `gpus`: cards of each node, with that
    part of `ranks` and their cores; whole nodes where Slurm does not know the cards.
    """

    op = "queue.hold"
    run: str
    wanted: int
    only: Tuple[str, ...] = ()
    seconds: Optional[float] = None
    nice: int = 0
    ranks: int = 0
    cores: Optional[int] = None
    memory: Optional[int] = None
    gpus: int = 0


class Submitted(Value):
    """Slurm's number of a job, and what was ahead of it then."""

    job: int
    ahead: Tuple[Entry, ...] = ()


class Notify(Value):
    """Whom the head tells of the end of a run: URLs, and what the person calls the cluster."""

    urls: Tuple[str, ...]
    cluster: str


class Candidate(Value):
    """A node that a run without a controller may be granted: hosts of one `kind` are alike.

    `place`: empty for a member's run, where the node knows it.
    """

    kind: int
    address: str
    facts: Dict[str, Any]
    place: Dict[str, Any] = {}


class Carried(Value):
    """What the job of such a run brings to each node.

    `forms`: by the kinds of the nodes that are granted, with commas between, the request `run.start` of each (None: it
    gets no rank), as JSON. In it `token` with a number replaces names and addresses, and a number the `files`.
    `shares`: it has parts of its nodes.
    """

    token: str
    nodes: Dict[str, Candidate]
    forms: Dict[str, Tuple[Optional[Dict[str, Any]], ...]]
    files: Tuple[Dict[str, str], ...]
    shares: bool = False


class Further(Value):
    """A generation of an elastic run: what it is called, and what its job brings."""

    run: str
    carried: Carried


class QueuedRun(Value):
    """A run that starts, and ends, without a controller.

    It gets `wanted` whole nodes among those of `carried`; `fixed`: only all of these will do. `driver`: its end on one
    node is its end on all. `after`: the number of the job that has to succeed before. `memory`: MiB that each node has
    for it. `cores`: so many of each of the `ranks`, and `gpus` of each node, instead of whole nodes.
    """

    run: str
    carried: Carried
    wanted: int
    driver: bool = False
    fixed: bool = False
    seconds: Optional[float] = None
    after: Optional[int] = None
    nice: int = 0
    notify: Optional[Notify] = None
    memory: Optional[int] = None
    ranks: int = 0
    cores: Optional[int] = None
    gpus: int = 0


class SubmitRun(Operation[Submitted]):
    """Put a run into the queue, and `further` ones after it, which continue it on the nodes that are left: each where
    the one before has lost a node.
    """

    op = "queue.submit"
    first: QueuedRun
    further: Tuple[Further, ...] = ()


class Queued(Value):
    """The queue: who holds nodes, then who waits, first in line first."""

    entries: Tuple[Entry, ...] = ()


class AskQueue(Operation[Queued]):
    """The state of the queue. Problem where the cluster has none."""

    op = "queue.list"


class Withdrawn(Value):
    """Whether the run was waiting."""

    waited: bool


class Withdraw(Operation[Withdrawn]):
    """Take a run that waits out of the queue; one that holds nodes stays."""

    op = "queue.withdraw"
    run: str
