"""Ray Train's TensorflowTrainer: this process is the driver, rank -1, and parts run in Ray Train's workers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from workloads.common.part import Group, MakePart
from workloads.common.ray import train
from workloads.common.ray.trainers import TENSORFLOW


def answers(make: MakePart, *, grouped: Group | None, restarts: int) -> AbstractContextManager[Sequence[Any]]:
    """Run the parts, which may talk to each other by :mod:`mirrored`; all start again when a rank is lost."""
    return train.answers(make, restarts, TENSORFLOW)


def leave() -> None:
    """End as Python does: Ray has been left by then."""
