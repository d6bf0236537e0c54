"""Runs ``python -m MODULE NAME [options]`` where the workload NAME is a card of a user's project."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from workloads.common import cardfile, commandline, events, framework
from workloads.common.framework import Leaver

Do = Callable[[Mapping[str, Any], str, dict[str, Any]], Leaver]
"""Does the work of a card's table under a framework of this name, with its options; gives the framework's module."""


def main(module: str, do: Do) -> None:
    """Run with the arguments of the process; bad input ends it with status 2."""
    name = sys.argv.pop(1)
    sys.path.insert(0, "")
    try:
        table = cardfile.of_project(Path(), name)
        card = cardfile.made(table)
        given = vars(commandline.parser(card, f"{module} {name}").parse_args())
        chosen = given.pop("framework")
        chosen = framework.of_environment() if chosen == framework.AUTO else chosen
        if wrong := card.fault(given, chosen):
            raise events.BadInput(wrong)
        runs = do(table, chosen, given)
    except events.BadInput as error:
        events.bad_input(error)
    runs.leave()
