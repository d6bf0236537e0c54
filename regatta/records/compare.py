"""Compares runs of the same workload: answers first, times only where the answers are equal."""

import itertools
import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from regatta.errors import CompareError
from regatta.records import answers, stats
from regatta.records.answers import Difference
from regatta.records.clocks import PHASES
from regatta.records.plain import plain
from regatta.records.record import SINGLE, Record, Series
from regatta.text import clean

_OVERLAP_WORTH_SAYING = 0.05
_MOST_OTHERS = 3
MOST_PAIRED = 3
"""So many are each compared with each; more only with the fastest."""
_WORKERS = "parameter workers"
_UNSEEN = "how the work scales over them is not seen"


@dataclass(frozen=True)
class Spread:
    """Median, least and greatest of `n` runs, seconds."""

    median: float
    low: float
    high: float
    n: int


@dataclass(frozen=True)
class Comparison:
    """A comparison of runs. With `reasons` there are no times.

    `runs` maps a label to its run ids, `spreads` a phase to what each label needed for it, `words` are lines of text.
    `beside`: ids of runs whose times are left out, as others ran on their nodes; a label that has no others is
    `marked`, and shows theirs.
    """

    workload: str
    runs: Mapping[str, tuple[str, ...]]
    reasons: tuple[str, ...] = ()
    differences: tuple[Difference, ...] = ()
    spreads: Mapping[str, Mapping[str, Spread]] = field(default_factory=dict)
    words: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    marked: tuple[str, ...] = ()

    @property
    def comparable(self) -> bool:
        """Whether times may be compared."""
        return not self.reasons


def compare(groups: Mapping[str, Sequence[Record]]) -> Comparison:
    """Compare the runs of each label; raises CompareError when there are none.

    The label `single` has the runs of one process, which all others have to beat: it comes first, the others in the
    order given.
    """
    found = alike(groups)
    if not found.comparable:
        return found
    groups = {label: _counted(groups[label]) for label in found.runs}
    alone = {label: without_contention(group) for label, group in groups.items()}
    marked = tuple(label for label, group in alone.items() if not group)
    shown = {label: group or groups[label] for label, group in alone.items()}
    spreads = {phase: _spreads(shown, phase) for phase in PHASES}
    equal = found.words[:1] if sum(map(len, groups.values())) > 1 else ()
    totals = {label: spread for label, spread in spreads["total"].items() if label not in marked}
    counts = {label: [run.run_id for run in group] for label, group in alone.items() if group}
    clocks = (*_ratios(groups, totals), *_counts(counts), *_beside(groups, marked), *_cores_shared(groups))
    beside = tuple(run.run_id for group in groups.values() for run in group if run.others)
    words = (*equal, *clocks, *found.words[len(equal) :])
    return replace(found, spreads=spreads, words=words, beside=beside, marked=marked)


def _counted(records: Sequence[Record]) -> list[Record]:
    """The runs that did their work where they were meant to."""
    return [record for record in records if record.aside is None]


def without_contention(records: Sequence[Record]) -> list[Record]:
    """The runs that were timed while no other run was on their nodes."""
    return [record for record in records if not record.others]


def alike(groups: Mapping[str, Sequence[Record]]) -> Comparison:
    """Whether times of the runs may be compared, and what was not the same; without times and words on them.

    Runs of one label that have no answer, as of a program that prints none, are timed, and compared with no others.
    CompareError where there are no runs.
    """
    first = {SINGLE: groups.get(SINGLE, ())}
    every = [record for group in groups.values() for record in group]
    aside = tuple(clean(f"{_name(run)} is left out: {run.aside}.") for run in every if run.aside is not None)
    groups = {label: found for label, group in {**first, **groups}.items() if (found := _counted(group))}
    records = [record for group in groups.values() for record in group]
    if not every:
        raise CompareError("no runs to compare: name at least two")
    if not records:
        return Comparison(every[0].identity.workload, {}, aside)
    runs = {label: tuple(r.run_id for r in group) for label, group in groups.items()}
    workload = records[0].identity.workload
    silent = len(groups) == 1 and all(r.answer is None for r in records)
    reasons = _reasons(records, silent=silent)
    every_one = [] if reasons else [*_all_differences(groups)]
    differences = tuple(one for one, new in every_one if not new)
    newer = sorted({clean(one.path) for one, new in every_one if new})
    if differences:
        places = len({d.path for d in differences})
        reasons = (f"the answers differ in {places} {'place' if places == 1 else 'places'}",)
    if reasons:
        return Comparison(workload, runs, reasons, differences)
    equal = f"The answers of {len(records)} runs are equal within the workload's tolerance." if len(records) > 1 else ""
    words = (
        "No answer was printed: nothing shows what the program did, and nothing is compared with it."
        if silent
        else equal,
        *aside,
        f"Not compared: {', '.join(newer)}, which the code of some runs does not give yet." if newer else "",
        *_overlaps(groups),
        *_unequal(groups),
        *_unused(records[0]),
    )
    return Comparison(workload, runs, words=tuple(filter(None, words)))


