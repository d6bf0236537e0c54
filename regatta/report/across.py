"""Pictures of several cases together: frameworks over cores against one thread, and what a task costs by its length.

A case says only how its own configurations compare. The length that a task needs for a framework to pay is seen
over cases that differ in the length of their items (a card's `length`), and what a single thread does better over cases
that differ in `method`.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from regatta.report import published, specs, texts
from regatta.report.cases import Configuration
from regatta.report.specs import Spec
from regatta.report.summary import Summary
from regatta.report.tables import Table

Row = dict[str, object]
_NOTE = (
    "Interpolated between the lengths that were run, on logarithmic scales. Compute: from the moment at which all "
    "workers are ready; end to end: as the user waits, for as many tasks as were run. Not where ranks share cores."
)


@dataclass(frozen=True)
class Picture:
    """A chart of several cases: `kind` names its specification, `about` are words for a reader."""

    kind: str
    name: str
    title: str
    about: str
    spec: Spec
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Task:
    """The results of a configuration with tasks of one length, which each takes a core for so many seconds."""

    workload: str
    cluster: str
    configuration: Configuration
    length: float
    overhead: float
    """Seconds that a task takes of a worker beyond its length, of compute."""
    gains: Mapping[str, float]
    """Speed as a multiple of one process's, by timer."""
    shared: bool


def pictures(summaries: Sequence[Summary]) -> list[Picture]:
    """All that there is to draw of several cases."""
    return [*_threads(summaries), *_lengths(summaries)]


def tables(summaries: Sequence[Summary]) -> Iterator[Table]:
    """From which length of a task on each configuration beats one process."""
    for (workload, _), found in _by_workload(tasks(summaries)):
        rows = []
        for configuration in sorted({task.configuration for task in found}, key=lambda one: one.order):
            own = [task for task in found if task.configuration == configuration]
            rows.append(
                (
                    configuration.label,
                    *(_length(crossing(own, clock)) for clock in ("compute", "total")),
                    _length(min(own, key=lambda task: task.length).overhead),
                )
            )
        columns = ("configuration", "pays from, compute", "pays from, end to end", "cost of the shortest task")
        yield Table(f"{workload}-pays", f"{workload}: how long a task must be", columns, tuple(rows), _NOTE)


def tasks(summaries: Sequence[Summary]) -> list[Task]:
    """Each configuration at each length, of the workloads whose cards say how long an item takes."""
    return [task for summary in summaries for task in _tasks(summary)]


def crossing(found: Sequence[Task], clock: str) -> float | None:
    """The length in seconds from which on a configuration is faster than one process; infinite where none was."""
    points = sorted((task.length, task.gains[clock]) for task in found if clock in task.gains and not task.shared)
    if not points:
        return None
    if points[-1][1] <= 1:
        return math.inf
    lasting = next(at for at in range(len(points)) if all(gain > 1 for _, gain in points[at:]))
    if not lasting:
        return points[0][0]
    (short, below), (long, above) = points[lasting - 1], points[lasting]
    part = math.log(1 / below) / math.log(above / below)
    return math.exp(math.log(short) + part * math.log(long / short))


def first_to_pay(found: Sequence[Task]) -> str:
    """Say from which length of a task on each configuration beats one process end to end, the shortest first."""
    configurations = {task.configuration for task in found}
    lengths = {one: crossing([task for task in found if task.configuration == one], "total") for one in configurations}
    pays = sorted(
        (length, one.label) for one, length in lengths.items() if length is not None and math.isfinite(length)
    )
    never = sorted(one.label for one, length in lengths.items() if length is not None and math.isinf(length))
    said = [
        f"End to end, {', '.join(f'{name} beats one process from {_length(at)} on' for at, name in pays)}."
        if pays
        else ""
    ]
    said.append(f"No length was long enough for {', '.join(never)}." if never else "")
    return " ".join(filter(None, said))


def _tasks(summary: Summary) -> Iterator[Task]:
    case = summary.case
    length, number = published.length(case), published.size(case)
    if not length or not number:
        return
    for time in summary.times:
        configuration = time.configuration
        if time.clock != "compute" or configuration.single:
            continue
        against = [ratio for ratio in summary.ratios if ratio.below.single and ratio.above == configuration]
        yield Task(
            case.workload,
            case.cluster,
            configuration,
            length,
            time.seconds.value * configuration.workers / number - length,
            {ratio.clock: ratio.speedup.value for ratio in against},
            summary.cores_shared(configuration),
        )


def _by_workload(found: Sequence[Task]) -> Iterator[tuple[tuple[str, str], list[Task]]]:
    ordered = sorted(found, key=lambda task: (task.workload, task.cluster))
    for key, some in groupby(ordered, lambda task: (task.workload, task.cluster)):
        same = list(some)
        if len({task.length for task in same}) > 1:
            yield key, same


