"""The interface from a workload to a framework: the part of a rank, which loads, computes and answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol, runtime_checkable

from workloads.common import events
from workloads.common.ranks import Ranks
from workloads.common.shared import HostFolder

Group = Literal["actors", "train"]
"""The ways in which parts that talk to each other meet under Ray: as actors of the driver, or as workers of Ray Train.
"""


class Part(Protocol):
    """The work of a rank. Constructing it imports whatever it needs; `answer` is called once, after the last step."""

    def load(self, folder: HostFolder | None) -> None:
        """Read the input, through `folder` where ranks of this host share it."""

    def compute(self) -> None:
        """Work out what falls to this rank."""

    def answer(self) -> Any:
        """Return what this rank has worked out; it can be pickled."""


@runtime_checkable
class SparkPart(Part, Protocol):
    """A part whose work executors of Spark can do; only its driver has it."""

    def over_spark(self, context: Any, partitions: int) -> None:
        """Have executors get ready; from then on they do the work, in so many partitions. `context`: SparkContext."""


MakePart = Callable[[Ranks], Part]


def steps(part: Part, folder: HostFolder | None) -> None:
    """Load and compute, as phases, then report the memory and the CPU that this took."""
    with events.phase("load"):
        part.load(folder)
    with events.phase("compute"):
        part.compute()
    events.used()
