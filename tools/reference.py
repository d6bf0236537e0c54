"""`make docs`: writes pages of docs/reference and types of options from declarations, and JSON schemas from types."""

import re
import sys
import textwrap
from pathlib import Path
from typing import Any, get_type_hints

from msgspec import json

from regatta.api.requests import OF_CLUSTER, OF_SEVERAL
from regatta.cards import card as cards
from regatta.cards import discovery
from regatta.cards.card import Figure, Option, Workload, flag
from regatta.options.declaration import OF_COMPARISONS, OF_RUNS, RunOptions
from regatta.options.option import EVERY
from regatta.options.option import Option as Declared
from regatta.provisioning.verified import Checked, Verified
from regatta.records import record
from regatta.tasks import shown
from tools import declared, effort

PROJECT = Path(__file__).resolve().parents[1]
WIDTH = 140
_ALL = ", ".join(f"`{name}`" for name in EVERY)
HEAD = f"""# Options

Made by `make docs` from `regatta/options/declaration.py` and the cards (`workloads/*/card.toml`): edit those.
[Workloads](workloads/index.md) describes what the workloads do, [Cards](cards.md) what a card may say.

## Options of runs

`all`: {_ALL}, which has them for all runs of a plan. Typed values come first, then
what an experiment of the plan says, the plan, and `regatta.toml`. With a star, what `regatta.toml` says is not for the
runs of a plan.

| option | kind | default | commands | in a plan | in `regatta.toml` | meaning |
|---|---|---|---|---|---|---|"""


KEYWORDS = '''\
"""Options of a run as keyword arguments, made by `make docs` from `regatta/options/declaration.py`: edit that."""

from pathlib import Path
from typing import TypedDict


class RunKeywords(TypedDict, total=False):
    """See docs/reference/options.md. One that is missing, or None, is that of `regatta.toml` or its default."""
'''


def page() -> str:
    """Return docs/reference/options.md: the options of runs, and a part for each of Regatta's workloads."""
    options = [_option(one) for one in {**OF_RUNS, **OF_COMPARISONS}.values()]
    workloads = [line for workload in discovery.ours().values() for line in _workload(workload)]
    return "\n".join([HEAD, *options, "", *workloads])


def keywords() -> str:
    """Return regatta/api/keywords.py: the options of a run that a program may give, with their types."""
    given = {name: kind for name, kind in get_type_hints(RunOptions).items() if name not in (*OF_CLUSTER, *OF_SEVERAL)}
    return "\n".join([KEYWORDS, *(f"    {name}: {_taken(kind)}" for name, kind in given.items()), ""])


def _taken(kind: Any) -> str:
    """What a program may give where `RunOptions` has this type."""
    text = kind.__name__ if isinstance(kind, type) else str(kind)
    for own, taken in {"tuple[str, ...]": "list[str] | tuple[str, ...]", "pathlib.Path": "str | Path"}.items():
        text = text.replace(own, taken)
    return text


def schemas() -> dict[str, str]:
    """JSON schemas, by their file in the project."""
    made: dict[str, dict[str, Any]] = {
        "regatta/cards/card.schema.json": cards.schema(),
        "regatta/records/schemas/record.schema.json": record.schema(),
    }
    for name, kind in {"check": Checked, "verify": Verified}.items():
        made[f"regatta/provisioning/schemas/{name}.schema.json"] = shown.schema(kind)
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
    end = "" if card.about.endswith("?") else "."
    lines = [
        f"## {workload.name}",
        "",
        f"{card.about}{end} Under {', '.join(card.frameworks)}; sizes count {card.unit}.",
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
        of = f"For {words}, on" if words else "On"
        reached = [*([f"accuracy {given.accuracy:g}"] if given.accuracy is not None else [])]
        reached += [f"loss {given.loss:g}"] if given.loss is not None else []
        came = f" They came to {' and '.join(reached)}." if reached else ""
        lines += ["", f"Published: {given.source}.{came} {of} other hardware:", ""]
        lines += [f"| {card.unit} | framework | workers | time or speed-up |", "|---|---|---|---|"]
        lines += [f"| {_of_figure(one)} |" for one in given.figures]
    return [*lines, ""]


def _of_figure(one: Figure) -> str:
    size = "any" if one.size is None else f"{one.size:,}"
    return " | ".join([size, one.framework, str(one.workers), one.time or f"{one.speedup:g} times one process"])


def _row(name: str, option: Option) -> str:
    kind = ", ".join(option.choices) or {"ranks": "true or false"}.get(option.kind, option.kind)
    bounds = [("at least", option.least), ("above", option.above), ("below", option.below)]
    kind += "".join(f", {word} {value:g}" for word, value in bounds if value is not None)
    usual = "" if option.default is None else f"`{option.default}`"
    total = f"; in a plan `{option.total}`: of all ranks together" if option.total else ""
    return (
        f"| `{flag(name)}` | {kind} | {usual or ('must be given' if option.required else '')} | {option.help}{total} |"
    )


def written() -> dict[str, str]:
    """Return all that is made from declarations, by its path in the project."""
    pages = {"docs/reference/options.md": page(), "docs/reference/effort.md": effort.page(), **declared.pages()}
    made = {path: wrapped(text) for path, text in pages.items()}
    return {**made, "regatta/api/keywords.py": keywords(), **schemas()}


def wrapped(page: str) -> str:
    """Break the long lines of a page that are prose."""
    prose = re.compile(r"(?![|#<]|    ).*")
    return "\n".join(
        textwrap.fill(line, WIDTH, break_long_words=False, break_on_hyphens=False)
        if len(line) > WIDTH and prose.match(line)
        else line
        for line in page.split("\n")
    )


def main(arguments: list[str]) -> int:
    """Write all of it; with `--check` write nothing, and fail where a file is behind."""
    behind = {path: text for path, text in written().items() if not _stands(PROJECT / path, text)}
    for path, text in behind.items():
        if arguments == ["--check"]:
            print(f"{path} is behind: make docs")
        else:
            (PROJECT / path).write_text(text)
    return int(bool(behind) and arguments == ["--check"])


def _stands(path: Path, text: str) -> bool:
    return path.exists() and path.read_text() == text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
