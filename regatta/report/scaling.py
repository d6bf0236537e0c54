"""A study's answers, in sentences: do cores help, do nodes, only with a batch that grows, and what does it cost?"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

from regatta.records import compare, stats
from regatta.report import accuracy, texts
from regatta.report.studies import Point, Series, Study, studies
from regatta.report.summary import Summary
from regatta.report.tables import Table

_NOTE = (
    "Times are end to end, medians; ratios are those of geometric means, paired against one process, with 95 % "
    f"intervals from {stats.LEAST_PAIRS} runs on each side. Accuracy is that on rows which were not learned from. "
    "The time to an accuracy counts from when a run's ranks were ready, with what testing on the way takes. Repeats of "
    "a bench have the same seed: what another one would give is not seen."
)


def tables(summaries: Sequence[Summary]) -> Iterator[Table]:
    """A table for each workload with studies: what each of them answers."""
    for workload, some in itertools.groupby(studies(summaries), lambda study: study.workload):
        rows = [(study.title, *row) for study in some for row in answers(study)]
        columns = ("study", "question", "answer")
        yield Table(f"{workload}-answers", f"{workload}: what helps", columns, tuple(rows), _NOTE, True, True)


def answers(study: Study) -> Iterator[tuple[str, str]]:
    """Questions and answers about a study."""
    for framework in study.frameworks:
        every = study.series(framework)
        for series in every:
            yield _question(series), " ".join(_steps(series))
        fixed, growing = ([one for one in every if one.grows is grows] for grows in (False, True))
        if fixed and growing:
            yield _both(fixed[0], growing[-1])
        yield from accuracy.answers(study, framework)


def ratio(base: Point, other: Point) -> stats.Ratio:
    """Return how many times as long the runs of `other` took, end to end."""
    found = stats.unpaired([(base.group.seconds("total"), other.group.seconds("total"))])[0]
    return replace(found, shared=compare.unlike(base.runs, other.runs))


def what_grows(series: Series) -> str:
    """`nodes`, where each has as many ranks as before; `cores`, where more threads are on as many; else `ranks`.

    One rank with a thread for each core of its host has all of them: more ranks there are no more cores.
    """
    first, last = series.points[0], series.points[-1]
    if first.nodes == last.nodes:
        threads = [(point.threads or 1) * point.configuration.workers for point in (first, last)]
        return "cores" if threads[0] < threads[1] else "ranks"
    alike = first.configuration.workers * last.nodes == last.configuration.workers * first.nodes
    return "nodes" if alike else "ranks"


def _question(series: Series) -> str:
    what = f"Do more {what_grows(series)} help {series.framework}"
    if not series.grows:
        return f"{what}, with a batch of {series.batch} rows that they share?"
    rate = ", and the learning rate with them" if series.scaled else ""
    return f"{what}, with a batch that grows by {series.batch} rows a rank{rate}?"


def _steps(series: Series) -> Iterator[str]:
    """One sentence for each number of ranks beyond the first, and how the last one compares with one process."""
    base = series.points[0]
    for point in series.points[1:]:
        found = ratio(base, point)
        clocks = ", ".join(texts.seconds(_median(one)) for one in (point, base))
        yield (
            f"{_placed(point)} took {texts.times(found)} times as long as {_placed(base)} ({clocks}): {said(found)}."
        )
    if not series.grows and len(series.points) > 2:
        yield from _end(series)
    last = series.points[-1]
    alone = [
        one
        for one in last.summary.ratios
        if one.above == last.configuration and one.below.single and one.clock == "total"
    ]
    for one in alone:
        took = f"{texts.times(one.times)} times as long as one process with the same batch"
        yield f"{_placed(last)} took {took}: {one.times.verdict}."


def _end(series: Series) -> Iterator[str]:
    """Up to which point more of them pay, each compared with the one before; nothing where a verdict is not known."""
    for before, point in itertools.pairwise(series.points):
        found = ratio(before, point)
        if found.verdict in ("slower", "equal", "no difference shown"):
            yield (
                f"More pay up to {_placed(before)}: {_placed(point)} took {texts.times(found)} times as long as that "
                f"({found.verdict})."
            )
            return
        if found.verdict != "faster":
            return
    yield f"More pay up to the most that were measured, {_placed(series.points[-1])}."


def said(found: stats.Ratio) -> str:
    """Whether what was added helps."""
    return {
        "faster": "yes",
        "slower": "no, it takes longer",
        "equal": "no, it takes as long",
        "no difference shown": "no difference shown",
        "too few runs": f"not known, too few runs ({found.n}, {stats.LEAST_PAIRS} are needed)",
        "cores shared": "not known, as ranks share cores",
    }[found.verdict]


def _both(fixed: Series, growing: Series) -> tuple[str, str]:
    """Whether what was added helps only where the batch grows with it: by the largest number of ranks of each."""
    what = what_grows(growing)
    question = f"Do more {what} help {fixed.framework} only with a batch that grows with them?"
    verdicts = [ratio(one.points[0], one.points[-1]).verdict for one in (fixed, growing)]
    if unknown := {*verdicts} & {"too few runs", "cores shared"}:
        return question, f"Not known: {' and '.join(sorted(unknown))}."
    shared, grown = (verdict == "faster" for verdict in verdicts)
    if shared:
        return question, "No: they help with either." if grown else "No: they help with a batch that they share."
    return question, "Yes." if grown else "They are not shown to help with either."


def _median(point: Point) -> float:
    found = point.summary.time(point.configuration, "total")
    return found.value if found else 0.0


def _placed(point: Point) -> str:
    ranks = point.configuration.workers
    on = "1 node" if point.nodes == 1 else f"{point.nodes} nodes"
    threads = f" of {point.threads} thread{'s' * (point.threads > 1)}" if point.threads else ""
    return f"{ranks} rank{'s' * (ranks > 1)}{threads} on {on}"