def _reasons(records: Sequence[Record], *, silent: bool) -> tuple[str, ...]:
    reasons = []
    for r in records:
        if r.exit.state != "succeeded":
            failure = r.exit.failure
            where = [failure.node or ""] if failure else []
            where += [f"rank {failure.rank}"] if failure and failure.rank is not None else []
            cause = f" on {', '.join(filter(None, where))}" if any(where) else ""
            cause += f": {failure.cause}" if failure else ""
            verb = {"failed": "failed", "cancelled": "was cancelled", "lost": "was lost"}[r.exit.state]
            reasons.append(clean(f"{_name(r)} {verb}{cause}"))
        elif r.answer is None and not silent:
            reasons.append(f"{_name(r)} printed no answer, so nothing shows that it did the same as the others")
    workloads = sorted({r.identity.workload for r in records})
    if len(workloads) > 1:
        reasons.append(clean(f"the runs are of different workloads: {', '.join(workloads)}"))
    return tuple(reasons)


def _name(record: Record) -> str:
    return f"{record.identity.framework} run {record.run_id}"


def _all_differences(groups: Mapping[str, Sequence[Record]]) -> Iterator[tuple[Difference, bool]]:
    """Between every two different answers; a place once for each two labels. And whether it is only that a number
    with a tolerance is new: runs of another release do not give it.
    """
    distinct: dict[tuple[str, str], Record] = {}
    for label, group in groups.items():
        for r in group:
            distinct.setdefault((label, json.dumps(plain([r.answer, r.tolerance]), sort_keys=True)), r)
    seen: set[tuple[str, str, str]] = set()
    for ((label, _), one), ((other_label, _), other) in itertools.combinations(distinct.items(), 2):
        tolerance = {n: min(t, other.tolerance[n]) for n, t in one.tolerance.items() if n in other.tolerance}
        for d in answers.differences(one.answer, other.answer, tolerance):
            place = (d.path, label, other_label)
            if place not in seen:
                seen.add(place)
                newer = one.identity.release != other.identity.release and answers.ABSENT in (d.a, d.b)
                newer = newer and d.path in {*one.tolerance, *other.tolerance}
                yield Difference(d.path, d.a, d.b, d.tolerance, _name(one), _name(other)), newer


def _spreads(groups: Mapping[str, Sequence[Record]], phase: str) -> dict[str, Spread]:
    values = {
        label: [v for r in group if (v := getattr(r.phases, phase)) is not None] for label, group in groups.items()
    }
    return {label: Spread(statistics.median(v), min(v), max(v), len(v)) for label, v in values.items() if v}


def ratio(
    base: Sequence[Record], other: Sequence[Record], phase: str = "total", at_least: float = stats.AT_LEAST
) -> stats.Ratio | None:
    """Return how many times as long the phase took in `other`; None where no two repeats have times of it."""
    found = pairs(base, other, phase)
    if not found:
        return None
    seconds = ([pair.base for pair in found], [pair.other for pair in found])
    return replace(stats.paired(*seconds, at_least, looks(base, other)), shared=unlike(base, other))


def looks(base: Sequence[Record], other: Sequence[Record]) -> int:
    """How often a bench looked at the pairs of these runs, or could have, before it ended."""
    return max((run.series.looks for run in (*base, *other) if run.series), default=1)


def unlike(base: Sequence[Record], other: Sequence[Record]) -> bool:
    """Whether ranks of one side had to share cores and those of the other had not: no ratio of them is a verdict."""
    sides = {any(run.cores_shared for run in group) for group in (base, other)}
    return len(sides) > 1


class Pair(NamedTuple):
    """Seconds of two runs that belong together, their day (UTC), and their hosts where a bench shuffled these."""

    base: float
    other: float
    day: str
    hosts: tuple[tuple[str, ...], ...] | None


