"""The request of a search: its space, how its trials are chosen, and where their files are."""

from __future__ import annotations

import hashlib
import inspect
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workloads.common.search import script, space
from workloads.common.search.space import Axis, Point
from workloads.common.search.trial import Trial, found

FIXED = ("random", "grid")
"""Searches whose trials do not depend on each other: they have the same answer wherever they run."""
SEED = "seed"
WITHOUT_TUNE = (*FIXED, "asha")
SHARED = ("search", "trials", "epochs", "grid_steps", "seed", "trial_seconds", "trial_mb", "resume", "out")
"""The options of `search.toml`, which are not the function's own; it gets the seed where it takes one."""


@dataclass(frozen=True)
class Search:
    """`kind`: the option ``search``; `largest`: whether the metric is to be large or small; `resume`: whether to
    continue what an interrupted search for the same has left.
    """

    axes: Mapping[str, Axis]
    kind: str
    count: int
    steps: int
    seed: int
    trial: Trial
    largest: bool
    resume: bool
    out: Path

    def points(self) -> list[Point]:
        """The points of the trials, where they are known beforehand; of a population its first ones."""
        return (
            space.grid(self.axes, self.steps) if self.kind == "grid" else space.drawn(self.axes, self.count, self.seed)
        )

    @property
    def trials(self) -> int:
        """Return how many trials there will be."""
        return len(self.points()) if self.kind == "grid" else self.count

    @property
    def kept(self) -> Path:
        """Return where trials keep their checkpoints: in the folder that all nodes see, where there is one."""
        return (Path(os.environ.get("REGATTA_SHARED") or self.out) / "trials").absolute()


def of(table: Mapping[str, Any], function: str | None, given: Mapping[str, Any], command: str = "") -> Search:
    """The search of a card's table `search`, with what a command line gives. Raises :class:`BadInput`.

    `command`: a script with its arguments, where a trial is no function.
    """
    own = {name: value for name, value in given.items() if name not in SHARED}
    if function is None:
        function, own = script.FUNCTION, {**own, **_of_script(command, table["metric"], given["epochs"])}
    if SEED in inspect.signature(found(function)).parameters:
        own[SEED] = given[SEED]
    trial = Trial(function, own, table["metric"], given["epochs"], given["trial_seconds"], given["trial_mb"])
    made = Search(
        space.read(table.get("space", {})),
        *(given["search"], given["trials"], given["grid_steps"], given["seed"]),
        trial,
        table.get("mode", "max") == "max",
        given["resume"],
        Path(given["out"]),
    )
    trial.check(made.axes)
    return made


def _of_script(command: str, metric: str, epochs: int) -> dict[str, Any]:
    digest = hashlib.sha256(script.check(command).read_bytes()).hexdigest()
    return {script.COMMAND: command, script.METRIC: metric, script.EPOCHS: epochs, script.SUM: digest}
