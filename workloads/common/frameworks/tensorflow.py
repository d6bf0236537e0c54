"""Ranks of TensorFlow, which a launcher has started with ``TF_CONFIG``; this process is one."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from workloads.common import events, mirrored
from workloads.common.part import Group, MakePart, steps
from workloads.common.ranks import Ranks
from workloads.common.shared import HostFolder


@contextlib.contextmanager
def answers(make: MakePart, *, grouped: Group | None, restarts: int) -> Iterator[Sequence[Any] | None]:
    """Run this rank's part, which may talk to others by :mod:`mirrored`. A rank that is lost is not started again."""
    ranks = Ranks.from_environment()
    part = make(ranks)
    with contextlib.ExitStack() as stack:
        with events.phase("rendezvous"):
            stack.enter_context(mirrored.met())
        events.ready()
        token = os.environ.get("REGATTA_RUN_ID", "tensorflow")
        steps(part, HostFolder.of_run(ranks.local_world, token) if ranks.local_world > 1 else None)
        with events.phase("collect"):
            gathered = mirrored.gathered(part.answer())
        yield gathered if ranks.rank == 0 else None


def leave() -> NoReturn:
    """End a rank that has done everything: TensorFlow would first take leave of ranks that may be gone already."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
