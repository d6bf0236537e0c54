"""`make docs`: writes docs/reference.md from declared options and cards, schemas of cards and records from types."""

from pathlib import Path
from typing import Any

from msgspec import json

from regatta.cards import card as cards
from regatta.cards import discovery
from regatta.cards.card import Option, Workload, flag
from regatta.options.declaration import OF_COMPARISONS, OF_RUNS
from regatta.options.option import EVERY
from regatta.options.option import Option as Declared
from regatta.records import record

PROJECT = Path(__file__).resolve().parents[1]
HEAD = """# Reference: options

Made by `make docs` from `regatta/options/declaration.py` and the cards (`workloads/*/card.toml`): edit those, not this.
What the workloads do is in [workloads.md](workloads.md), what a card may say in [cards.md](cards.md).

## Options of runs

`all`: `run NAME`, `torchrun`, `rayrun`, `sparkrun` and `bench`, for all runs of a plan. What is typed comes first, then
what an experiment of the plan says, the plan, and `regatta.toml`. With a star, what `regatta.toml` says is not for the
runs of a plan.

| option | kind | default | commands | in a plan | in `regatta.toml` | meaning |
|---|---|---|---|---|---|---|"""


def page() -> str:
    """docs/reference.md: the options of runs, and a part for each of Regatta's workloads."""
    options = [_option(one) for one in {**OF_RUNS, **OF_COMPARISONS}.values()]
    workloads = [line for workload in discovery.ours().values() for line in _workload(workload)]
    return "\n".join([HEAD, *options, "", *workloads])


def schemas() -> dict[str, str]:
    """JSON schemas, by their file in the project."""
    made: dict[str, dict[str, Any]] = {
        "regatta/cards/card.schema.json": cards.schema(),
        "regatta/records/schemas/record.schema.json": record.schema(),
    }
    return {path: json.format(json.encode(schema), indent=1).decode() + "\n" for path, schema in made.items()}


def _option(one: Declared) -> str:
    commands = "all" if one.commands == EVERY else ", ".join(f"`{name}`" for name in EVERY if name in one.commands)
    usual = f"`{one.usual}`" if one.usual else ""
    plan, project = f"`{one.key}`" if one.plan else "", f"`{one.project}`" if one.project else ""
    project += "" if one.timed or not project else " *"
    meaning = (one.help or "the frameworks that are compared").replace("|", "\\|")
    return f"| `{one.flag}` | {one.kind.about} | {usual} | {commands} | {plan} | {project} | {meaning} |"


def _workload(workload: Workload) -> list[str]:
    card = workload.card
    lines = [
        f"## {workload.name}",
        "",
        f"{card.about}. Under {', '.join(card.frameworks)}; sizes count {card.unit}.",
        "",
    ]
    lines += ["| option | kind | default | meaning |", "|---|---|---|---|"]
    lines += [_row(name, option) for name, option in card.options.items() if not option.hidden]
    hidden = [(name, option) for name, option in card.options.items() if option.hidden]
    if hidden:
        lines += [
            "",
            f"By hand (`python -m {card.module}`) also:",
            "",
            "| option | kind | default | meaning |",
            "|---|---|---|---|",
        ]
        lines += [_row(name, option) for name, option in hidden]
    if card.generate:
        lines += ["", f"`fab data-gen {card.generate.kind} --size N` makes input of N {card.unit}."]
    for given in card.published:
        words = ", ".join(f"{name} = {value}" for name, value in given.parameters.items())
        lines += ["", f"Published: {given.source}. For {words}, on other hardware:", ""]
        lines += [f"| {card.unit} | framework | workers | time |", "|---|---|---|---|"]
        lines += [f"| {one.size or 0:,} | {one.framework} | {one.workers} | {one.time} |" for one in given.figures]
    return [*lines, ""]


def _row(name: str, option: Option) -> str:
    kind = ", ".join(option.choices) or {"ranks": "true or false"}.get(option.kind, option.kind)
    bounds = [("at least", option.least), ("above", option.above), ("below", option.below)]
    kind += "".join(f", {word} {value:g}" for word, value in bounds if value is not None)
    usual = "" if option.default is None else f"`{option.default}`"
    total = f"; in a plan `{option.total}`: of all ranks together" if option.total else ""
    return (
        f"| `{flag(name)}` | {kind} | {usual or ('must be given' if option.required else '')} | {option.help}{total} |"
    )


def main() -> None:
    """Write all of it."""
    for path, text in {"docs/reference.md": page(), **schemas()}.items():
        (PROJECT / path).write_text(text)


if __name__ == "__main__":
    main()
