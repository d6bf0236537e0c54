"""The tables of a report, as text; Markdown, CSV and HTML are made of the same ones."""

import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from regatta.records import stats
from regatta.records.clocks import LABELS, PHASES, TITLES
from regatta.records.record import SINGLE, Failure, NodeFacts, Record
from regatta.report import published as references
from regatta.report import texts
from regatta.report.cases import Case, Configuration, Group
from regatta.report.regressions import Change
from regatta.report.summary import CLOCKS, Ratio, Summary
from regatta.report.timeline import slowest

_USE_NOTE = (
    "Medians. CPU, user and system, of ranks and driver from the start of Python until they had computed; resident "
    "memory of the largest rank. Sent: by all nodes of the run over the interface between them, whoever sent it; "
    "ranks of one node need no network among themselves. Energy: of the processors and memory of all nodes meanwhile, "
    "where all show it (RAPL), and of their GPUs, whoever used it. Cost: price_per_hour of the inventory's hosts, end "
    "to end."
)
_TIMES_NOTE = (
    f"Medians, with 95 % intervals from {stats.LEAST_PAIRS} runs on, of the runs that succeeded. End to end: all that "
    "the user waits for. Compute: only the work itself, without start, input and output. torch × 4: torch with 4 "
    "ranks; single/4: one process that does the work of 4 ranks, with their global batch. Left out are runs that "
    "shared their nodes with other runs (if there are no others, they are marked), and single runs if others were "
    "repeated."
)
_PUBLISHED_NOTE = (
    "Ours: end to end, medians. Published: what others measured on other hardware, not compared; those of the plan "
    "paper are of two virtual machines with 4 CPUs and 8 GB of memory each, data in HDFS."
)
_BESIDES_NOTE = (
    "Medians. Accuracy and loss are of the test data, at the end; on synthetic data they say nothing. Speed-up: over "
    "one process, end to end. Published: on other hardware, and often of more data; not compared."
)
BESIDE = "(with other runs)"
"""Stands behind times that were taken while other runs were on the same nodes."""
NO_ANSWER = "(no answer to compare)"
"""Stands behind the time of runs that have given none: nothing shows that they did the same as others."""
_ALONE_NOTE = (
    "Medians, with 95 % intervals. A run that prints an answer (the event `result`) can be compared with others "
    "that do the same work with as many ranks. Failed: see Failures."
)
_RATIOS_NOTE = (
    "Each row reads as a sentence: below 1 the configuration on the left is faster, above 1 it is slower. Speed-up is "
    "the same ratio the other way round; efficiency is speed-up divided by ranks. A ratio is the geometric mean over "
    "pairs of repeats; with few pairs it may differ from the ratio of the medians. "
    f"A verdict needs {stats.LEAST_PAIRS} pairs (5 have the same sign by chance once in 16 times), an interval that "
    "does not contain 1, and a difference that matters. Of more than three frameworks each is compared with one "
    "process and with the fastest. At most one verdict in 20 is false. All together: whether it also holds if all "
    "verdicts of these runs are taken together (Holm's correction). Cores shared: there is no verdict, because the "
    "ranks of one side had to share cores (hosts that are containers of one machine, or more ranks than cores) "
    "and those of the other had not. Over days, over orders of hosts: the ratio on any such day, with any "
    f"such order, with an interval from {stats.LEAST_PAIRS} of them on. Fell or rose: there is a trend over the "
    "repeats (Mann and Kendall's test, 5 %), as of a warm-up, until that repeat or to the end."
)
_RATIO_COLUMNS = (
    *("case", "configuration", "time", "compared with", "timer"),
    *("speed-up", "efficiency", "verdict", "all together"),
)


