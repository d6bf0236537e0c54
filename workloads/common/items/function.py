"""``python -m workloads.common.items.function NAME [options]``: the function of a user's project over its items.

The card of the workload NAME says which function and which items: `regatta.toml` of the current folder has it, or
`workloads/NAME/card.toml`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from workloads.common import events, framework, owncard
from workloads.common.items import command, inputs, results
from workloads.common.items.called import Called, source_of
from workloads.common.items.kept import Kept
from workloads.common.items.work import Work
from workloads.common.storage import prepared

MODULE = "workloads.common.items.function"
SHOWN = 5


def _run(table: Mapping[str, Any], chosen: str, given: dict[str, Any]) -> framework.Leaver:
    runs = framework.of_items(chosen)
    resume, function = given.pop("resume"), table["function"]
    options = command.own(given)
    items, source = inputs.items(table["items"]), source_of(function)
    kept = Kept(prepared.cache(), function, json.dumps(options, sort_keys=True), items, source)
    known = kept.read() if resume else {}
    if resume:
        events.warning(f"{len(known):,} of {len(items):,} results are those of an earlier run that was interrupted")
    left = [number for number in range(len(items)) if number not in known]
    kept.begin(known)

    def keep(first: int, made: Any) -> None:
        numbers = left[first : first + len(made)]
        known.update(zip(numbers, made, strict=True))
        kept.add(numbers, made)

    def combine(_: list[Any]) -> tuple[dict[str, Any], list[str], dict[str, float]]:
        every = [known[number] for number in range(len(items))]
        files = results.write(items, every)
        kept.end()
        said = [f"{len(items):,} items, results in {' and '.join(map(str, files))} of the run's working directory"]
        shown = [f"{json.dumps(item)}: {result}" for item, result in zip(items[:SHOWN], every, strict=False)]
        digest = hashlib.sha256("\n".join(every).encode()).hexdigest()
        return {"items": len(items), "digest": digest}, [*said, *shown], {}

    work = Work(Called(function, options, "grid" in table["items"]), [items[number] for number in left])
    command.spread(runs, work, given, combine, keep)
    return runs


if __name__ == "__main__":
    owncard.main(MODULE, _run)