def pairs(base: Sequence[Record], other: Sequence[Record], phase: str) -> list[Pair]:
    """Seconds of the phase in runs that belong together, where both have them and neither was timed while others ran.

    Repeats are paired by their number in the series that they have in common, else in the order given; those of a duet
    with their partner.
    """
    numbered = [[(_place(r, r.series), r) for r in group if r.series] for group in (base, other)]
    one, two = map(dict, numbered)
    each_once = [len(one), len(two)] == list(map(len, numbered))
    both = [(one[place], two[place]) for place in one if each_once and place in two]
    made = []
    for a, b in both or zip(base, other, strict=False):
        seconds, than = getattr(a.phases, phase), getattr(b.phases, phase)
        if seconds and than and not (a.others or b.others):
            shuffled = a.series and b.series and a.series.shuffled and b.series.shuffled
            hosts = (a.cluster.rank_map, b.cluster.rank_map) if shuffled else None
            made.append(Pair(seconds, than, a.identity.started[:10], hosts))
    return made


def over_levels(found: stats.Ratio, pairs: Sequence[Pair]) -> stats.Ratio:
    """The ratio with its intervals over days, and over the orders of hosts that some of its pairs share."""
    days, hosts = _groups(pairs, "day"), _groups([pair for pair in pairs if pair.hosts], "hosts")
    return replace(
        found,
        days=stats.over_groups(days) if days[1:] else None,
        hosts=stats.over_groups(hosts) if 1 < len(hosts) < sum(map(len, hosts)) else None,
    )


def _groups(pairs: Sequence[Pair], level: Literal["day", "hosts"]) -> list[list[tuple[float, float]]]:
    groups: dict[object, list[tuple[float, float]]] = {}
    for pair in pairs:
        groups.setdefault(getattr(pair, level), []).append((pair.base, pair.other))
    return [*groups.values()]


def _place(run: Record, series: Series) -> tuple[object, ...]:
    """What two runs have in common that are a pair."""
    if series.partner:
        return tuple(sorted((run.run_id, series.partner)))
    return series.label, series.index


def _ratios(groups: Mapping[str, Sequence[Record]], totals: Mapping[str, Spread]) -> Iterator[str]:
    known = {label: spread for label, spread in totals.items() if spread.median > 0}
    others = [label for label in known if label != SINGLE]
    fastest = sorted(others, key=lambda label: known[label].median)
    pairs = [*itertools.combinations(fastest, 2)]
    if len(fastest) > MOST_PAIRED:
        pairs = [(fastest[0], label) for label in fastest[1:]]
    pairs += [(SINGLE, label) for label in others if SINGLE in known]
    for base, other in pairs:
        a, b = totals[base], totals[other]
        found = ratio(groups[base], groups[other])
        if found is None or found.n < 2:
            found = stats.Ratio(b.median / a.median, 1, shared=unlike(groups[base], groups[other]))
        against_one = base == SINGLE
        than = "one process" if against_one else base
        clocks = f"{'medians ' if found.n > 1 else ''}{seconds_text(b.median)} s, {seconds_text(a.median)} s"
        yield f"In total {other} {_took(found, than)} ({clocks}){_verdict(found, against_one=against_one)}."
        inner = ratio(groups[base], groups[other], "compute")
        if inner is not None and inner.n > 1:
            yield f"In compute it {_took(inner, than)}{_verdict(inner)}."


def _beside(groups: Mapping[str, Sequence[Record]], marked: Sequence[str]) -> Iterator[str]:
    """Yield how many runs were timed while others ran, and which those were."""
    found = [run for group in groups.values() for run in group if run.others]
    if not found:
        return
    others = sorted({other for run in found for other in run.others})
    more = f" and {len(others) - _MOST_OTHERS} more" if others[_MOST_OTHERS:] else ""
    named = ", ".join(others[:_MOST_OTHERS]) + more
    many = "1 run was" if len(found) == 1 else f"{len(found)} runs were"
    left = f"; * of {' and '.join(marked)} there are no others" if marked else ""
    yield f"{many} timed while others ran ({clean(named)}) and left out of ratios and verdicts{left}."