@dataclass(frozen=True)
class Table:
    """A title, columns and rows of text. `name` is that of its file; `note` what a reader has to know.

    `grouped`: rows that follow each other often have the same first cell. `prose`: cells are sentences.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    grouped: bool = False
    prose: bool = False


def once(found: Iterable[Table]) -> list[Table]:
    """The tables, each note only under the first that has it."""
    seen: set[str] = set()
    made = []
    for table in found:
        made.append(replace(table, note="") if table.note in seen else table)
        seen.add(table.note)
    return made


def times(summaries: Sequence[Summary]) -> Iterator[Table]:
    """For each workload and timer: a row a case, a column a configuration; medians with intervals.

    Workloads whose cases have one configuration each are left out: see `alone`.
    """
    for workload, chosen in _by_workload(summaries).items():
        if not any(s.case.differing or sum(bool(one.runs) for one in s.case.groups) > 1 for s in chosen):
            continue
        configurations = sorted(
            {group.configuration for summary in chosen for group in summary.case.groups}, key=lambda c: c.order
        )
        for clock in CLOCKS:
            rows = [
                (row_title(s.case, chosen), *(_cell(s, configuration, clock) for configuration in configurations))
                for s in chosen
            ]
            yield Table(
                f"{workload}-{clock}",
                f"{workload}: {TITLES[clock]}",
                ("case", *(configuration.label for configuration in configurations)),
                tuple(rows),
                _TIMES_NOTE,
            )


def published(summaries: Sequence[Summary]) -> Iterator[Table]:
    """Cases that others have published figures of: ours, end to end, and theirs; then those besides times."""
    yield from _published_times(summaries)
    yield from _published_besides(summaries)


def _published_times(summaries: Sequence[Summary]) -> Iterator[Table]:
    beside = {id(summary): figures for summary in summaries if (figures := references.figures(summary.case))}
    chosen = [summary for summary in summaries if id(summary) in beside]
    if not chosen:
        return
    theirs = {configuration for figures in beside.values() for configuration in figures}
    ours = theirs | {Configuration(configuration.workers, SINGLE) for configuration in theirs}
    shown = sorted(ours, key=lambda configuration: configuration.order)
    rows = []
    for summary in chosen:
        cells = [references.describe(summary.case, beside[id(summary)])]
        for configuration in shown:
            found = summary.time(configuration, "total")
            cells.append(texts.seconds(found.value) if found else _cell(summary, configuration, "total"))
            if configuration in theirs:
                figure = beside[id(summary)].get(configuration)
                cells.append(texts.seconds(figure.seconds if figure else None))
        rows.append(tuple(cells))
    columns = [[c.label, f"{c.label}, published"] if c in theirs else [c.label] for c in shown]
    yield Table(
        "published",
        "Compared with published times, of other hardware",
        ("case", *(name for names in columns for name in names)),
        tuple(rows),
        _PUBLISHED_NOTE,
    )


def _published_besides(summaries: Sequence[Summary]) -> Iterator[Table]:
    rows = []
    for summary in summaries:
        for at, theirs in sorted(references.besides(summary.case).items(), key=lambda found: found[0].order):
            group = summary.case.group(at.framework, at.workers)
            if group is not None and summary.case.shown(at):
                rows.append((references.describe(summary.case, {}), at.label, *_besides(summary, group, theirs)))
    if rows:
        whose = [(name, f"{name}, published") for name in ("accuracy", "loss", "speed-up")]
        yield Table(
            "published-besides",
            "Compared with what was published besides times",
            ("case", "configuration", *(name for names in whose for name in names)),
            tuple(rows),
            _BESIDES_NOTE,
            grouped=True,
        )


def _besides(summary: Summary, group: Group, theirs: references.Besides) -> Iterator[str]:
    """Ours and theirs of each: accuracy and loss of the test data, speed-up over one process end to end."""
    for name, value, words in (("accuracy", theirs.accuracy, "{:.1%}"), ("test_loss", theirs.loss, "{:.4f}")):
        told = [run.answer.get(name) for run in group.runs if run.answer]
        found = _median([float(one) for one in told if isinstance(one, int | float)])
        yield from ("–" if one is None else words.format(one).replace("%", " %") for one in (found, value))
    ratios = (one for one in summary.ratios if one.above == group.configuration and one.below.single)
    yield texts.times(next((one.speedup for one in ratios if one.clock == "total"), None))
    yield "–" if theirs.speedup is None else f"{theirs.speedup:.2f}"


def ratios(summaries: Sequence[Summary], changed: Sequence[Change] = ()) -> Iterator[Table]:
    """For each workload: how its configurations compare with one process and with each other, and the verdict.

    `changed`: the other verdicts of the page.
    """
    together = _together(summaries, changed)
    for workload, chosen in _by_workload(summaries).items():
        levels = dict.fromkeys(
            name for summary in chosen for one in summary.ratios for name, _ in texts.levels(one.times)
        )
        rows = [
            (
                row_title(summary.case, chosen),
                f"{ratio.above.label} took",
                f"{texts.times(ratio.times)} times as long as",
                ratio.below.label,
                LABELS[ratio.clock],
                texts.times(ratio.speedup),
                f"{ratio.speedup.value / ratio.above.workers:.0%}" if ratio.below.single else "–",
                _verdict(ratio),
                together.get(id(ratio.times), "–"),
                *(_over(ratio, level) for level in levels),
            )
            for summary in chosen
            for ratio in summary.told
        ]
        if rows:
            yield Table(
                f"{workload}-ratios",
                f"{workload}: which is faster",
                (*_RATIO_COLUMNS, *(f"over {level}" for level in levels)),
                tuple(rows),
                _RATIOS_NOTE,
                grouped=True,
            )


def _verdict(ratio: Ratio) -> str:
    said = texts.verdict(ratio.times, ratio.above.label)
    return said if ratio.trend.steady or ratio.times.shared else f"{said}; {ratio.trend.words('the ratio')}"


def _over(ratio: Ratio, level: str) -> str:
    found = dict(texts.levels(ratio.times)).get(level)
    return f"{texts.times(found)}, {found.n} {level}" if found else "–"


def _together(summaries: Sequence[Summary], changed: Sequence[Change]) -> dict[int, str]:
    """Of each ratio that says slower or faster, by its id: whether it does so if all on the page are looked at."""
    every = [one.times for summary in summaries for one in summary.ratios] + [one.times for one in changed]
    judged = [(one, one.p) for one in every if one.p is not None and not one.shared]
    shown = stats.holm([p for _, p in judged])
    said = zip(judged, shown, strict=True)
    return {id(one): "yes" if also else "no" for (one, _), also in said if one.verdict in ("slower", "faster")}


def phases(summaries: Sequence[Summary]) -> Iterator[Table]:
    """For each workload: the median of every phase."""
    for workload, chosen in _by_workload(summaries).items():
        rows = [
            (
                row_title(summary.case, chosen),
                group.configuration.label,
                *(texts.seconds(_median(group.seconds(phase))) for phase in PHASES),
                str(len(group.runs)),
                str(len(group.others)),
                _number_beside(group),
            )
            for summary in chosen
            for group in summary.case.groups
            if summary.case.shown(group.configuration)
        ]
        if rows:
            columns = ("case", "configuration", *PHASES, "runs", "failed", "with other runs")
            yield Table(
                f"{workload}-phases", f"{workload}: where the time goes", columns, tuple(rows), "Medians.", grouped=True
            )


def use(summaries: Sequence[Summary]) -> Iterator[Table]:
    """For each workload: what its runs used, medians."""
    for workload, chosen in _by_workload(summaries).items():
        rows = [
            (
                row_title(summary.case, chosen),
                group.configuration.label,
                texts.seconds(_median([run.cpu_seconds for run in group.runs])),
                texts.gigabytes(_whole(_median([run.peak_bytes for run in group.runs]))),
                texts.size(_whole(_median([run.sent_bytes for run in group.runs]))),
                texts.energy(
                    _median([run.joules for run in group.runs]),
                    _median([run.gpu_joules for run in group.runs]),
                    gpus=any(run.has_gpus for run in group.runs),
                ),
                texts.cost(_median([run.cost for run in group.runs])),
            )
            for summary in chosen
            for group in summary.case.groups
            if any(run.cpu_seconds is not None or run.use for run in group.runs)
        ]
        if rows:
            columns = (
                "case",
                "configuration",
                "CPU of all ranks",
                "largest rank",
                "sent by the nodes",
                "energy",
                "cost",
            )
            yield Table(f"{workload}-use", f"{workload}: what it takes", columns, tuple(rows), _USE_NOTE, grouped=True)


def sections(table: Table) -> list[tuple[str, list[tuple[str, ...]]]]:
    """The rows of a grouped table under their first cell, without it."""
    found: list[tuple[str, list[tuple[str, ...]]]] = []
    for first, *rest in table.rows:
        if not found or found[-1][0] != first:
            found.append((first, []))
        found[-1][1].append(tuple(rest))
    return found


def changes(found: Sequence[Change], against: str, summaries: Sequence[Summary] = ()) -> Table:
    """Return what became slower or faster than in the earlier set; `summaries`: the other verdicts of the page."""
    together = _together(summaries, found)
    rows = tuple(
        (
            f"{change.case.workload}: {change.case.title}",
            change.configuration.label,
            LABELS[change.clock],
            texts.with_interval(change.before),
            texts.with_interval(change.now),
            f"{texts.times(change.times)} times as long",
            texts.verdict(change.times, "now"),
            together.get(id(change.times), "–"),
            change.note,
        )
        for change in found
    )
    columns = ("case", "configuration", "timer", "before", "now", "took now", "verdict", "all together", "note")
    note = (
        "Slower or faster only if the 95 % interval of the ratio does not contain 1, the difference matters and "
        f"each side has {stats.LEAST_PAIRS} runs or more. One in twenty of such verdicts comes by chance. "
        "All together: see 'which is faster'."
    )
    return Table("changes", f"Against {against}", columns, rows, note, grouped=True)


def machines(records: Sequence[Record]) -> Table:
    """Machines and versions that the runs used, and how many runs each."""
    nodes = [(record.cluster.name, node) for record in records for node in record.cluster.nodes]
    things = [*dict.fromkeys(thing for _, node in nodes for thing in node.versions)]
    counts = Counter((cluster, *_machine(node, things)) for cluster, node in nodes)
    rows = tuple((*row, str(count)) for row, count in sorted(counts.items()))
    columns = ("cluster", "node", "CPU", "cores", "memory", "system", "kernel", *things, "runs")
    return Table("machines", "Machines and versions", columns, rows)


def runs(records: Sequence[Record]) -> Table:
    """Every run, one a row."""
    columns = (
        "run",
        "started (UTC)",
        "workload",
        "framework",
        "ranks",
        "state",
        *PHASES,
        "slowest rank",
        "other runs",
        "release",
    )
    rows = tuple(
        (
            record.run_id,
            record.identity.started[:19].replace("T", " "),
            record.identity.workload,
            record.identity.framework,
            str(len(record.cluster.rank_map)),
            record.exit.state,
            *(texts.seconds(getattr(record.phases, phase)) for phase in PHASES),
            str(rank.rank) if (rank := slowest(record)) and len(record.cluster.rank_map) > 1 else "–",
            ", ".join(record.others) or "–",
            (record.identity.release or "–")[:8] + ("+" if record.identity.dirty else ""),
        )
        for record in records
    )
    return Table(
        "runs",
        "Every run",
        columns,
        rows,
        "Other runs: those that ran on the same nodes meanwhile. A release with + had changes that were not committed.",
    )


def failures(records: Sequence[Record]) -> Table:
    """Runs that did not succeed, each with its cause."""
    rows = tuple(
        (
            record.run_id,
            record.identity.started[:19].replace("T", " "),
            f"{record.identity.workload}, {record.identity.framework}, {len(record.cluster.rank_map)} ranks",
            record.exit.state,
            _cause(record.exit.failure),
        )
        for record in records
    )
    return Table("failures", "Failures", ("run", "started (UTC)", "workload", "state", "cause"), rows, prose=True)


def _cause(failure: Failure | None) -> str:
    if failure is None:
        return "–"
    rank = f"rank {failure.rank}" if failure.rank is not None else ""
    where = ", ".join(filter(None, (failure.node, rank)))
    return f"{where}: {failure.cause}" if where else failure.cause


def alone(summaries: Sequence[Summary]) -> Iterator[Table]:
    """One table of the runs that are in no comparison, such as people's own scripts: a row a configuration."""
    rows = [
        (
            summary.case.workload,
            f"{summary.case.title} ({summary.case.cluster})",
            group.configuration.label,
            *(texts.with_interval(summary.time(group.configuration, clock)) for clock in CLOCKS),
            str(len(group.runs)),
            str(len(group.others)),
            _number_beside(group),
            _why_alone(summary, group),
        )
        for summary in summaries
        for group in summary.case.groups
        if group.runs and group.configuration not in summary.compared
    ]
    if rows:
        columns = ("workload", "case", "configuration", *LABELS.values(), "runs", "failed", "with other runs", "why")
        yield Table("not-compared", "Runs in no comparison", columns, tuple(rows), _ALONE_NOTE)


