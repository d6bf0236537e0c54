"""The rank of this process in a run, and its torch process group (docs/explanation/architecture.md#run)."""

from __future__ import annotations

import contextlib
import datetime
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from workloads.common import events

DEFAULT_PG_TIMEOUT = 60.0


@dataclass(frozen=True)
class Ranks:
    """One rank among `world`, and among the `local_world` ranks of its host."""

    rank: int = 0
    world: int = 1
    local_rank: int = 0
    local_world: int = 1

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> Ranks:
        """Read what torchrun and Regatta's launcher set; without any of it, a single process.

        Raises ValueError where one of these variables is no integer.
        """
        world = int(environ.get("WORLD_SIZE") or 1)
        return cls(
            rank=int(environ.get("RANK") or 0),
            world=world,
            local_rank=int(environ.get("LOCAL_RANK") or 0),
            local_world=int(environ.get("LOCAL_WORLD_SIZE") or world),
        )


def group_timeout() -> datetime.timedelta:
    """Return how long ranks wait for each other: ``REGATTA_PG_TIMEOUT`` seconds, by default 60."""
    return datetime.timedelta(seconds=float(os.environ.get("REGATTA_PG_TIMEOUT") or DEFAULT_PG_TIMEOUT))


def backend(*, gpus: bool) -> str:
    """Return how torch's ranks talk: gloo, and nccl between GPUs where they have some."""
    return "cpu:gloo,cuda:nccl" if gpus else "gloo"


@contextlib.contextmanager
def process_group() -> Iterator[Ranks]:
    """Form torch's process group from the environment, as phase ``rendezvous``, and leave it at the end.

    Nothing waits longer for another rank than :func:`group_timeout`. After an exception the group is not left
    in an orderly way, since that would wait for ranks that may be gone.
    """
    import torch
    import torch.distributed as dist

    ranks = Ranks.from_environment()
    with events.phase("rendezvous"):
        dist.init_process_group(backend(gpus=torch.cuda.is_available()), timeout=group_timeout())
    yield ranks
    dist.destroy_process_group()
