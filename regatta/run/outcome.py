"""The end of a run and its cause, as values."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from regatta.errors import RemoteError
from regatta.text import clean
from regatta_protocol.log import DRIVER, PREFIX
from regatta_protocol.run import Ended, Finished
from regatta_protocol.standing import TIMED_OUT, Stood
from regatta_protocol.states import State

SPOKEN_LINES, SPOKEN_CHARACTERS = 400, 1000
"""So much of what a rank printed last is looked through for why it failed."""


@dataclass(frozen=True)
class Failure:
    """The cause of a run's end: `rank` is None where a node or a service was lost; `code` is what to pass on.

    `host`: the node that was lost, or rebooted, where that is what ended the run.
    """

    node: str
    rank: int | None
    cause: str
    code: int
    last_lines: tuple[str, ...] = ()
    host: str | None = None

    @property
    def printed(self) -> tuple[str, ...]:
        """Return its last lines but for events of the workload."""
        return tuple(line for line in self.last_lines if PREFIX + "{" not in line)

    def text(self) -> str:
        """Node, rank, cause and the last lines, for a person."""
        where = self.node if self.rank is None or self.rank == DRIVER else f"rank {self.rank} on {self.node}"
        if self.rank == DRIVER:
            where = f"the driver on {self.node}"
        shown = [clean(line) for line in self.printed][-12:]
        tail = "".join(f"\n    | {line}" for line in shown)
        return f"{where}: {self.cause}" + (f"; its last lines:{tail}" if shown else "")


@dataclass(frozen=True)
class Outcome:
    """The end of a run; `exits` is each node's own account.

    `used`: what the run has used on each node, as its supervisor measured it.
    """

    state: State
    code: int
    failure: Failure | None
    exits: dict[str, Ended] = field(default_factory=dict)
    used: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass
class Accounts:
    """The facts of a run's end while it is followed, all by the names of nodes.

    `exits`: how the run has ended there, in the words of who watched it; `said`: the same, also of nodes that were told
    of the end. `lost`: those that answer no more, `rebooted`: those that were, `died`: daemons that have, in mid-run.
    `stood`: where ranks stood when another one had waited too long.
    `spoken`: what each rank has printed last, by its number.
    """

    exits: dict[str, Ended] = field(default_factory=dict)
    said: dict[str, Ended] = field(default_factory=dict)
    lost: dict[str, RemoteError] = field(default_factory=dict)
    died: dict[str, list[str]] = field(default_factory=dict)
    rebooted: list[str] = field(default_factory=list)
    stood: dict[str, Stood] = field(default_factory=dict)
    spoken: dict[int | None, deque[str]] = field(default_factory=dict)

    def heard(self, rank: int | None, text: str) -> None:
        """Keep a line that a rank has printed, instead of an earlier one where there are many."""
        self.spoken.setdefault(rank, deque(maxlen=SPOKEN_LINES)).append(text[:SPOKEN_CHARACTERS])

    @property
    def used(self) -> dict[str, dict[str, Any]]:
        """Return what the run has used on each node."""
        return {name: said.used for name, said in self.said.items()}

    def hear(self, finished: dict[str, Finished]) -> None:
        """The nodes' reports of the run's end, by node."""
        self.said |= {name: answer.exit for name, answer in finished.items() if answer.exit}
        self.rebooted = [name for name, answer in finished.items() if answer.rebooted]
        self.died = {name: [*answer.died] for name, answer in finished.items() if answer.died}


def waited(lines: Sequence[str]) -> bool:
    """Whether last words say that others did not come in time."""
    return any(TIMED_OUT.search(line) for line in lines)


def reached(node: str, limits: Mapping[str, float]) -> list[str]:
    """In words which of its limits a run has met on a node, and what sets it."""
    said = []
    if "memory" in limits:
        said.append(
            f"out of memory: the limit of runs on {node}, {limits['memory'] / 1e9:.2f} GB, was reached "
            "(--memory, or regatta_run_memory_share in the inventory)"
        )
    if "processes" in limits:
        said.append(
            f"the limit of runs on {node}, {limits['processes']:,.0f} processes and threads, was reached "
            "(regatta_run_processes in the inventory)"
        )
    return said
