"""What `python -m` of a workload does: its command line, the framework that runs it, and its answer."""

from __future__ import annotations

import argparse
import functools
import importlib
import os
from collections.abc import Callable
from typing import Any

from workloads.common import events, framework
from workloads.common.part import Group


def main(
    parser: argparse.ArgumentParser,
    module: str,
    *,
    grouped: Callable[[dict[str, Any]], Group | None] = lambda _: None,
    fault: Callable[[dict[str, Any]], str | None] = lambda _: None,
) -> None:
    """Run a workload with the arguments of the process: `module` has its Options, Part, combine and TOLERANCE.

    It is imported when the arguments are right, which is said sooner than torch is loaded: `fault` says what is wrong
    with how they go together, `grouped` whether and how the parts talk to each other (:class:`Framework`).
    """
    given = vars(parser.parse_args())
    name = given.pop("framework")
    if wrong := fault(given):
        events.bad_input(wrong)
    restarts = given.pop("restarts", 0)
    part = importlib.import_module(module)
    make = functools.partial(part.Part, part.Options(**given))
    try:
        runs = framework.load(framework.of_environment() if name == framework.AUTO else name)
        with runs.answers(make, grouped=grouped(given), restarts=restarts) as parts:
            if parts is not None:
                answer, show = part.combine(parts)
                events.result(answer, part.TOLERANCE, show)
                if not os.environ.get("REGATTA_RUN_ID"):
                    print("\n".join(show))
    except events.BadInput as error:
        events.bad_input(error)
    runs.leave()
