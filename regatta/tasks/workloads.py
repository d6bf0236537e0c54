"""A `run-NAME` task for each workload, made from its card (imports: see `regatta.tasks.runs`)."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regatta.cards import discovery, values
from regatta.cards.card import Option, Value, Workload
from regatta.errors import CardError, UsageError
from regatta.frameworks import table
from regatta.tasks.common import whole
from regatta.tasks.launching import LAUNCH, Flag, Launch, command
from regatta.tasks.runs import session

if TYPE_CHECKING:
    from regatta.experiments.invocation import Invocation
    from regatta.records.record import Record
    from regatta.run.session import Session

COMPARE = {
    "repeats": Flag("runs under each framework, in turns (default 1)", "1"),
    "json": Flag("write the comparison to this file"),
    "no_single": Flag("leave out the single process that the cluster has to beat", False),
    "launcher": Flag("how torch ranks meet: env, static or c10d (default env; with --restarts c10d)"),
}
GOING_ON = {
    "checkpoint": Flag(
        "where rank 0 keeps its state after each epoch, to go on from; hdfs:// and s3:// too; {run} is the run's id"
    ),
    "restarts": Flag("start lost ranks again so many times; they go on from the checkpoint (torch: --launcher c10d)"),
    "elastic": Flag(
        "go on without hosts that are lost, as many times (default 1), from the checkpoint, then in HDFS", False
    ),
}


def tasks() -> list[Any]:
    """A task for each of Regatta's workloads, and for those of the project around this folder.

    A project whose cards are damaged has none; `regatta run` says what is wrong with them.
    """
    try:
        found = discovery.every(Path.cwd())
    except CardError:
        found = discovery.ours()
    return [_made(workload) for workload in found.values()]


def _made(workload: Workload) -> Any:
    """The task that runs a workload: its flags and their help are those of the card, and those of every run."""
    card = workload.card
    given = {card.input.option: card.options[card.input.option]} if card.input else {}
    options: Mapping[str, Option] = {**given, **card.offered}
    compared, both = table.usual(card.frameworks), f"{table.BOTH}: {' and '.join(table.OF_BOTH)}"
    names = f"{', '.join(card.frameworks)}: one, or several with commas between; {both}; {table.ALL}"
    flags = {
        "framework": Flag(f"{names} (default {compared})", compared),
        **{name: _flag(option) for name, option in options.items()},
        **(GOING_ON if card.checkpoints else {}),
        **COMPARE,
        **LAUNCH,
    }
    if card.input and card.input.default:
        own = flags[card.input.option]
        flags[card.input.option] = Flag(f"{own.help} (default: {card.input.default.about})")
    about = f"{card.about}: timed, recorded, compared."
    return command(f"run-{workload.name}", about, flags, lambda typed: _run(workload, typed))


def _flag(option: Option) -> Flag:
    usual = None if option.default is False else option.default
    text = f"{option.help}: {', '.join(option.choices)}" if option.choices and ":" not in option.help else option.help
    text = f"{text} (default {usual})" if usual is not None else text
    return Flag(text or option.kind, False if option.kind in values.FLAGS else None)


def _run(workload: Workload, typed: Mapping[str, Any]) -> None:
    from regatta.experiments import job
    from regatta.experiments.invocation import Invocation
    from regatta.frameworks import choice, plan, registry

    card, launch = workload.card, Launch.of(typed)
    times = whole("repeats", typed["repeats"]) or 1
    lost = whole("restarts", typed.get("restarts")) or int(typed.get("elastic", False))
    asked = Invocation(
        workload,
        {name: value for name, option in card.offered.items() if (value := _value(name, option, typed)) is not None},
        typed[card.input.option] if card.input else None,
        typed.get("checkpoint"),
        lost,
        typed.get("elastic", False),
    )
    program = plan.Program((), workload.name)
    more = {"launcher": typed["launcher"], "restarts": lost, "elastic": asked.elastic}
    base = launch.request(program, card.frameworks[0], workload.root, **more)
    with session(launch.inventory, launch.hosts) as made:
        frameworks = choice.chosen(typed["framework"], card.frameworks, made.cluster)
        frameworks = able(asked, frameworks, made.console.note if typed["framework"] == table.ALL else None)
        choice.check_launcher(typed["launcher"], frameworks)
        if typed["framework"] == table.BOTH and not typed["no_single"]:
            alone = [name for name in card.frameworks if registry.of_run(name).single]
            frameworks = (*alone, *frameworks)
        done = job.run(made, asked, frameworks, workers=launch.workers, repeats=times, request=base)
        _show(made, done, typed["json"])


def able(asked: "Invocation", frameworks: tuple[str, ...], say: Callable[[str], None] | None) -> tuple[str, ...]:
    """The frameworks that can do what is asked; `say` gets a line about each of the others. UsageError without it, and
    where none is left."""
    lacking = {name: wrong for name in frameworks if (wrong := asked.unsupported(name))}
    if lacking and (say is None or len(lacking) == len(frameworks)):
        raise UsageError(next(iter(lacking.values())))
    for name, wrong in lacking.items():
        if say:
            say(f"without {name}: {wrong}")
    return tuple(name for name in frameworks if name not in lacking)


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
