"""Ray: this process is the driver, rank -1, and the parts run in actors or as the workers of Ray Train."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from workloads.common.part import Group, MakePart
from workloads.common.ray import actors, train


def answers(make: MakePart, *, grouped: Group | None, restarts: int) -> AbstractContextManager[Sequence[Any]]:
    """Run the parts in the cluster at ``RAY_ADDRESS``, or in a private one. Only Ray Train starts lost ranks again."""
    if grouped == "train":
        return train.answers(make, restarts)
    return actors.answers(make, grouped=grouped is not None)


def leave() -> None:
    """End as Python does: Ray has been left by then."""
