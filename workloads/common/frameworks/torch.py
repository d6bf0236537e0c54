"""Ranks that a launcher has started (torchrun, or Regatta's own), in torch's process group; this process is one."""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from workloads.common import events
from workloads.common.part import Group, MakePart, steps
from workloads.common.ranks import Ranks, process_group
from workloads.common.shared import HostFolder


@contextlib.contextmanager
def answers(make: MakePart, *, grouped: Group | None, restarts: int) -> Iterator[Sequence[Any] | None]:
    """Run this rank's part. All ranks are in a group, whether they talk or not; torchrun starts lost ones again."""
    import torch.distributed as dist

    part = make(Ranks.from_environment())
    with process_group() as ranks:
        token = [secrets.token_hex(8)]
        if ranks.world > 1 and not os.environ.get("REGATTA_SCRATCH"):
            dist.broadcast_object_list(token, src=0)
        events.ready()
        steps(part, HostFolder.of_run(ranks.local_world, token[0]) if ranks.local_world > 1 else None)
        with events.phase("collect"):
            gathered: list[Any] | None = [None] * ranks.world if ranks.rank == 0 else None
            dist.gather_object(part.answer(), gathered)
        yield gathered


def leave() -> NoReturn:
    """End a rank that has done everything, without Python's own end.

    torch keeps a process group that DDP has used, and gloo's threads with it, also after it is destroyed: one that lets
    go of its last work meanwhile ends the process by SIGABRT ("terminate called without an active exception").
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
