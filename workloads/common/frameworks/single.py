"""One process, which has all of the work."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from workloads.common import events
from workloads.common.framework import How
from workloads.common.items.work import Doing, Done, Task
from workloads.common.part import Group, MakePart, steps
from workloads.common.ranks import Ranks

FORKS = True
"""Its workers are processes of this host that may fork: a trial of a search is its own process."""
WORKERS = 1
"""Regardless of cores."""


@contextlib.contextmanager
def answers(make: MakePart, *, grouped: Group | None, restarts: int) -> Iterator[Sequence[Any]]:
    """Run the only part, here. Nothing is lost that could start again."""
    part = make(Ranks())
    events.ready()
    steps(part, None)
    with events.phase("collect"):
        answer = part.answer()
    yield [answer]


@contextlib.contextmanager
def spread(do: Doing, tasks: Iterator[Task], how: How) -> Iterator[Iterable[Done]]:
    """Do one task after the other, here."""
    yield map(do, tasks)


def leave() -> None:
    """End as Python does."""
