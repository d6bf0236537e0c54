"""The costs of a larger batch: accuracy at the end and time to a given one, on real data; on synthetic data the
loss.
"""

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from regatta.records import compare, stats
from regatta.records.record import Record
from regatta.report import texts
from regatta.report.charts import ACCURACY
from regatta.report.studies import Point, Study


def answers(study: Study, framework: str) -> Iterator[tuple[str, str]]:
    """Questions and answers about the points of a framework, and the single process with the same batches."""
    points = chosen(study, framework)
    if len({point.total for point in points}) < 2:
        return
    if study.synthetic:
        losses = {point: found for point in points if (found := _each(point.runs, _loss))}
        words = "; ".join(f"{label(point)}: {statistics.median(found):.4f}" for point, found in losses.items())
        loss = f" Loss of the last epoch: {words}." if words else ""
        yield (
            f"What does a larger batch cost {framework}?",
            f"The data are synthetic: accuracy on them says nothing, only time and loss count.{loss}",
        )
        return
    ends = {point: found for point in points if (found := _each(point.runs, _end))}
    if len(ends) > 1:
        words = "; ".join(f"{label(point)}: {_percent(found)}" for point, found in ends.items())
        yield f"How accurate is {framework} in the end, by its batch?", f"{words}."
    yield from _time_to(points, framework)


def chosen(study: Study, framework: str) -> list[Point]:
    """The points of a framework and of the single process, the smallest batch first."""
    own = [point for point in study.points if point.configuration.framework == framework or point.configuration.single]
    known: dict[tuple[object, ...], Point] = {}
    for point in own:
        key = (point.configuration.framework, point.total, grown(point))
        known.setdefault(key if point.configuration.single else (*key, point.configuration.workers), point)
    return sorted(
        known.values(), key=lambda point: (point.total, point.configuration.workers, not point.configuration.single)
    )


def label(point: Point) -> str:
    """`spark × 3, batch 144`, `one process, batch 48`; with what grows besides the batch."""
    who = "one process" if point.configuration.single else point.configuration.label
    return f"{who}, batch {point.total:,}{', rate grown' * grown(point)}"


def grown(point: Point) -> bool:
    """Whether something besides the batch was made larger for its ranks; for one rank nothing is."""
    return point.scaled and point.configuration.workers > 1


def over_time(run: Record) -> list[tuple[float, float]]:
    """Seconds since the ranks were ready, and the accuracy by then (0 to 1): of the first rank that told."""
    told = next((rank.progress[ACCURACY] for rank in run.ranks if rank.progress.get(ACCURACY)), ())
    return [(float(seconds), float(value)) for seconds, _, value in told if value is not None]


def first_at(run: Record, least: float) -> float | None:
    """Seconds until a run was at least so accurate for the first time; None where it never was."""
    return next((seconds for seconds, value in over_time(run) if value >= least), None)


def goal(runs: Sequence[Record]) -> float | None:
    """The accuracy that all runs have come to on their way, down to a whole percent; None where one told none."""
    best = [max((value for _, value in over_time(run)), default=0.0) for run in runs]
    least = math.floor(100 * min(best, default=0.0) + 1e-9) / 100
    return least or None


def _time_to(points: Sequence[Point], framework: str) -> Iterator[tuple[str, str]]:
    """Yield how long each point took to the accuracy that the smallest batch of the framework comes to."""
    own = [point for point in points if not point.configuration.single]
    base = own[0]
    wanted = goal(base.runs)
    if wanted is None:
        return
    times: Mapping[Point, list[float | None]] = {
        point: [first_at(run, wanted) for run in point.runs] for point in points if any(map(over_time, point.runs))
    }
    said = []
    for point, found in times.items():
        reached = [seconds for seconds in found if seconds]
        if len(reached) < len(found):
            said.append(f"{label(point)}: {len(reached)} of {len(found)} runs came to it")
            continue
        words = f"{label(point)}: {texts.with_interval(stats.medians([reached])[0])}"
        if point is not base and not point.configuration.single:
            of_base = [seconds for seconds in times[base] if seconds]
            ratio = stats.unpaired([(of_base, reached)])[0]
            ratio = replace(ratio, shared=compare.unlike(base.runs, point.runs))
            words += f", {texts.times(ratio)} times as long as {label(base)}: {ratio.verdict}"
        said.append(words)
    yield f"How long does {framework} take to an accuracy of {100 * wanted:.0f} %?", f"{'; '.join(said)}."


def _each(runs: Sequence[Record], told: Callable[[Record], float | None]) -> list[float]:
    return [value for run in runs if (value := told(run)) is not None]


def _end(run: Record) -> float | None:
    value = (run.answer or {}).get(ACCURACY)
    return float(value) if isinstance(value, int | float) else None


def _loss(run: Record) -> float | None:
    losses = (run.answer or {}).get("losses")
    last = losses[-1] if isinstance(losses, list | tuple) and losses else None
    return float(last) if isinstance(last, int | float) else None


def _percent(found: Sequence[float]) -> str:
    middle = statistics.median(found)
    spread = f" ({100 * min(found):.1f} % to {100 * max(found):.1f} %)" if min(found) != max(found) else ""
    return f"{100 * middle:.1f} %{spread}"
