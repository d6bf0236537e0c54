"""Published figures, with runs that did the same or a scaled form of it. Other hardware: not compared."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from regatta.cards import reading, values
from regatta.cards.card import Figure as CardFigure
from regatta.cards.card import PublishedFigures
from regatta.records.record import SINGLE, Record
from regatta.report.cases import Case, Configuration, card_of


@dataclass(frozen=True)
class Figure:
    """Published seconds, and of what size (the workload's units), where that is known."""

    seconds: float
    size: int | None


@dataclass(frozen=True)
class Besides:
    """What was published of a configuration besides its time; None: it was not. `speedup`: over one process."""

    accuracy: float | None
    loss: float | None
    speedup: float | None


def besides(case: Case) -> Mapping[Configuration, Besides]:
    """What the workload's card has besides times for the options of a case: accuracy and loss for any size, speed-ups
    for its own.
    """
    own, times = size(case), {**_of_card(case), **figures(case)}
    found = {}
    for given, one in _alike(case):
        at = Configuration(one.workers, one.framework)
        alone = times.get(Configuration(one.workers, SINGLE))
        derived = alone.seconds / times[at].seconds if alone and at in times and not at.single else None
        speedup = (one.speedup if one.size in (None, own) else None) or derived
        if any(value is not None for value in (given.accuracy, given.loss, speedup)):
            found[at] = Besides(given.accuracy, given.loss, speedup)
    return found


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
    own = size(case)
    return {
        Configuration(one.workers, one.framework): Figure(seconds, one.size)
        for _, one in _alike(case)
        if one.size == own and (seconds := reading.seconds(one.time or ""))
    }


def _alike(case: Case) -> Iterator[tuple[PublishedFigures, CardFigure]]:
    """The card's figures for the options of a case, of any size."""
    card = card_of(case.workload)
    if card is None:
        return
    asked = values.other(card, options_of(case))
    for given in card.published:
        for one in given.figures:
            if values.other(card, _parsed(values.words(card, given.parameters, one.workers))) == asked:
                yield given, one


def options_of(case: Case) -> dict[str, str]:
    """The options that the case was run with, by name as on its command line (`test-every`)."""
    words = case.parameters.get("options")
    return _parsed(words) if isinstance(words, list) else {}


def _parsed(words: list[str]) -> dict[str, str]:
    pairs = (str(word).removeprefix("--").partition("=") for word in words)
    return {name: value for name, _, value in pairs}


def _said(options: Mapping[str, str]) -> str:
    return " ".join(sorted(f"{name}={value}" for name, value in options.items() if name != "size"))
