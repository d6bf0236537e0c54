"""Runs ``python -m`` of a workload: its command line, the framework that runs it, and its answer."""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Mapping
from typing import Any

from workloads.common import cardfile, commandline, events, framework
from workloads.common.card import Card
from workloads.common.items import command as items
from workloads.common.search import command as search


def main(package: str) -> None:
    """Run the workload in `package` with the arguments of the process; bad input ends it with status 2.

    Its `card.toml` has the command line, and says whether the workload is made of items, of trials or of parts.
    """
    try:
        own = cardfile.of_package(package)
        given = vars(commandline.parser(own, package).parse_args())
        name = given.pop("framework")
        name = framework.of_environment() if name == framework.AUTO else name
        os.environ[framework.VARIABLE] = name  # what a person has named counts for the ranks, too
        runs: framework.Leaver
        if own.items:
            runs = spreader = framework.of_items(name)
            _check(own, given, name)
            items.run(package, spreader, given)
        elif own.search:
            runs = framework.load(name)
            _check(own, given, name)
            table = cardfile.whole(cardfile.path(package))["search"]
            search.run(table, f"{package}.trial:train", given, runs, name)
        else:
            runs = parts = framework.of_parts(name)
            _check(own, given, name)
            _run(package, own, parts, given)
    except events.BadInput as error:
        events.bad_input(error)
    runs.leave()


def _check(card: Card, given: Mapping[str, Any], framework: str) -> None:
    if wrong := card.fault(given, framework):
        raise events.BadInput(wrong)


def _run(package: str, card: Card, runs: framework.Framework, given: dict[str, Any]) -> None:
    """Run the parts of a workload.

    Its module `part` has Options, whose fields are the card's options, Part, combine and TOLERANCE, or, where that
    depends on them, tolerance(options). It is imported when the arguments are right, so that bad ones are reported
    before torch loads. The option `restarts`, where there is one, is the framework's.
    """
    group, restarts = card.group_of(given), given.pop("restarts", 0)
    part = importlib.import_module(f"{package}.part")
    options = part.Options(**given)
    make = functools.partial(part.Part, options)
    tolerance = part.tolerance(options) if hasattr(part, "tolerance") else part.TOLERANCE
    with runs.answers(make, grouped=group, restarts=restarts) as parts:
        if parts is not None:
            answer, show = part.combine(parts)
            events.result(answer, tolerance, show)
            if not os.environ.get("REGATTA_RUN_ID"):
                print("\n".join(show))
