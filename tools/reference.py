"""`make docs`: writes docs/reference.md, from the cards, and the schemas of a card and of a record, from types."""

from pathlib import Path
from typing import Any

from msgspec import json

from regatta.cards import card as cards
from regatta.cards import discovery
from regatta.cards.card import Option, Workload, flag
from regatta.records import record

PROJECT = Path(__file__).resolve().parents[1]
HEAD = """# Workloads: reference

Made by `make docs` from the cards (`workloads/*/card.toml`): edit those, not this. What the workloads do is in
[workloads.md](workloads.md), what a card may say in [cards.md](cards.md). Flags that all `run` commands have are in
`fab run-NAME --help`.
"""


def page() -> str:
    """docs/reference.md: a part for each of Regatta's workloads."""
    return "\n".join([HEAD, *(line for workload in discovery.ours().values() for line in _workload(workload))])


def schemas() -> dict[str, str]:
    """JSON schemas, by their file in the project."""
    made: dict[str, dict[str, Any]] = {
        "regatta/cards/card.schema.json": cards.schema(),
        "regatta/records/schemas/record.schema.json": record.schema(),
    }
    return {path: json.format(json.encode(schema), indent=1).decode() + "\n" for path, schema in made.items()}


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
