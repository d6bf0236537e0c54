"""Runs ``python -m`` of a search, once its command line is read."""

from __future__ import annotations

import functools
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from workloads.common import events, failures
from workloads.common import framework as frameworks
from workloads.common.events import BadInput
from workloads.common.framework import How, Leaver, Searcher, Spreader
from workloads.common.items import gathering
from workloads.common.items.work import Doing, tasks
from workloads.common.search import apart, asked, results
from workloads.common.search.asked import FIXED, WITHOUT_TUNE, Search
from workloads.common.search.memory import Memory
from workloads.common.search.trial import Outcome, Trial

SCRATCH = "REGATTA_SCRATCH"


@dataclass(frozen=True)
class Once:
    """Runs the trial of an item, a number and a point, in its own process."""

    trial: Trial
    kept: Path

    def __call__(self, item: tuple[int, dict[str, Any]]) -> Outcome:
        """The trial's outcome."""
        number, point = item
        return apart.run(self.trial, number, point, self.kept / f"{number:05d}")


def run(
    table: Mapping[str, Any],
    function: str | None,
    given: Mapping[str, Any],
    runs: Leaver,
    framework: str,
    command: str = "",
) -> None:
    """Do the trials of a card's table `search` under a framework, and give the answer. Raises :class:`BadInput`.

    A trial is a call of `function`, or where there is none a start of the script that `command` names.
    """
    _check(given["search"], runs, framework)
    search = asked.of(table, function, given, command)
    with failures.said(), tempfile.TemporaryDirectory(prefix="regatta-search-") as folder:
        os.environ.setdefault(SCRATCH, folder)
        if hasattr(runs, "search"):
            memory = Memory(search, fixed=search.kind in FIXED)
            with cast(Searcher, runs).search(search, memory) as made:
                _answer(search, memory, made, gathering.workers())
            return
        if search.kind == "asha":
            events.warning(f"asha stops no trial under {framework}: the same trials, each to its end")
        workers = getattr(runs, "WORKERS", None) or gathering.workers()
        memory = Memory(search, fixed=True)
        spread = cast(Spreader, runs).spread
        with spread(Doing(Once(search.trial, search.kept)), tasks(memory.left, 1), How()) as done:
            assert done is not None
            gather = functools.partial(gathering.gather, done, len(memory.left), _keeper(memory), "trials")
            _answer(search, memory, gather, workers)


def _check(kind: str, runs: Leaver, framework: str) -> None:
    """Raise :class:`BadInput` for what cannot be, before the function is imported, which may take long."""
    if hasattr(runs, "search"):
        return
    if not getattr(runs, "FORKS", False):
        able = [name for name in frameworks.names() if getattr(frameworks.load(name), "FORKS", False)]
        raise BadInput(f"{framework} runs no searches: {', '.join(able)} and ray-tune do")
    if kind not in WITHOUT_TUNE:
        known = ", ".join(WITHOUT_TUNE)
        raise BadInput(f"--search {kind} needs --framework ray-tune; under {framework} there are {known}")


def _keeper(memory: Memory) -> gathering.Keep:
    def keep(first: int, made: Sequence[Outcome]) -> None:
        for outcome in made:
            memory.keep(outcome)

    return keep


def _answer(search: Search, memory: Memory, outcomes: Callable[[], Sequence[Outcome]], workers: int) -> None:
    events.ready()
    began = time.monotonic()
    with events.phase("compute"):
        made = outcomes()
    seconds = time.monotonic() - began
    events.used()
    answer, show, tolerance = results.write(search, memory.end(made))
    show = [*show, results.share(made, workers, seconds)]
    events.result(answer, tolerance, show)
    if not os.environ.get("REGATTA_RUN_ID"):
        print("\n".join(show))
