"""The items: each keeps a core busy until it has had so much of it."""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from workloads.common.items.work import Work

TOLERANCE: dict[str, float] = {}


@dataclass(frozen=True)
class Options:
    """The parameters of a run: so many `tasks`, of so many `milliseconds` of a processor each."""

    tasks: int
    milliseconds: float


def busy(seconds: float, number: int) -> int:
    """The number, when this thread has had so many seconds of a processor: that takes longer where others run."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
    return number


def work(options: Options) -> Work:
    """The tasks, by number."""
    return Work(functools.partial(busy, options.milliseconds / 1000), range(options.tasks))


def combine(options: Options, results: Sequence[int]) -> tuple[dict[str, Any], list[str]]:
    """Return how many there were, and the sum of their numbers."""
    said = f"tasks: {len(results):,} of {options.milliseconds:g} ms"
    return {"tasks": len(results), "sum": sum(results), "milliseconds": options.milliseconds}, [said]
