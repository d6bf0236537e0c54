"""Plans of Regatta's as files of one repeat with little data: whether a plan works, not how fast."""

import json
from pathlib import Path
from typing import Any

from regatta.experiments import plan_file, plans
from regatta.records.store import Store

ROWS = {
    "cifar": 96,
    "cube": 20,
    "digits": 192,
    "images": 96,
    "perfect": 500,
    "pi": 20_000,
    "ppr": 2_000,
    "render": 2,
    "render-words": 2,
    "stars": 2_000,
    "task-length": 4,
    "tf-digits": 192,
    "tune": 2,
}
"""Rows, frames or numbers of an experiment, by its workload."""
FEWER = {"epochs": 1, "batch": 24, "global_batch": 48, "calls": 20, "largest_mb": 1, "milliseconds": 1.0, "chunk": 50}
"""What makes a run shorter, where a plan says it."""
OF_SPARK = ("bigdl-growing", "bigdl-jobs", "bigdl-pictures")
"""Plans that compare nothing where there is no Spark."""


def scaled(name: str) -> str:
    """The plan as a file: one repeat for two workers, little data, and what is alike then only once."""
    plan = plan_file.load(name)
    tables: dict[str, str] = {}
    for one in plan.experiments:
        inner = "\n".join(f"{key} = {json.dumps(value)}" for key, value in _keys(one).items())
        inline = ", ".join(f"{key} = {json.dumps(FEWER.get(key, value))}" for key, value in one.parameters.items())
        tables.setdefault(f"{inner}\nparameters = {{ {inline} }}", f'[[experiments]]\nname = "{one.name}"')
    head = f'about = {json.dumps(plan.about)}\nrepeats = 1\ncache = "cold"\nbudget_minutes = 30'
    return "\n".join([head, *(f"{name}\n{table}" for table, name in tables.items())]) + "\n"


def _keys(one: plans.Experiment) -> dict[str, Any]:
    keys: dict[str, Any] = {"workload": one.of.name, "workers": [2]}
    keys |= {"data": one.data} if one.data else {}
    keys |= {"sizes": [ROWS[one.of.name]]} if one.sizes != (None,) else {}
    keys |= {"weak": True} if one.weak else {}
    keys |= {"frameworks": [name for name in one.frameworks if name != "single"]}
    return keys | ({} if "single" in one.frameworks else {"no_single": True})


def ran(results: Path) -> list[tuple[str, str, str]]:
    """What ran: point of the plan, framework and how it ended."""
    records = Store(results).list().records
    return sorted((str(run.series.point), run.identity.framework, run.exit.state) for run in records if run.series)
