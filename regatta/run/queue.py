"""A run's turn: nodes of the cluster, for which it waits, and which it holds until its end.

Slurm gives whole nodes, or cores of them; without Slurm a lock on the head gives all nodes to one run.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from regatta.errors import RegattaError, RunError, UsageError
from regatta.frameworks.api import Framework
from regatta.frameworks.plan import Plan
from regatta.hosts.channel import Stream
from regatta.hosts.cluster import Cluster
from regatta.hosts.remote import Remote
from regatta.options.declaration import NORMAL, PRIORITIES, RunOptions
from regatta.program import about_hosts, hint
from regatta.run import catalogue, gpus
from regatta.text import owner
from regatta_protocol.operations.launch import Inspect
from regatta_protocol.operations.queue import AskQueue, Entry, HoldNodes, QueueWord, Withdraw
from regatta_protocol.states import State

MOST_NAMED = 3
NICE = 100
"""Slurm's number between two priorities."""


class Turn:
    """The nodes that a run holds; `close` gives them back, and a dead controller's run keeps them until its end.

    `nodes`: their names. `waited`: whether others were ahead. `cpus`, `gpus`: by node those that it has, of shared
    nodes, counted from 0.
    """

    def __init__(self, remote: Remote, asked: HoldNodes, say: Callable[[str], None]) -> None:
        """Wait for the nodes; `say` hears who is ahead. Raises RemoteError; Ctrl-C leaves the queue.

        Raises UsageError for a command within a run, as it would wait for itself.
        """
        self.run, self.waited = asked.run, False
        self._say, self._closed = say, False
        self._stream: Stream[None, QueueWord] = remote.stream(remote.cluster.head, asked)
        lines = iter(self._stream)
        self.cpus: Mapping[str, tuple[int, ...]] = {}
        self.gpus: Mapping[str, tuple[int, ...]] = {}
        try:
            self.nodes = self._granted(lines)
        except BaseException:
            self._stream.close()
            raise
        threading.Thread(target=self._watch, args=(lines,), daemon=True).start()

    def close(self) -> None:
        """Give the nodes back."""
        self._closed = True
        self._stream.close()

    def _granted(self, lines: Iterator[QueueWord]) -> tuple[str, ...]:
        for word in lines:
            if word.waits:
                if (around := os.environ.get("REGATTA_RUN_ID")) in {entry.run for entry in word.waits}:
                    raise UsageError(f"this is a part of {around}, which holds the nodes until it ends: add --now")
                self.waited = True
                self._say(waiting(self.run, word.waits))
            if word.down:
                self._say(without(self.run, word.down))
            if word.granted:
                self.cpus, self.gpus = word.cpus, word.gpus
                return word.granted
        return ()

    def _watch(self, lines: Iterator[QueueWord]) -> None:
        """End this process's work as by Ctrl-C where the nodes are taken away."""
        try:
            revoked = any(word.revoked for word in lines)
        except (RegattaError, OSError, ValueError):
            return  # its own nodes say how they are
        if revoked and not self._closed:
            self._say(f"{self.run}: its nodes were taken away in the cluster's queue: ending")
            os.kill(os.getpid(), signal.SIGINT)


def wanted(
    plan: Plan, framework: Framework, cluster: Cluster, facts: Mapping[str, Mapping[str, Any]], *, slurm: bool
) -> HoldNodes | None:
    """What a run asks of the queue: as many nodes as its plan has, or all where its engine places work itself.

    Whole ones, without `--cores` and GPUs: a rank with GPUs asks for as large a part of its node's cores as of its
    cards. None where it is on no worker. UsageError for cores that it cannot have. Without `slurm` the lock of all
    workers.
    """
    workers = [node.name for node in cluster.workers]
    if not slurm:
        return HoldNodes(plan.run, len(workers), tuple(workers))
    used = [node.name for node in plan.nodes if node.name in workers]
    everywhere, cards = places_itself(plan, framework, cluster), cards_of_node(plan)
    free = [node.name for node in framework.hosts(cluster)] == workers and not cluster.left_out
    only = workers if everywhere else [] if free and (cards or not plan.cards) else used
    count, said = len(only or used), plan.options
    own = nice(said.priority)
    if not count:
        return None
    check_cores(plan, framework, cluster)
    cores = said.cores or (cores_of_rank(plan, facts) if cards and not everywhere else None)
    asked = HoldNodes(plan.run, count, tuple(only), said.time_limit, own, memory=mebibytes(said))
    return asked.changed(ranks=len(plan.ranks), cores=cores, gpus=0 if everywhere else cards) if cores else asked


def cards_of_node(plan: Plan) -> int:
    """Most GPUs that a run has on a node, which Slurm can count; it does not know parts of cards."""
    if any(name.startswith(gpus.PART) for cards in plan.cards.values() for name in cards.visible):
        return 0
    return max((len(cards.visible) for cards in plan.cards.values()), default=0)


