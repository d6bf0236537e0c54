"""Command lines of workloads: what their options have in common."""

from __future__ import annotations

import argparse
import math
import os
from pathlib import Path
from typing import Any, NoReturn

from workloads.common import events, framework
from workloads.common.storage.places import is_remote


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are events too."""

    def error(self, message: str) -> NoReturn:
        """Print the usage, emit `message` as event ``error`` and end the process with status 2."""
        self.print_usage()
        events.bad_input(message)


def add_framework(parser: argparse.ArgumentParser) -> None:
    """Add ``--framework``, by default ``auto``."""
    parser.add_argument(
        "--framework",
        choices=(framework.AUTO, *framework.names()),
        default=framework.AUTO,
        help=f"auto: what {framework.VARIABLE} names, else torch where WORLD_SIZE is set, else single",
    )


def add_training(parser: argparse.ArgumentParser, *, epochs: int, batch: int, learning_rate: float) -> None:
    """Add the options of a training with their defaults; `batch` is rows a rank and batch."""
    add = parser.add_argument
    add("--epochs", metavar="N", type=positive, default=epochs, help=f"default {epochs}")
    add("--batch", metavar="N", type=positive, default=batch, help=f"rows a rank and batch (default {batch})")
    add("--accumulate", metavar="N", type=positive, default=1, help="batches a step, with one exchange (default 1)")
    add("--learning-rate", type=positive_real, default=learning_rate, help=f"default {learning_rate}")
    add(
        "--scale-batch",
        metavar="N",
        nargs="?",
        type=positive,
        const=0,
        help="grow the learning rate with the batch over the first epoch, N times (default: times the ranks)",
    )
    add("--seed", metavar="N", type=not_negative, default=0, help="of weights, order and generated data (default 0)")
    add(
        "--checkpoint",
        metavar="FILE",
        type=of_this_run,
        help="go on from it where it is there; hdfs:// or on the host of rank 0; {run} in it is the run's id",
    )
    add("--checkpoint-every", metavar="N", type=not_negative, default=0, help="write it every N epochs")
    add(
        "--restarts",
        metavar="N",
        type=not_negative,
        default=0,
        help="start lost ranks again so many times, under Ray; torchrun has --max-restarts",
    )
    add(
        "--elastic",
        metavar="N",
        type=not_negative,
        default=0,
        help="N ranks were meant: where there are fewer or more by now, each takes more or fewer rows a batch",
    )
    add_framework(parser)


def training_fault(given: dict[str, Any]) -> str | None:
    """What is wrong with options of a training that do not go together, as one sentence; None where they do."""
    if given["checkpoint_every"] and not given["checkpoint"]:
        return "--checkpoint-every needs --checkpoint FILE"
    return None


def of_this_run(path: str) -> str:
    """A path that means the same in every process of this run; ``{run}`` becomes the run's id.

    Of a run that goes on without lost hosts it is the first one's.
    """
    run = os.environ.get("REGATTA_FIRST_RUN") or os.environ.get("REGATTA_RUN_ID") or "by-hand"
    own = path.replace("{run}", run)
    return own if is_remote(own) else str(Path(own).absolute())


def positive(text: str) -> int:
    """An integer from 1 on. Raises ValueError or ArgumentTypeError for all else: argparse names the option."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return value


def not_negative(text: str) -> int:
    """An integer from 0 on. Raises ValueError or ArgumentTypeError for all else."""
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text} is less than 0")
    return value


def positive_real(text: str) -> float:
    """A finite number greater than 0. Raises ValueError or ArgumentTypeError for all else."""
    value = float(text)
    if not (value > 0.0 and math.isfinite(value)):
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return value
