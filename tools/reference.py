"""`make docs`: writes docs/reference.md from declared options, cards and errors, JSON schemas from types."""

from pathlib import Path
from typing import Any

from msgspec import json

from regatta.cards import card as cards
from regatta.cards import discovery
from regatta.cards.card import Option, Workload, flag
from regatta.errors import RegattaError, RunFailedError
from regatta.options.declaration import OF_COMPARISONS, OF_RUNS
from regatta.options.option import EVERY
from regatta.options.option import Option as Declared
from regatta.provisioning.verified import Verified
from regatta.records import record
from regatta.tasks import shown
from regatta.tasks.common import INTERRUPTED

PROJECT = Path(__file__).resolve().parents[1]
HEAD = """# Reference: options

Made by `make docs` from `regatta/options/declaration.py`, the cards (`workloads/*/card.toml`) and `regatta/errors.py`
(the exit codes at its end): edit those, not this.
What the workloads do is in [workloads.md](workloads.md), what a card may say in [cards.md](cards.md).

## Options of runs

`all`: `run NAME`, `torchrun`, `rayrun`, `sparkrun` and `bench`, for all runs of a plan. What is typed comes first, then
what an experiment of the plan says, the plan, and `regatta.toml`. With a star, what `regatta.toml` says is not for the
runs of a plan.

| option | kind | default | commands | in a plan | in `regatta.toml` | meaning |
|---|---|---|---|---|---|---|"""


def page() -> str:
    """docs/reference.md: the options of runs, and a part for each of Regatta's workloads, then exit codes."""
    options = [_option(one) for one in {**OF_RUNS, **OF_COMPARISONS}.values()]
    workloads = [line for workload in discovery.ours().values() for line in _workload(workload)]
    return "\n".join([HEAD, *options, "", *workloads, *_exit_codes()])


def _exit_codes() -> list[str]:
    """A row for each error that a command ends with; RunFailedError has the code of the run."""
    found = [RegattaError, *_below(RegattaError)]
    lines = ["## Exit codes", "", "| code | error | when |", "|---|---|---|", "| 0 | | it is done |"]
    rows = []
    for one in found:
        code = "the run's, or 1" if one is RunFailedError else str(one.exit_code)
        about = str(one.__doc__).partition(".")[0]
        rows.append(f"| {code} | `{one.__name__}` | {about} |")
    lines += [row for code in ("2", "the", "1") for row in rows if row.startswith(f"| {code}")]
    interrupted = f"| {INTERRUPTED} | | Ctrl-C; a run that it followed was told to stop |"
    ansible = "| Ansible's | | a command about hosts failed on a host: what ansible-playbook ended with (2, 4) |"
    text = "2 is bad input; 1 is the cluster's, or what stands in the message"
    return [*lines, interrupted, ansible, "", f"{text}; a run that failed passes its own code on.", ""]


def _below(kind: type[RegattaError]) -> list[type[RegattaError]]:
    return [
        one for child in kind.__subclasses__() if child.__module__ == kind.__module__ for one in (child, *_below(child))
    ]


def schemas() -> dict[str, str]:
    """JSON schemas, by their file in the project."""
    made: dict[str, dict[str, Any]] = {
        "regatta/cards/card.schema.json": cards.schema(),
        "regatta/records/schemas/record.schema.json": record.schema(),
    }
    made["regatta/provisioning/schemas/verify.schema.json"] = shown.schema(Verified)
    made |= {f"regatta/tasks/schemas/{name}.schema.json": schema for name, schema in shown.schemas().items()}
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
