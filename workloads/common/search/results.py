"""The results of a search: a table of all trials, the best one and what it has kept; and its answer."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from workloads.common import events
from workloads.common.failures import WorkerFailed
from workloads.common.search.asked import FIXED, Search
from workloads.common.search.trial import Outcome

TABLE, BEST, KEPT = "trials.jsonl", "best.json", "best"
TOLD = 5
"""The number of failed trials that are reported one by one."""
ANY = 1e9


def write(search: Search, outcomes: Sequence[Outcome]) -> tuple[dict[str, Any], list[str], dict[str, float]]:
    """Write the files; gives the answer, lines for a person, and what may differ. Raises :class:`WorkerFailed`.

    A failed trial is reported. If all have failed, the search fails.
    """
    failed = [one for one in outcomes if one.error is not None]
    for one in failed[:TOLD]:
        events.warning(f"trial {one.number + 1} of {len(outcomes)} failed: {one.error} ({_shown(one.point)})")
    if len(failed) > TOLD:
        events.warning(f"{len(failed) - TOLD} more trials failed; {TABLE} has their errors")
    best = _best(search, outcomes)
    if best is None:
        raise WorkerFailed(f"all {len(outcomes)} trials failed: try one by hand; the first one said: {failed[0].error}")
    search.out.mkdir(parents=True, exist_ok=True)
    with (search.out / TABLE).open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(_row(one)) + "\n" for one in outcomes)
    (search.out / BEST).write_text(json.dumps(_row(best), indent=1) + "\n", encoding="utf-8")
    if best.folder:
        shutil.rmtree(search.out / KEPT, ignore_errors=True)
        shutil.copytree(best.folder, search.out / KEPT)
    value = best.reports[-1][search.trial.metric]
    show = [
        f"{search.kind}: {len(outcomes)} trials, {sum(len(one.reports) for one in outcomes)} reports",
        f"best: trial {best.number + 1}, {search.trial.metric} {value:.6g} with {_shown(best.point)}",
        f"{TABLE}, {BEST}{f' and {KEPT}/' if best.folder else ''} are in the run's working directory",
    ]
    whole: dict[str, Any] = {
        "search": search.kind,
        "trials": len(outcomes),
        "metric": search.trial.metric,
        "value": value,
        "values": [one.reports[-1][search.trial.metric] if _ended(one) else None for one in outcomes],
    }
    if search.kind not in FIXED:
        return whole, show, {"value": ANY, "values": ANY}
    told = [[one.number, one.point, one.reports, one.error is None] for one in outcomes]
    whole |= {
        "failed": [one.number for one in failed],
        "best": {"trial": best.number, **best.point},
        "digest": hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest(),
    }
    return whole, show, {}


def share(outcomes: Sequence[Outcome], workers: int, seconds: float) -> str:
    """In words, which share of their time workers spent in trials."""
    spent = sum(one.seconds for one in outcomes)
    return f"trials ran {100 * spent / (workers * seconds):.0f} % of the time of {workers} workers"


def _best(search: Search, outcomes: Sequence[Outcome]) -> Outcome | None:
    """The trial whose last report is the best; of equal ones the first."""

    def value(one: Outcome) -> float:
        last = float(one.reports[-1][search.trial.metric])
        return -math.inf if math.isnan(last) else last if search.largest else -last

    return max(filter(_ended, outcomes), key=value, default=None)


def _ended(one: Outcome) -> bool:
    return one.error is None and bool(one.reports)


def _row(one: Outcome) -> dict[str, Any]:
    row = {key: value for key, value in asdict(one).items() if key != "folder"}
    return {"trial": row.pop("number"), **row, "seconds": round(one.seconds, 3)}


def _shown(point: dict[str, Any]) -> str:
    shown = {name: f"{value:.4g}" if isinstance(value, float) else str(value) for name, value in point.items()}
    return ", ".join(f"{name}={value}" for name, value in shown.items())
