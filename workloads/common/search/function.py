"""``python -m workloads.common.search.function NAME [options]``: a search that a user's project has.

The card of the workload NAME says which function or script, and its table `search` which values: `regatta.toml` of the
current folder has it, or `workloads/NAME/card.toml`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from workloads.common import cardfile, commandline, events, framework
from workloads.common.search import command

MODULE = "workloads.common.search.function"


def main() -> None:
    """Run with the arguments of the process; bad input ends it with status 2."""
    name = sys.argv.pop(1)
    sys.path.insert(0, "")
    try:
        table = cardfile.of_project(Path(), name)
        card = cardfile.made(table)
        given = vars(commandline.parser(card, f"{MODULE} {name}").parse_args())
        chosen = given.pop("framework")
        chosen = framework.of_environment() if chosen == framework.AUTO else chosen
        runs = framework.load(chosen)
        if wrong := card.fault(given):
            raise events.BadInput(wrong)
        command.run(table["search"], table.get("function"), given, runs, chosen, table.get("command", ""))
    except events.BadInput as error:
        events.bad_input(error)
    runs.leave()


if __name__ == "__main__":
    main()