def _cores_shared(groups: Mapping[str, Sequence[Record]]) -> Iterator[str]:
    """On which hosts ranks had to share cores, and which were a part of a machine's."""
    used = [node for group in groups.values() for run in group for node in run.cluster.nodes if node.ranks]
    if parts := sorted({f"{node.name} ({node.cpu_limit:g})" for node in used if node.cpu_limit}):
        yield (
            f"{clean(', '.join(parts))} may use so many of their machine's cores: what runs there with them shares its "
            "caches, memory bandwidth and disk."
        )
    nodes = [node for group in groups.values() for run in group for node in run.cluster.nodes if node.cores_shared]
    shared = sorted({node.name for node in nodes if node.shares})
    if shared:
        yield f"{clean(', '.join(shared))} have the same cores of one machine: {_UNSEEN}."
    if full := sorted({node.name for node in nodes} - {*shared}):
        yield f"{clean(', '.join(full))} had more ranks than cores: {_UNSEEN}."


def _took(found: stats.Ratio, than: str) -> str:
    alike = f"{found.value:.2f}" == "1.00"
    return f"took as long as {than}" if alike else f"took {found.value:.2f} times as long as {than}"


def _verdict(found: stats.Ratio, *, against_one: bool = False) -> str:
    verdict = found.verdict
    if found.shared:
        return "; no verdict, as ranks share cores"
    if found.n == 1:
        beat = "beat" if found.value < 1 and f"{found.value:.2f}" != "1.00" else "did not beat"
        return f"; the cluster {beat} one process" if against_one else ""
    if found.low is None:
        return f"; {verdict} ({found.n} pairs, {found.least} are needed)"
    said = f"; at {stats.CONFIDENCE:.0%} {found.low:.2f} to {found.high:.2f} times: {verdict}".replace("%", " %")
    if against_one and verdict in ("faster", "slower"):
        said += f"; the cluster {'beat' if verdict == 'faster' else 'did not beat'} one process"
    return said


def _counts(runs: Mapping[str, Sequence[str]]) -> Iterator[str]:
    counts = {label: len(ids) for label, ids in runs.items()}
    if not counts:
        return
    if set(counts.values()) == {1}:
        yield "One run each: no statement about spread." if len(counts) > 1 else "One run: no statement about spread."
        return
    yield "Median (least..greatest) of " + ", ".join(f"{n} {label}" for label, n in counts.items()) + " runs."
    if alone := [label for label, n in counts.items() if n == 1]:
        yield f"One run of {' and '.join(alone)}: no statement about its spread."


def _overlaps(groups: Mapping[str, Sequence[Record]]) -> Iterator[str]:
    for label, spread in _spreads(groups, "overlap").items():
        if spread.median >= _OVERLAP_WORTH_SAYING:
            yield (
                f"The phases of {label} add up to {seconds_text(spread.median)} s more than its total: "
                "the longest load and the longest compute were those of different ranks."
            )


def _unequal(groups: Mapping[str, Sequence[Record]]) -> Iterator[str]:
    """Yield what was not the same in all runs and may explain a difference of times."""
    facts = {label: [_conditions(r) for r in group] for label, group in groups.items()}
    for name in sorted({name for group in facts.values() for fact in group for name in fact}):
        values = {
            label: sorted({answers.show(fact.get(name, answers.ABSENT)) for fact in group})
            for label, group in facts.items()
            if (label, name) != (SINGLE, _WORKERS)  # one process, which the label says
        }
        if len({value for group in values.values() for value in group}) > 1:
            alike: dict[str, list[str]] = {}
            for label, group in values.items():
                alike.setdefault(", ".join(group), []).append(label)
            yield f"Not the same in all runs: {clean(name)}: " + "; ".join(
                f"{', '.join(labels)} {told}" for told, labels in alike.items()
            )


def _conditions(record: Record) -> dict[str, Any]:
    of_run, speed = record.identity, record.speed
    parameters = {f"parameter {key}": value for key, value in of_run.parameters.items()}
    fixed = {"release": of_run.release, "seed": of_run.seed, "cluster": record.cluster.name}
    return parameters | fixed | {"threads a rank": speed.threads, "cache": speed.cache}


def _unused(record: Record) -> Iterator[str]:
    names = set(answers.leaf_names(record.answer))
    for name in record.tolerance:
        if name not in names:
            yield f"The tolerance of {clean(name)} names nothing in the answer."


def seconds_text(value: float) -> str:
    """Seconds as text: `12.34`; below one second three decimals, `0.123`."""
    return f"{value:.2f}" if value >= 0.995 or value == 0 else f"{value:.3f}"
