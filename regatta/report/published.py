"""What others have published, beside runs that did the same or a scaled form of it. Other hardware: not compared."""

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from regatta.experiments import asked, plans
from regatta.records.record import Record
from regatta.report.cases import Case, Configuration

UNITS = {"ppr": "edges", "stars": "rows", "digits": "images"}
_PLAN = "paper"


@dataclass(frozen=True)
class Figure:
    """Published seconds, and of what size (edges, rows, images), where that is known."""

    seconds: float
    size: int | None


def figures(case: Case) -> Mapping[Configuration, Figure]:
    """The figures that the runs' plan gives for each configuration, else those of the plan `paper` for the same."""
    return dict(_figures(case))


def size(case: Case) -> int | None:
    """Edges, rows or images of the case's input, where its parameters tell them."""
    told = str(case.parameters.get("size") or _options(case).get("size"))
    return int(told) if told.isdecimal() else None


def describe(case: Case, figures: Mapping[Configuration, Figure]) -> str:
    """`stars, 100,000 rows, epochs=3, batch=128`; and what the figures are of, where ours is a scaled form of it."""
    own, unit = size(case), UNITS.get(case.workload, "")
    others = sorted({figure.size for figure in figures.values() if figure.size and figure.size != own})
    words = [f"{name}={value}" if value else name for name, value in _options(case).items() if name != "size"]
    scaled = [f"scaled: published of {' and '.join(f'{other:,}' for other in others)}"] if others else []
    return ", ".join([case.workload, *([f"{own:,} {unit}"] if own else []), *words, *scaled])


def _figures(case: Case) -> Iterator[tuple[Configuration, Figure]]:
    paper = _paper()
    same = (case.workload, size(case), _said(_options(case)))
    for group in case.groups:
        found = next((figure for run in reversed(group.runs) if (figure := _of_run(run, size(case)))), None)
        found = found or paper.get((*same, group.configuration))
        if found:
            yield group.configuration, found


def _of_run(run: Record, own: int | None) -> Figure | None:
    series = run.series
    if series is None or series.published is None:
        return None
    return Figure(series.published, series.published_size or own)


@functools.cache
def _paper() -> Mapping[tuple[str, int | None, str, Configuration], Figure]:
    return {
        (
            point.workload,
            point.size,
            _said(_parsed(asked.options(point))),
            Configuration(point.workers, framework),
        ): Figure(point.published[framework], point.size)
        for point in plans.expand(plans.load(_PLAN), 1)
        for framework in point.frameworks
        if framework in point.published
    }


def _options(case: Case) -> dict[str, str]:
    words = case.parameters.get("options")
    return _parsed(words) if isinstance(words, list) else {}


def _parsed(words: list[str]) -> dict[str, str]:
    pairs = (str(word).removeprefix("--").partition("=") for word in words)
    return {name: value for name, _, value in pairs}


def _said(options: Mapping[str, str]) -> str:
    return " ".join(sorted(f"{name}={value}" for name, value in options.items() if name != "size"))
