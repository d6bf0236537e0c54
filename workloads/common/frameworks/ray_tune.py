"""Ray Tune: this process is the driver, rank -1; each trial is an actor's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from workloads.common.ray import tuning
from workloads.common.search.asked import Search
from workloads.common.search.memory import Memory
from workloads.common.search.trial import Outcome


def search(asked: Search, memory: Memory) -> AbstractContextManager[Callable[[], Sequence[Outcome]]]:
    """Have Tune run the trials in the cluster at ``RAY_ADDRESS``, or in a private one."""
    return tuning.search(asked, memory)


def leave() -> None:
    """End as Python does: Ray has been left by then."""
