"""A `run-NAME` task for each workload, made from its card (imports: see `regatta.tasks.runs`)."""

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from invoke.context import Context

from regatta.cards import shelf, values
from regatta.cards.card import Option, Value, Workload
from regatta.errors import CardError
from regatta.tasks.common import seconds, task, whole
from regatta.tasks.runs import LAUNCH_HELP, session

if TYPE_CHECKING:
    from regatta.records.record import Record
    from regatta.run.session import Session

BEFORE = ("workers", "framework")
AFTER = ("repeats", "json", "no_single", "launcher", "name", "time_limit", "inventory", "nodes", "without", "skip_lost")
GOING_ON = ("checkpoint", "restarts", "elastic")
FLAGS = {"no_single": False, "skip_lost": False, "elastic": False}
"""Flags of all these tasks that take no value."""
HELP = {
    **LAUNCH_HELP,
    "framework": "{names}: one, or several with commas between; both: torch and ray; all (default {usual})",
    "repeats": "runs under each framework, in turns (default 1)",
    "json": "write the comparison to this file",
    "no-single": "leave out the single process that the cluster has to beat",
    "launcher": "how torch ranks meet: env, static or c10d (default env; with --restarts c10d)",
}
GOING_ON_HELP = {
    "checkpoint": "where rank 0 keeps its state after each epoch, to go on from; hdfs:// too; {run} is the run's id",
    "restarts": "start lost ranks again so many times; they go on from the checkpoint (torch: --launcher c10d)",
    "elastic": "go on without hosts that are lost, as many times (default 1), from the checkpoint, then in HDFS",
}


def tasks() -> list[Any]:
    """A task for each of Regatta's workloads, and for those of the project around this folder.

    A project whose cards are damaged has none; `regatta run` says what is wrong with them.
    """
    try:
        found = shelf.every(Path.cwd())
    except CardError:
        found = shelf.ours()
    return [_made(workload) for workload in found.values()]


def _made(workload: Workload) -> Any:
    """The task that runs a workload: its flags and their help are those of the card, and those of every run."""
    card = workload.card
    given = {card.input.option: card.options[card.input.option]} if card.input else {}
    options: Mapping[str, Option] = {**given, **card.offered}
    compared = "both" if {"torch", "ray"} <= {*card.frameworks} else "all"
    names = [*BEFORE, *options, *(GOING_ON if card.checkpoints else ()), *AFTER]

    def body(c: Context, **typed: Any) -> None:
        _run(workload, options, typed)

    body.__doc__ = f"{card.about}: timed, recorded, compared."
    parameters = [inspect.Parameter("c", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    for name in names:
        flag = name in FLAGS or (name in options and options[name].kind in values.FLAGS)
        usual: str | bool | None = False if flag else {"framework": compared, "repeats": "1"}.get(name)
        parameters.append(inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=usual))
    body.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    help = {
        **HELP,
        "framework": HELP["framework"].format(names=", ".join(card.frameworks), usual=compared),
        **(GOING_ON_HELP if card.checkpoints else {}),
        **{name.replace("_", "-"): _help(option) for name, option in options.items()},
    }
    if card.input and card.input.default:
        help[card.input.option.replace("_", "-")] += f" (default: {card.input.default.about})"
    return task(name=f"run-{workload.name}", help=help)(body)


def _help(option: Option) -> str:
    usual = None if option.default is False else option.default
    text = f"{option.help}: {', '.join(option.choices)}" if option.choices and ":" not in option.help else option.help
    return f"{text} (default {usual})" if usual is not None else text


def _run(workload: Workload, options: Mapping[str, Option], typed: Mapping[str, Any]) -> None:
    from regatta.experiments import job
    from regatta.experiments.asked import Asked
    from regatta.frameworks import choice, plan, registry
    from regatta.hosts.selection import Selection
    from regatta.run.request import Request

    card = workload.card
    wanted, times = whole("workers", typed["workers"]), whole("repeats", typed["repeats"]) or 1
    limit = seconds("time-limit", typed["time_limit"])
    lost = whole("restarts", typed.get("restarts")) or int(typed.get("elastic", False))
    asked = Asked(
        workload,
        {name: value for name, option in card.offered.items() if (value := _value(name, option, typed)) is not None},
        typed[card.input.option] if card.input else None,
        typed.get("checkpoint"),
        lost,
        typed.get("elastic", False),
    )
    base = Request(
        plan.Program((), workload.name),
        card.frameworks[0],
        workload.root,
        name=typed["name"],
        launcher=typed["launcher"],
        time_limit=limit,
        restarts=lost,
        elastic=asked.elastic,
    )
    hosts = Selection(typed["nodes"], typed["without"], typed["skip_lost"])
    with session(typed["inventory"], hosts) as made:
        frameworks = choice.chosen(typed["framework"], card.frameworks, made.cluster)
        choice.check_launcher(typed["launcher"], frameworks)
        if typed["framework"] == choice.BOTH and not typed["no_single"]:
            alone = [name for name in card.frameworks if registry.of_run(name).single]
            frameworks = (*alone, *frameworks)
        done = job.run(made, asked, frameworks, workers=wanted, repeats=times, request=base)
        _show(made, done, typed["json"])


def _value(name: str, option: Option, typed: Mapping[str, Any]) -> Value | None:
    text = typed[name]
    return None if text is None or text is False else values.typed(name, option, text)


def _show(made: "Session", done: "dict[str, list[Record]]", json: str | None) -> None:
    """The answer, then the comparison, which also goes to the file `json`."""
    from regatta.records import compare
    from regatta.terminal import comparison

    shown = next(records[-1] for records in done.values())
    made.console.note("\n".join(["", *shown.show]))
    every = [record for records in done.values() for record in records]
    if json is None and len(done) > 1 and all(record.answer is None for record in every):
        for label, records in done.items():  # times of what prints no answer stand beside no others
            comparison.show(compare.compare({label: records}), made.console)
        return
    result = compare.compare(done)
    if json:
        comparison.write_json(result, Path(json))
    comparison.show(result, made.console)
