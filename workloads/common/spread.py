"""Runs the parts of a workload on their ranks: in this process alone, or under torch; Ray is in rayspread.py."""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib
import os
import secrets
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NoReturn, Protocol

from workloads.common import events
from workloads.common.ranks import Ranks, process_group
from workloads.common.shared import HostFolder

Group = Literal["actors", "train"]
FRAMEWORKS = ("single", "torch", "ray")


class Part(Protocol):
    """What a rank does. Constructing it imports whatever it needs; `answer` is called once, after the last step."""

    def load(self, folder: HostFolder | None) -> None:
        """Read the input, through `folder` where ranks of this host share it."""

    def compute(self) -> None:
        """Work out what falls to this rank."""

    def answer(self) -> Any:
        """What this rank has worked out; it can be pickled."""


MakePart = Callable[[Ranks], Part]


def framework_of_environment() -> str:
    """``torch`` where a launcher of torch ranks has set ``WORLD_SIZE``, else ``single``."""
    return "torch" if os.environ.get("WORLD_SIZE") else "single"


def main(
    parser: argparse.ArgumentParser,
    module: str,
    *,
    grouped: Callable[[dict[str, Any]], Group | None] = lambda _: None,
    fault: Callable[[dict[str, Any]], str | None] = lambda _: None,
) -> None:
    """Run a workload with the arguments of the process: `module` has its Options, Part, combine and TOLERANCE.

    It is imported when the arguments are right, which is said sooner than torch is loaded: `fault` says what is wrong
    with how they go together, `grouped` whether and how the parts talk to each other (:func:`answers`).
    """
    given = vars(parser.parse_args())
    framework = given.pop("framework")
    if framework == "auto":
        framework = framework_of_environment()
    if wrong := fault(given):
        events.bad_input(wrong)
    restarts = given.pop("restarts", 0)
    part = importlib.import_module(module)
    make = functools.partial(part.Part, part.Options(**given))
    try:
        with answers(make, framework, grouped=grouped(given), restarts=restarts) as parts:
            if parts is not None:
                answer, show = part.combine(parts)
                events.result(answer, part.TOLERANCE, show)
                if not os.environ.get("REGATTA_RUN_ID"):
                    print("\n".join(show))
    except events.BadInput as error:
        events.bad_input(error)
    if framework == "torch":
        _leave()


def _leave() -> NoReturn:
    """End a rank that has done everything, without Python's own end.

    torch keeps a process group that DDP has used, and gloo's threads with it, also after it is destroyed: one that lets
    go of its last work meanwhile ends the process by SIGABRT ("terminate called without an active exception").
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


@contextlib.contextmanager
def answers(
    make: MakePart, framework: str, *, grouped: Group | None = None, restarts: int = 0
) -> Iterator[Sequence[Any] | None]:
    """Run the parts on all ranks; gives their answers by rank on rank 0 or the driver, and None elsewhere.

    What is done with them does not wait for the ranks to part. `grouped`: the parts talk to each other through torch's
    process group while they load and compute; under Ray it is one of ``actors``, or of Ray Train's workers (``train``),
    which start again `restarts` times at most when one of them is lost; torch's ranks are started again by torchrun.

    `make` builds a rank's part; for Ray it is pickled. Raises :class:`events.BadInput`.
    """
    if framework == "ray" and grouped == "train":
        from workloads.common import raytrain

        with raytrain.answers(make, restarts) as by_rank:
            yield by_rank
    elif framework == "ray":
        from workloads.common import rayspread

        with rayspread.answers(make, grouped=grouped is not None) as by_rank:
            yield by_rank
    elif framework == "torch":
        with _torch(make) as on_first:
            yield on_first
    else:
        part = make(Ranks())
        events.ready()
        steps(part, None)
        with events.phase("collect"):
            answer = part.answer()
        yield [answer]


def steps(part: Part, folder: HostFolder | None) -> None:
    """Load and compute, as phases, then report the memory and the CPU that this took."""
    with events.phase("load"):
        part.load(folder)
    with events.phase("compute"):
        part.compute()
    events.used()


@contextlib.contextmanager
def _torch(make: MakePart) -> Iterator[Sequence[Any] | None]:
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
