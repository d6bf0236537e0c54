"""Pictures of a study: time over ranks by what happens to the batch, and accuracy over time by configuration."""

import re
from collections.abc import Iterator, Sequence

from regatta.report import accuracy, specs
from regatta.report.across import Picture, Row
from regatta.report.studies import Point, Series, Study, studies
from regatta.report.summary import Summary


def pictures(summaries: Sequence[Summary]) -> list[Picture]:
    """All that there is to draw of studies."""
    return [picture for number, study in enumerate(studies(summaries), 1) for picture in _of(study, number)]


def _of(study: Study, number: int) -> Iterator[Picture]:
    name = re.sub(r"[^a-z0-9]+", "-", f"{study.workload} {study.title}".lower()).strip("-")[:50]
    if rows := times(study):
        yield Picture(
            "scaling",
            f"{name}-ranks-{number}",
            f"{study.workload}, {study.title}: more ranks",
            "End to end, medians with 95 % intervals. Solid: a batch that all ranks share; dashed: one that grows with "
            "them; dotted: one process with the shared one. Pale: ranks share cores.",
            specs.SCALING,
            tuple(rows),
        )
    if rows := learning(study):
        yield Picture(
            "learning",
            f"{name}-learning-{number}",
            f"{study.workload}, {study.title}: accuracy over time",
            "On rows that were not learned from, of the latest run of each configuration. Dashed: the single process.",
            specs.LEARNING,
            tuple(rows),
        )


def times(study: Study) -> list[Row]:
    """Median seconds of each point of each series; and those of the single process, for each batch that is shared."""
    every = [series for framework in study.frameworks for series in study.series(framework)]
    return [*_alone(study, every), *(_point(series, point) for series in every for point in series.points)]


def _alone(study: Study, every: Sequence[Series]) -> Iterator[Row]:
    for batch in sorted({series.batch for series in every if not series.grows}):
        found = [point for point in study.points if point.configuration.single and point.total == batch]
        if found:
            most = max(found, key=lambda point: len(point.runs))
            seconds = most.summary.time(most.configuration, "total")
            framework = most.configuration.framework
            yield {
                "configuration": accuracy.label(most),
                "framework": framework,
                "alone": True,
                "level": seconds.value if seconds else 0.0,
            }


def learning(study: Study) -> list[Row]:
    """Accuracy over time of the latest run of each point; nothing for synthetic data."""
    if study.synthetic:
        return []
    points = {accuracy.label(p): p for framework in study.frameworks for p in accuracy.chosen(study, framework)}
    rows: list[Row] = [
        {
            "configuration": label,
            "single": point.configuration.single,
            "seconds": seconds,
            "accuracy": value,
            "run": point.runs[-1].run_id,
        }
        for label, point in points.items()
        for seconds, value in accuracy.over_time(point.runs[-1])
    ]
    return rows if len({row["configuration"] for row in rows}) > 1 else []


def _point(series: Series, point: Point) -> Row:
    found = point.summary.time(point.configuration, "total")
    middle = found.value if found else 0.0
    interval = {"low": found.low, "high": found.high} if found and found.low is not None else {}
    shared = any(run.cores_shared for run in point.runs)
    return {
        "configuration": point.configuration.label,
        "framework": series.framework,
        "series": f"{series.framework}, batch {'+' * series.grows}{series.batch}{' scaled' * series.scaled}",
        "batch": "growing batch" if series.grows else "shared batch",
        "at": point.configuration.workers,
        "seconds": middle,
        "level": middle,
        "from": interval.get("low", middle),
        "to": interval.get("high", middle),
        **interval,
        "runs": found.n if found else 0,
        "cores": "shared" if shared else "own",
    }
