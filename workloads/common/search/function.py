"""``python -m workloads.common.search.function NAME [options]``: a search that a user's project has.

The card of the workload NAME says which function or script, and its table `search` which values: `regatta.toml` of the
current folder has it, or `workloads/NAME/card.toml`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workloads.common import framework, owncard
from workloads.common.search import command

MODULE = "workloads.common.search.function"


def _run(table: Mapping[str, Any], chosen: str, given: dict[str, Any]) -> framework.Leaver:
    runs = framework.load(chosen)
    command.run(table["search"], table.get("function"), given, runs, chosen, table.get("command", ""))
    return runs


if __name__ == "__main__":
    owncard.main(MODULE, _run)