def _why_alone(summary: Summary, group: Group) -> str:
    if not group.answered:
        return NO_ANSWER.strip("()")
    if not summary.case.comparable(group.configuration):
        return "answers differ"
    return "only timed beside other runs" if group.crowded else "nothing to compare with"


def _by_workload(summaries: Sequence[Summary]) -> Mapping[str, list[Summary]]:
    """The cases of each workload that gives answers, or of which nothing but failures is known."""
    said = {summary.case.workload for summary in summaries if summary.case.answered}
    silent = {summary.case.workload for summary in summaries if "argv" in summary.case.parameters}
    silent |= {s.case.workload for s in summaries if any(group.runs for group in s.case.groups)}
    found: dict[str, list[Summary]] = {}
    for summary in summaries:
        if summary.case.workload in silent - said:
            continue
        found.setdefault(summary.case.workload, []).append(summary)
    return found


def row_title(case: Case, beside: Sequence[Summary]) -> str:
    """The case, among those `beside`: with its cluster where they have several."""
    clusters = {summary.case.cluster for summary in beside}
    return f"{case.title} ({case.cluster})" if len(clusters) > 1 else case.title


def _cell(summary: Summary, configuration: Configuration, clock: str) -> str:
    group = summary.case.group(configuration.framework, configuration.workers)
    if group is None:
        return "–"
    found = summary.time(configuration, clock)
    if found is not None:
        marks = [*([] if group.answered else [NO_ANSWER]), *([BESIDE] if group.crowded else [])]
        return " ".join([texts.with_interval(found), *marks])
    if not group.runs:
        return "failed"
    return "answers differ" if group.answered and not summary.case.comparable(configuration) else "–"


def _number_beside(group: Group) -> str:
    """Return how many of its runs were timed while others ran; where there are no others, they are the ones that are
    shown.
    """
    return f"{len(group.runs)}, shown" if group.crowded else str(len(group.beside))


def _median(samples: Sequence[float | None]) -> float | None:
    known = [sample for sample in samples if sample is not None]
    return statistics.median(known) if known else None


def _whole(value: float | None) -> int | None:
    return round(value) if value is not None else None


def _machine(node: NodeFacts, things: Sequence[str]) -> tuple[str, ...]:
    memory = f"{node.ram_bytes / 2**30:.1f} GiB" if node.ram_bytes else "–"
    facts = (node.cpu, node.cores, memory, node.os, node.kernel)
    return (
        node.name,
        *(str(fact) if fact is not None else "–" for fact in facts),
        *(node.versions.get(thing) or "–" for thing in things),
    )
