"""Runs in each rank of TorchDistributor its part, in torch's process group, as under torch itself."""

from __future__ import annotations

import atexit
import json
import os
import traceback
from typing import Any

from regatta_protocol import interfaces
from workloads.common import events
from workloads.common.events import BadInput
from workloads.common.frameworks import torch as plain
from workloads.common.part import MakePart, steps
from workloads.common.ranks import Ranks, group_timeout, process_group
from workloads.common.shared import HostFolder
from workloads.common.spark.places import numbered
from workloads.common.spark.wire import Line, Place

INTERFACES = ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")


def work(make: MakePart, driver: Place, token: str) -> list[Any] | None:
    """Do this rank's part; gives the answers by rank in the process whose value TorchDistributor brings back.

    `driver`: receives its events and how it ends. `token`: of the run, the same for all ranks.
    """
    line = Line(driver)
    events.carry(lambda event: line.say("event", event))
    try:
        gathered = _part(make, line, token)
    except BadInput as error:
        line.say("refused", str(error))
        raise
    except BaseException:
        line.say("raised", traceback.format_exc())
        raise
    line.say("done")
    atexit.register(plain.leave)
    return gathered


def _part(make: MakePart, line: Line, token: str) -> list[Any] | None:
    import torch.distributed as dist

    if name := interfaces.interface(line.address):
        for variable in INTERFACES:
            os.environ.setdefault(variable, name)
    store, process, world = next(dist.rendezvous("env://", timeout=group_timeout()))
    store.set(f"regatta/{process}", line.address)
    found = [store.get(f"regatta/{other}").decode() for other in range(world)]
    wanted = json.loads(os.environ.get("REGATTA_RANK_MAP") or "[]")
    every = numbered(found, wanted)
    _become(every[process], line)
    own = every[process].rank
    if wanted and wanted[own : own + 1] != [line.address]:
        events.warning(f"rank {own} is on {line.address}, where Spark had free cores, not on {wanted[own]}")
    part = make(every[process])
    with process_group() as ranks:
        events.ready()
        steps(part, HostFolder.of_run(ranks.local_world, token) if ranks.local_world > 1 else None)
        gathered: list[Any] | None = [None] * ranks.world if process == 0 else None
        dist.gather_object(part.answer(), gathered, dst=every[0].rank)
    return gathered


def _become(ranks: Ranks, line: Line) -> None:
    """Be this rank from here on: torchrun has numbered processes as Spark has, one to a host."""
    os.environ.update(RANK=str(ranks.rank), LOCAL_RANK=str(ranks.local_rank), LOCAL_WORLD_SIZE=str(ranks.local_world))
    events.set_rank(ranks.rank)
    line.rank = ranks.rank
