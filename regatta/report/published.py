"""Published figures, with runs that did the same or a scaled form of it. Other hardware: not compared."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from regatta.cards import reading, values
from regatta.records.record import Record
from regatta.report.cases import Case, Configuration, card_of


@dataclass(frozen=True)
class Figure:
    """Published seconds, and of what size (the workload's units), where that is known."""

    seconds: float
    size: int | None


def figures(case: Case) -> Mapping[Configuration, Figure]:
    """The figures that the runs' plan gives for each configuration, else those of the workload's card for the same."""
    return dict(_figures(case))


def size(case: Case) -> int | None:
    """Units of the case's input, such as edges or rows, where its parameters tell them."""
    card = card_of(case.workload)
    named = card.size if card and card.size else "size"
    told = str(case.parameters.get("size") or options_of(case).get(named))
    return int(told) if told.isdecimal() else None


def length(case: Case) -> float | None:
    """Seconds that each item of the case takes of a core, where its card names the option for that."""
    card = card_of(case.workload)
    if card is None or card.length is None:
        return None
    told = options_of(case).get(card.length, card.options[card.length].default)
    try:
        return float(str(told)) / 1000
    except ValueError:
        return None


def method(case: Case) -> tuple[tuple[str, str, str], str | None]:
    """Return what tells the case from others but for its method, and which that is; None where its card has no
    methods.
    """
    card = card_of(case.workload)
    given = options_of(case)
    ways = {name: option for name, option in card.options.items() if option.way} if card else {}
    rest = {name: value for name, value in given.items() if name not in ways}
    key = (case.workload, case.cluster, f"{case.parameters.get('size')} {_said(rest)}")
    return key, next((given.get(name, str(option.default)) for name, option in ways.items() if option.choices), None)


def unit(case: Case) -> str:
    """Return what a size of the case's workload counts: edges, rows; nothing where its card is not known here."""
    card = card_of(case.workload)
    return card.unit if card else ""


def describe(case: Case, figures: Mapping[Configuration, Figure]) -> str:
    """`stars, 100,000 rows, epochs=3, batch=128`; and what the figures are of, where ours is a scaled form of it."""
    own = size(case)
    others = sorted({figure.size for figure in figures.values() if figure.size and figure.size != own})
    words = [f"{name}={value}" if value else name for name, value in options_of(case).items() if name != "size"]
    scaled = [f"scaled: published of {' and '.join(f'{other:,}' for other in others)}"] if others else []
    return ", ".join([case.workload, *([f"{own:,} {unit(case)}"] if own else []), *words, *scaled])


def _figures(case: Case) -> Iterator[tuple[Configuration, Figure]]:
    of_card = _of_card(case)
    for group in case.groups:
        found = next((figure for run in reversed(group.runs) if (figure := _of_run(run, size(case)))), None)
        found = found or of_card.get(group.configuration)
        if found:
            yield group.configuration, found


def _of_run(run: Record, own: int | None) -> Figure | None:
    series = run.series
    if series is None or series.published is None:
        return None
    return Figure(series.published, series.published_size or own)


def _of_card(case: Case) -> Mapping[Configuration, Figure]:
    """The card's figures for the size and options of a case."""
    card, own, asked = card_of(case.workload), size(case), _said(options_of(case))
    return {
        Configuration(one.workers, one.framework): Figure(reading.seconds(one.time) or 0.0, one.size)
        for given in (card.published if card else ())
        for one in given.figures
        if card and one.size == own and _said(_parsed(values.words(card, given.parameters, one.workers))) == asked
    }


def options_of(case: Case) -> dict[str, str]:
    """The options that the case was run with, by name as on its command line (`test-every`)."""
    words = case.parameters.get("options")
    return _parsed(words) if isinstance(words, list) else {}


def _parsed(words: list[str]) -> dict[str, str]:
    pairs = (str(word).removeprefix("--").partition("=") for word in words)
    return {name: value for name, _, value in pairs}


def _said(options: Mapping[str, str]) -> str:
    return " ".join(sorted(f"{name}={value}" for name, value in options.items() if name != "size"))