def cores_of_rank(plan: Plan, facts: Mapping[str, Mapping[str, Any]]) -> int:
    """Cores of each rank, by its part of its node's cards."""
    found = [
        int(facts[name]["cores"]) * cards.each // len(facts[name]["gpus"]["cards"])
        for name, cards in plan.cards.items()
        if cards.visible
    ]
    return max(1, min(found))


def places_itself(plan: Plan, framework: Framework, cluster: Cluster) -> bool:
    """Whether a run's engine chooses nodes, where work is outside of the run's own units."""
    return framework.driver or (plan.program.any_node and framework.served(cluster))


def check_cores(plan: Plan, framework: Framework, cluster: Cluster) -> None:
    """Raise UsageError for a run that cannot share its nodes."""
    if plan.options.cores and places_itself(plan, framework, cluster):
        raise UsageError(f"--cores: {framework.name} places work itself, on all nodes: leave it out")


def mebibytes(said: RunOptions) -> int | None:
    """The memory on each node that the queue counts for a run."""
    return None if said.memory is None else max(1, int(said.memory * 1e9) >> 20)


def nice(priority: str) -> int:
    """Slurm's number of a priority: the lower, the sooner."""
    return -NICE * (PRIORITIES.index(priority) - PRIORITIES.index(NORMAL))


def priority(nice: int) -> str:
    """The priority of Slurm's number."""
    return PRIORITIES[1 + (nice < 0) - (nice > 0)]


def slurm(remote: Remote) -> bool:
    """Whether Slurm gives the cluster's nodes."""
    return not remote.cluster.local and remote.call(remote.cluster.head, Inspect(facts_wanted=False)).slurm


def job_of(remote: Remote, run: str) -> int | None:
    """The number of a run's job, on which another one can wait; None where the run has succeeded already.

    Raises RunError where it has not, UsageError where a controller follows it.
    """
    if entry := next((one for one in entries(remote) if one.is_run(run)), None):
        if not entry.detached:
            raise UsageError(f"{run} has a controller, and --after takes only a run of --detach: wait for its end")
        return entry.job
    known = catalogue.find(remote, run)
    if known.state is not State.SUCCEEDED:
        raise RunError(f"{known.run} has {known.state}: what comes after it would never begin")
    return None


def of_all(remote: Remote, label: str, say: Callable[[str], None]) -> Turn:
    """Hold all workers. Raises RemoteError."""
    workers = tuple(node.name for node in remote.cluster.workers)
    return Turn(remote, HoldNodes(run=label, wanted=len(workers), only=workers), say)


def waiting(run: str, ahead: Sequence[Entry]) -> str:
    """One line that says for whom a run waits."""
    holding, before = [one for one in ahead if one.holds], [one for one in ahead if not one.holds]
    parts = [_named(holding, "holds nodes", "hold nodes"), _named(before, "is ahead", "are ahead")]
    said = "; ".join(filter(None, parts)) or "its nodes are not free yet"
    return f"{run} waits for its turn: {said}. Ctrl-C leaves the queue; to see it: {hint('queue')}; --now starts beside"


def without(run: str, down: Sequence[str]) -> str:
    """One line that says which nodes a run may be waiting for, where no other run is ahead."""
    return (
        f"{run} waits for its nodes: Slurm gives no run to {', '.join(down)}; '{about_hosts('verify')}' says why. "
        f"Ctrl-C leaves the queue; --now starts without Slurm"
    )


def _named(entries: Sequence[Entry], one: str, many: str) -> str:
    if not entries:
        return ""
    names = ", ".join(_of(entry) for entry in entries[:MOST_NAMED])
    more = f" and {len(entries) - MOST_NAMED} more" if len(entries) > MOST_NAMED else ""
    return f"{names}{more} {one if len(entries) == 1 else many}"


def _of(entry: Entry) -> str:
    since = f", since {clock(entry.since)}" if entry.since else ""
    return f"{entry.run} ({owner(entry.owner) or 'a job of Slurm'}{since})"


def clock(seconds: float) -> str:
    """Return a moment as this machine's clock shows it."""
    return datetime.fromtimestamp(seconds).astimezone().strftime("%H:%M:%S")


def entries(remote: Remote) -> tuple[Entry, ...]:
    """Who holds nodes, then who waits, first in line first."""
    return remote.call(remote.cluster.head, AskQueue()).entries


def waits(remote: Remote, run: str) -> Entry | None:
    """Return the entry of a run that waits in the queue, if it does."""
    return next((one for one in entries(remote) if one.is_run(run) and not one.holds), None)


def withdraw(remote: Remote, run: str) -> bool:
    """Take a run that waits out of the queue; returns whether it was there."""
    return remote.call(remote.cluster.head, Withdraw(run)).waited
