"""A `run-NAME` task for each workload, made from its card (imports: see `regatta.tasks.runs`)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regatta.cards import discovery, values
from regatta.cards.card import Option, Value, Workload
from regatta.errors import CardError, UsageError
from regatta.frameworks import table
from regatta.options import declaration
from regatta.options.declaration import CHECKPOINT
from regatta.options.kinds import SWITCH, TEXT
from regatta.options.option import RUN, typed
from regatta.options.option import Option as Declared
from regatta.tasks import sweeping
from regatta.tasks.launching import advising, command, opened, tell_of_input, tell_of_queued
from regatta_protocol.cards import FLAGS

if TYPE_CHECKING:
    from regatta.api.cluster import Cluster
    from regatta.records.record import Record
    from regatta.run.request import Request
    from regatta.terminal.console import Console


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
    of_runs = declaration.of(RUN, checkpoints=card.checkpoints)
    flags = {
        **of_runs,
        "framework": replace(of_runs["framework"], help=f"{names} (default {compared})"),
        **{name: _flag(option) for name, option in options.items()},
        **({CHECKPOINT.name: CHECKPOINT} if card.checkpoints else {}),
    }
    if card.input and card.input.default:
        own = flags[card.input.option]
        flags[card.input.option] = replace(own, help=f"{own.help} (default: {card.input.default.about})")
    about = f"{card.about}: timed, recorded, compared."
    return command(f"run-{workload.name}", about, flags, lambda words: _run(workload, words))


def _flag(option: Option) -> Declared:
    usual = None if option.default is False else option.default
    text = f"{option.help}: {', '.join(option.choices)}" if option.choices and ":" not in option.help else option.help
    text = f"{text} (default {usual})" if usual is not None else text
    return Declared(text or option.kind, SWITCH if option.kind in FLAGS else TEXT)


def _run(workload: Workload, words: Mapping[str, Any]) -> None:
    from regatta.api.requests import OF_CLUSTER

    card = workload.card
    given = typed(declaration.of(RUN, checkpoints=card.checkpoints), words)
    where = {name: given.pop(name) for name in OF_CLUSTER if name in given}
    shown = given.pop("json", None)
    own = {name: _value(name, option, words) for name, option in card.offered.items()}
    own |= {name: words.get(name) for name in (*([card.input.option] if card.input else []), CHECKPOINT.name)}
    with opened(**where) as cluster, advising(cluster.remote.cluster):
        tell_of_input(cluster.console.warn)
        if sweep := given.pop("sweep", ()):
            _sweep(cluster, workload, sweep, own, given)
            return
        if given.get("detach"):
            tell_of_queued(*cluster.submit_workload(workload.name, **own, **given))
            return
        show(cluster.console, cluster.compare(workload.name, **own, **given), shown)


def _sweep(
    cluster: "Cluster", workload: Workload, sweep: Sequence[str], own: Mapping[str, Any], given: Mapping[str, Any]
) -> None:
    offered = {name.replace("_", "-"): name for name in own}
    if wrong := [name for chosen in sweeping.choices(sweep)[:1] for name in chosen if name not in offered]:
        raise UsageError(f"--sweep: {workload.name} has no option {wrong[0]}: it has {', '.join(offered)}")

    def asked(number: int, chosen: dict[str, str]) -> "Request":
        """The request of one run."""
        card = workload.card.offered
        words = {offered[name]: value for name, value in chosen.items()}
        own_words = {name: _value(name, card[name], words) if name in card else words[name] for name in words}
        return cluster.request(workload.name, **{**own, **own_words}, **sweeping.named(given, number))

    sweeping.start(cluster, sweep, asked, detach=bool(given.get("detach")))


def _value(name: str, option: Option, words: Mapping[str, Any]) -> Value | None:
    text = words[name]
    return None if text is None or text is False else values.typed(name, option, text)


def show(console: "Console", done: "dict[str, list[Record]]", json: Path | None) -> None:
    """The answer, then the comparison, which also goes to the file `json`."""
    from regatta.records import compare
    from regatta.terminal import comparison

    first = next(records[-1] for records in done.values())
    console.note("\n".join(["", *first.show]))
    every = [record for records in done.values() for record in records]
    if json is None and len(done) > 1 and all(record.answer is None for record in every):
        for label, records in done.items():  # times of what prints no answer are compared with no others
            comparison.show(compare.compare({label: records}), console)
        return
    result = compare.compare(done)
    if json:
        from regatta.tasks import shown

        comparison.write_json(shown.text(shown.comparison(result)), json)
    comparison.show(result, console)