def _lengths(summaries: Sequence[Summary]) -> Iterator[Picture]:
    for (workload, _), found in _by_workload(tasks(summaries)):
        rows: list[Row] = [
            {
                "framework": task.configuration.framework,
                "configuration": task.configuration.label,
                "milliseconds": task.length * 1000,
                "overhead": max(task.overhead * 1000, 1e-3),
                "cores": "shared" if task.shared else "own",
                **{f"times_{clock}": gain for clock, gain in task.gains.items()},
            }
            for task in found
        ]
        yield Picture(
            "overhead",
            f"{workload}-overhead",
            f"{workload}: what a task costs, by its length",
            "Time of a worker that a task takes beyond its own, of compute. Pale: ranks share cores.",
            specs.OVERHEAD,
            tuple(rows),
        )
        yield Picture(
            "crossing",
            f"{workload}-crossing",
            f"{workload}: from which length on it pays",
            "Above the dashed line it beats one process: circles end to end, diamonds compute. "
            f"Pale: ranks share cores. {first_to_pay(found)}",
            specs.CROSSING,
            tuple(_by_clock(rows)),
        )


def _by_clock(rows: Sequence[Row]) -> Iterator[Row]:
    for row in rows:
        for clock in ("total", "compute"):
            if gain := row.get(f"times_{clock}"):
                yield {**{name: value for name, value in row.items() if "_" not in name}, "clock": clock, "times": gain}


def _threads(summaries: Sequence[Summary]) -> Iterator[Picture]:
    for number, (summary, others) in enumerate(_by_method(summaries)):
        lines = [*_over_cores(summary)]
        threads = {method: seconds for one, method in others if (seconds := _one_process(one))}
        if not lines or not threads:
            continue
        rules: list[Row] = [{"method": method, "seconds": seconds} for method, seconds in threads.items()]
        workload, size = summary.case.workload, published.size(summary.case)
        what = f"{workload}, {size:,} {published.unit(summary.case)}" if size else f"{workload}, {summary.case.title}"
        yield Picture(
            "threads",
            f"{workload}-one-thread-{number + 1}",
            f"{what}: over cores, compared with one thread",
            "End to end, medians, on a logarithmic scale. Dashed: one thread that does the same work otherwise. "
            f"Pale: ranks share cores. {' '.join(_said(summary, threads))}",
            specs.THREADS,
            (*lines, *rules),
        )


def _by_method(summaries: Sequence[Summary]) -> Iterator[tuple[Summary, list[tuple[Summary, str]]]]:
    """Each case over several numbers of workers, and those of the same but for the method, by that."""
    keyed = [(*published.method(summary.case), summary) for summary in summaries]
    for key, method, summary in keyed:
        others = [(one, named) for other, named, one in keyed if other == key and named != method and named]
        if others and len({time.configuration.workers for time in summary.times}) > 1:
            yield summary, others


def _one_process(summary: Summary) -> float | None:
    found = [time.seconds.value for time in summary.times if time.configuration.single and time.clock == "total"]
    return min(found, default=None)


def _over_cores(summary: Summary) -> Iterator[Row]:
    alone = _one_process(summary)
    for time in summary.times:
        if time.clock == "total" and not time.configuration.single:
            shared = summary.cores_shared(time.configuration)
            yield {
                "framework": time.configuration.framework,
                "workers": time.configuration.workers,
                "seconds": time.seconds.value,
                "cores": "shared" if shared else "own",
            }
    if alone:
        yield {"method": "the loop, one process", "seconds": alone}


def _said(summary: Summary, threads: Mapping[str, float]) -> Iterator[str]:
    """Plainly, whether one thread beats all that was spread."""
    spread = [time for time in summary.times if time.clock == "total" and not time.configuration.single]
    best = min(spread, key=lambda time: time.seconds.value)
    for method, seconds in threads.items():
        if seconds < best.seconds.value:
            yield (
                f"One thread by {method} takes {texts.seconds(seconds)} and beats every configuration: "
                f"the best of them, {best.configuration.label}, takes {texts.seconds(best.seconds.value)}."
            )
        else:
            first = min((t for t in spread if t.seconds.value <= seconds), key=lambda t: t.configuration.order)
            took = texts.seconds(seconds)
            yield f"One thread by {method} takes {took}: {first.configuration.label} is the first to beat it."


def _length(value: float | None) -> str:
    if value is None:
        return "–"
    if math.isinf(value):
        return "no length that was run"
    return f"{value * 1000:.3g} ms" if value < 1 else f"{value:.3g} s"
