"""`--sweep lr=0.1,0.01`: one run for each choice of values, and a table of them at the end."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from regatta.errors import RunFailedError, UsageError
from regatta.program import hint
from regatta.tasks.launching import tell_of_queued
from regatta.terminal.table import print_table

if TYPE_CHECKING:
    from regatta.api.cluster import Cluster
    from regatta.records.record import Record
    from regatta.run.request import Request

MOST_RUNS, MOST_ANSWERS = 1000, 4


def choices(sweep: Sequence[str]) -> list[dict[str, str]]:
    """Every choice of one value for each name, of words as `lr=0.1,0.01`. UsageError where a name comes twice."""
    names = [word.partition("=")[0] for word in sweep]
    if twice := {name for name in names if names.count(name) > 1}:
        raise UsageError(f"--sweep: {', '.join(sorted(twice))} is there twice: give all its values at once")
    made = [
        dict(zip(names, values, strict=True))
        for values in itertools.product(*(word.partition("=")[2].split(",") for word in sweep))
    ]
    if len(made) > MOST_RUNS:
        raise UsageError(f"--sweep: that is {len(made)} runs, and {MOST_RUNS} at most are possible: give fewer values")
    return made


def named(given: Mapping[str, Any], number: int) -> dict[str, Any]:
    """The options of one run of a sweep, whose name has its number."""
    return {**given, "name": f"{given['name']}-{number}"} if given.get("name") else dict(given)


def start(
    cluster: "Cluster", sweep: Sequence[str], asked: Callable[[int, dict[str, str]], "Request"], *, detach: bool
) -> None:
    """Put all runs into the queue, or do one after the other; `asked` makes the request of that number and choice."""
    if not detach:
        _carry_out(cluster, sweep, asked)
        return
    for number, chosen in enumerate(choices(sweep), 1):
        print(f"{_words(chosen)}: ", end="", flush=True)
        tell_of_queued(*cluster.enqueue(asked(number, chosen)))


def _carry_out(cluster: "Cluster", sweep: Sequence[str], asked: Callable[[int, dict[str, str]], "Request"]) -> None:
    """Show what came out of all runs. RunFailedError after the last, where some failed."""
    done: list[tuple[dict[str, str], Record | None]] = []
    failed: list[RunFailedError] = []
    for number, chosen in enumerate(wanted := choices(sweep), 1):
        cluster.console.note(f"\nrun {number} of {len(wanted)}: {_words(chosen)}")
        try:
            done.append((chosen, cluster.carry_out(asked(number, chosen))))
        except RunFailedError as error:
            cluster.console.error(str(error))
            done.append((chosen, None))
            failed.append(error)
    print_table(table(done))
    if failed:
        raise RunFailedError(
            f"{len(failed)} of {len(done)} runs failed: {hint('runs', '--failed')}", failed[0].exit_code
        )


def table(done: "Sequence[tuple[Mapping[str, str], Record | None]]") -> list[tuple[str, ...]]:
    """The rows of a sweep: its values, the run, its seconds, and the first numbers of its answer."""
    answers = [record.answer or {} for _, record in done if record]
    told = [name for name, value in (answers[0] if answers else {}).items() if _number(value)][:MOST_ANSWERS]
    rows = [(*(done[0][0]), "run", "seconds", *told)]
    for chosen, record in done:
        if record is None:
            rows.append((*chosen.values(), "failed", "-", *("-" for _ in told)))
            continue
        seconds = "-" if record.phases.total is None else f"{record.phases.total:.1f}"
        own = record.answer or {}
        numbers = (f"{own[name]:.6g}" if _number(own.get(name)) else "-" for name in told)
        rows.append((*chosen.values(), record.run_id, seconds, *numbers))
    return rows


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _words(chosen: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in chosen.items())
