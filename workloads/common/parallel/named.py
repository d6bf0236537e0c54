"""The ways of sharing a training, by their names as `--parallel` has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workloads.common import training
from workloads.common.parallel.asynchronous import Asynchronous

ASYNCHRONOUS = 1.0
"""By so much the loss of an epoch may differ: 0.34 was seen of 1.1, and a training that learns nothing stays at 2.3."""


@dataclass(frozen=True)
class Schedule(training.Schedule):
    """`parallel`: ``sync``, ``async`` (with `staleness`), ``pipeline`` (with `microbatches`), or ``jobs``: of Spark."""

    parallel: str
    staleness: int
    microbatches: int


def way(schedule: Schedule) -> training.Way:
    """The way that a schedule names, for one training; imports what it needs. Spark's driver has its own for jobs."""
    if schedule.parallel == "async":
        return Asynchronous(schedule.staleness)
    if schedule.parallel == "pipeline":
        # It loads as much again as torch itself: only where it is wanted.
        from workloads.common.parallel.pipeline import Pipeline

        return Pipeline(schedule.microbatches)
    return training.Way()


def groups(schedule: Schedule, norm_groups: int, world: int) -> int:
    """In how many groups a rank's rows of a batch are normalised. In a pipeline microbatches are the groups."""
    if schedule.parallel != "pipeline":
        return norm_groups
    return schedule.microbatches if world == 1 else 1


def tolerance(schedule: Schedule, own: Mapping[str, float]) -> dict[str, float]:
    """Return what may differ between two runs, where `own` may in a synchronous training.

    Asynchronous ones take the first epochs, in which losses fall fast, each in its own order.
    """
    own = training.tolerance(schedule, own)
    if schedule.parallel != "async":
        return own
    loose = {name: max(own.get(name, 0.0), ASYNCHRONOUS) for name in ("losses", "test_loss")}
    return {**own, **loose, "staleness.mean": 1e9, "staleness.most": 1e9}
