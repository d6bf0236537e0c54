"""Runs ``python -m`` of a workload of items, once its command line is read."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from workloads.common import events, failures
from workloads.common.framework import How, Spreader
from workloads.common.items import gathering
from workloads.common.items.work import Doing, Work, tasks

SHARED = ("chunk", "retries", "item_seconds", "start")
"""The options of `items.toml`, which are not the workload's own."""
Combine = Callable[[list[Any]], tuple[dict[str, Any], Sequence[str], Mapping[str, float]]]
"""Makes of the results the answer, lines for a person, and what may differ between runs."""


def run(package: str, runs: Spreader, given: Mapping[str, Any]) -> None:
    """Spread the items of a workload over the workers of a framework, and give the answer.

    Its module `work` has Options, whose fields are the card's own options; `work`, which makes of them a
    :class:`Work`; `combine`, which makes of them and the results the answer and lines for a person; and TOLERANCE.
    """
    module = importlib.import_module(f"{package}.work")
    options = module.Options(**own(given))
    spread(
        runs, module.work(options), given, lambda results: (*module.combine(options, results), module.TOLERANCE), None
    )


def own(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options that are the workload's own."""
    return {name: value for name, value in given.items() if name not in SHARED}


def spread(runs: Spreader, work: Work, given: Mapping[str, Any], combine: Combine, keep: gathering.Keep | None) -> None:
    """Spread the items, and write what `combine` makes of the results."""
    if work.prepare:
        work.prepare()
    doing = Doing(work.function, given["retries"], given["item_seconds"])
    with failures.said(), runs.spread(doing, tasks(work.items, given["chunk"]), How(given["start"])) as done:
        if done is None:
            return
        events.ready()
        with events.phase("compute"):
            results = gathering.gather(done, len(work.items), keep)
        events.used()
        answer, show, tolerance = combine(results)
        events.result(answer, tolerance, show)
        if not os.environ.get("REGATTA_RUN_ID"):
            print("\n".join(show))
