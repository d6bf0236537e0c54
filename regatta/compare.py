"""Compares runs of the same workload: answers first, clocks only where the answers are equal."""

import itertools
import json
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regatta import stats
from regatta.clocks import PHASES
from regatta.console import Console, clean
from regatta.errors import CompareError
from regatta.record import Record, plain
from regatta.store import write_atomically

if TYPE_CHECKING:
    from rich.table import Table

LABELS = ("single", "torch", "ray")
"""The columns: one process (what the cluster has to beat), and the two frameworks."""

_SHOWN = 20
_OVERLAP_WORTH_SAYING = 0.05


class _Absent:
    def __repr__(self) -> str:
        return "absent"


ABSENT = _Absent()
"""Stands for the value of a name that an answer does not have."""


@dataclass(frozen=True)
class Difference:
    """A leaf in which two answers differ beyond its absolute tolerance; None: it had to be equal."""

    path: str
    a: Any
    b: Any
    tolerance: float | None = None
    run_a: str = ""
    run_b: str = ""

    def __str__(self) -> str:
        allowed = "must be equal" if self.tolerance is None else f"tolerance {self.tolerance:g}"
        return f"{clean(self.path)}: {self.run_a} {_show(self.a)}, {self.run_b} {_show(self.b)} ({allowed})"


@dataclass(frozen=True)
class Spread:
    """Median, least and greatest of `n` runs, seconds."""

    median: float
    low: float
    high: float
    n: int


@dataclass(frozen=True)
class Comparison:
    """What can be said about runs side by side. With `reasons` there are no clocks.

    `runs` maps a label to its run ids, `spreads` a phase to what each label needed for it, `words` are lines of text.
    """

    workload: str
    runs: Mapping[str, tuple[str, ...]]
    reasons: tuple[str, ...] = ()
    differences: tuple[Difference, ...] = ()
    spreads: Mapping[str, Mapping[str, Spread]] = field(default_factory=dict)
    words: tuple[str, ...] = ()

    @property
    def comparable(self) -> bool:
        """Whether clocks may stand side by side."""
        return not self.reasons

    def check(self) -> None:
        """Raise CompareError with everything that forbids to compare clocks."""
        if self.reasons:
            raise CompareError(to_text(self))


def compare(groups: Mapping[str, Sequence[Record]]) -> Comparison:
    """Compare the runs of each label; raises CompareError when there are none."""
    found = alike(groups)
    if not found.comparable:
        return found
    groups = {label: groups[label] for label in found.runs}
    spreads = {phase: _spreads(groups, phase) for phase in PHASES}
    equal = found.words[:1] if sum(map(len, groups.values())) > 1 else ()
    clocks = (*_ratios(groups, spreads["total"]), *_counts(found.runs))
    return replace(found, spreads=spreads, words=(*equal, *clocks, *found.words[len(equal) :]))


def alike(groups: Mapping[str, Sequence[Record]]) -> Comparison:
    """Whether clocks of the runs may stand side by side, and what was not the same; without clocks and words on them.

    CompareError where there are no runs.
    """
    order = [*LABELS, *(label for label in groups if label not in LABELS)]
    groups = {label: groups[label] for label in order if groups.get(label)}
    records = [record for group in groups.values() for record in group]
    if not records:
        raise CompareError("no runs to compare")
    runs = {label: tuple(r.run_id for r in group) for label, group in groups.items()}
    workload = records[0].identity.workload
    reasons = _reasons(records)
    differences = () if reasons else tuple(_all_differences(groups))
    if differences:
        places = len({d.path for d in differences})
        reasons = (f"the answers differ in {places} {'place' if places == 1 else 'places'}",)
    if reasons:
        return Comparison(workload, runs, reasons, differences)
    words = (
        f"The answers of {len(records)} runs are equal within the workload's tolerance." if len(records) > 1 else "",
        *_overlaps(groups),
        *_unequal(groups),
        *_unused(records[0]),
    )
    return Comparison(workload, runs, words=tuple(filter(None, words)))


def answer_differences(a: object, b: object, tolerance: Mapping[str, float]) -> list[Difference]:
    """Every leaf in which the JSON values `a` and `b` differ.

    `tolerance` maps dotted names to absolute tolerances of numbers. Lists do not count in a name: `sources.sum` is the
    `sum` of every element of the list `sources`. Leaves that are not named must be equal; 1 and 1.0 are, true and 1
    are not. NaN equals NaN.
    """
    return list(_differences(a, b, tolerance, "", ""))


def _differences(a: Any, b: Any, tolerance: Mapping[str, float], path: str, name: str) -> Iterator[Difference]:
    if isinstance(a, dict) and isinstance(b, dict):
        for key in [*a, *(key for key in b if key not in a)]:
            below = (_join(path, key), _join(name, key))
            if key in a and key in b:
                yield from _differences(a[key], b[key], tolerance, *below)
            else:
                yield Difference(below[0], a.get(key, ABSENT), b.get(key, ABSENT))
    elif isinstance(a, list) and isinstance(b, list):
        if len(a) != len(b):
            yield Difference(f"{path} (number of elements)", len(a), len(b))
        for index, (left, right) in enumerate(zip(a, b, strict=False)):
            yield from _differences(left, right, tolerance, f"{path}[{index}]", name)
    elif not _same(a, b, tolerance.get(name)):
        yield Difference(path or "answer", a, b, tolerance.get(name) if _is_number(a) and _is_number(b) else None)


def _same(a: Any, b: Any, tolerance: float | None) -> bool:
    if not (_is_number(a) and _is_number(b)):
        return type(a) is type(b) and bool(a == b)
    if a == b or (_is_nan(a) and _is_nan(b)):
        return True
    try:
        return tolerance is not None and bool(abs(a - b) <= tolerance)
    except OverflowError:
        return False


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_nan(value: float) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _join(name: str, key: str) -> str:
    return f"{name}.{key}" if name else key


def _reasons(records: Sequence[Record]) -> tuple[str, ...]:
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
        elif r.answer is None:
            reasons.append(f"{_name(r)} printed no answer, so nothing shows that it did the same as the others")
    workloads = sorted({r.identity.workload for r in records})
    if len(workloads) > 1:
        reasons.append(clean(f"the runs are of different workloads: {', '.join(workloads)}"))
    return tuple(reasons)


def _name(record: Record) -> str:
    return f"{record.identity.framework} run {record.run_id}"


def _all_differences(groups: Mapping[str, Sequence[Record]]) -> Iterator[Difference]:
    """Between every two different answers; a place once for each two labels."""
    distinct: dict[tuple[str, str], Record] = {}
    for label, group in groups.items():
        for r in group:
            distinct.setdefault((label, json.dumps(plain([r.answer, r.tolerance]), sort_keys=True)), r)
    seen: set[tuple[str, str, str]] = set()
    for ((label, _), one), ((other_label, _), other) in itertools.combinations(distinct.items(), 2):
        tolerance = {n: min(t, other.tolerance[n]) for n, t in one.tolerance.items() if n in other.tolerance}
        for d in answer_differences(one.answer, other.answer, tolerance):
            place = (d.path, label, other_label)
            if place not in seen:
                seen.add(place)
                yield Difference(d.path, d.a, d.b, d.tolerance, _name(one), _name(other))


def _spreads(groups: Mapping[str, Sequence[Record]], phase: str) -> dict[str, Spread]:
    values = {
        label: [v for r in group if (v := getattr(r.phases, phase)) is not None] for label, group in groups.items()
    }
    return {label: Spread(statistics.median(v), min(v), max(v), len(v)) for label, v in values.items() if v}


def ratio(base: Sequence[Record], other: Sequence[Record], phase: str = "total") -> stats.Ratio | None:
    """How many times as long the phase took in `other`; None where no two repeats have clocks of it."""
    found = pairs(base, other, phase)
    return stats.paired(*zip(*found, strict=True)) if found else None


def pairs(base: Sequence[Record], other: Sequence[Record], phase: str) -> list[tuple[float, float]]:
    """Seconds of the phase in runs that belong together, where both have them.

    Repeats are paired by their number in the series that they have in common, else in the order given.
    """
    numbered = [[((r.series.label, r.series.index), r) for r in group if r.series] for group in (base, other)]
    one, two = map(dict, numbered)
    each_once = [len(one), len(two)] == list(map(len, numbered))
    both = [(one[place], two[place]) for place in one if each_once and place in two]
    clocks = ((getattr(a.phases, phase), getattr(b.phases, phase)) for a, b in both or zip(base, other, strict=False))
    return [(a, b) for a, b in clocks if a and b]


def _ratios(groups: Mapping[str, Sequence[Record]], totals: Mapping[str, Spread]) -> Iterator[str]:
    known = {label: spread for label, spread in totals.items() if spread.median > 0}
    pairs = [sorted(("torch", "ray"), key=lambda label: known[label].median)] if {"torch", "ray"} <= set(known) else []
    pairs += [["single", label] for label in ("torch", "ray") if {"single", label} <= set(known)]
    for base, other in pairs:
        a, b = totals[base], totals[other]
        found = ratio(groups[base], groups[other])
        if found is None or found.n < 2:
            found = stats.Ratio(b.median / a.median, 1)
        against_one = base == "single"
        than = "one process" if against_one else base
        clocks = f"{'medians ' if found.n > 1 else ''}{seconds_text(b.median)} s, {seconds_text(a.median)} s"
        yield f"In total {other} {_took(found, than)} ({clocks}){_verdict(found, against_one=against_one)}."
        inner = ratio(groups[base], groups[other], "compute")
        if inner is not None and inner.n > 1:
            yield f"In the inner loop alone (compute) it {_took(inner, than)}{_verdict(inner)}."


def _took(found: stats.Ratio, than: str) -> str:
    alike = f"{found.value:.2f}" == "1.00"
    return f"took as long as {than}" if alike else f"took {found.value:.2f} times as long as {than}"


def _verdict(found: stats.Ratio, *, against_one: bool = False) -> str:
    verdict = found.verdict
    if found.n == 1:
        beat = "beat" if found.value < 1 and f"{found.value:.2f}" != "1.00" else "did not beat"
        return f"; the cluster {beat} one process" if against_one else ""
    if found.low is None:
        return f"; {verdict} ({found.n} pairs, {stats.LEAST_PAIRS} are needed)"
    said = f"; at {stats.CONFIDENCE:.0%} {found.low:.2f} to {found.high:.2f} times: {verdict}".replace("%", " %")
    if against_one and verdict in ("faster", "slower"):
        said += f"; the cluster {'beat' if verdict == 'faster' else 'did not beat'} one process"
    return said


def _counts(runs: Mapping[str, Sequence[str]]) -> Iterator[str]:
    counts = {label: len(ids) for label, ids in runs.items()}
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
    """What was not the same in all runs and may explain a difference of clocks."""
    facts = {label: [_conditions(r) for r in group] for label, group in groups.items()}
    for name in sorted({name for group in facts.values() for fact in group for name in fact}):
        values = {label: sorted({_show(fact.get(name, ABSENT)) for fact in group}) for label, group in facts.items()}
        if len({value for group in values.values() for value in group}) > 1:
            yield f"Not the same in all runs: {clean(name)}: " + "; ".join(
                f"{label} {', '.join(group)}" for label, group in values.items()
            )


def _conditions(record: Record) -> dict[str, Any]:
    of_run, speed = record.identity, record.speed
    parameters = {f"parameter {key}": value for key, value in of_run.parameters.items()}
    fixed = {"release": of_run.release, "seed": of_run.seed, "cluster": record.cluster.name}
    return parameters | fixed | {"threads a rank": speed.threads, "cache": speed.cache}


def _unused(record: Record) -> Iterator[str]:
    names = set(_leaf_names(record.answer, ""))
    for name in record.tolerance:
        if name not in names:
            yield f"The tolerance of {clean(name)} names nothing in the answer."


def _leaf_names(value: Any, name: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaf_names(item, _join(name, key))
    elif isinstance(value, list):
        for item in value:
            yield from _leaf_names(item, name)
    else:
        yield name


def seconds_text(value: float) -> str:
    """`12.34`, `0.123`."""
    return f"{value:.2f}" if value >= 0.995 or value == 0 else f"{value:.3f}"


def _show(value: Any) -> str:
    if value is ABSENT:
        return "absent"
    text = json.dumps(plain(value))
    return text if len(text) <= 60 else f"{text[:45]} ... {text[-10:]}"


def _cells(comparison: Comparison) -> list[list[str]]:
    """Header and rows of the table of clocks, seconds."""
    labels = list(comparison.runs)
    rows = [["seconds", *labels]]
    for phase, spreads in comparison.spreads.items():
        rows.append([phase, *(_cell(spreads.get(label)) for label in labels)])
    return [*rows, ["runs", *(str(len(ids)) for ids in comparison.runs.values())]]


def _cell(spread: Spread | None) -> str:
    if spread is None:
        return "-"
    around = f" ({spread.low:.3f}..{spread.high:.3f})" if spread.n > 1 else ""
    return f"{spread.median:.3f}{around}"


def _refusal(comparison: Comparison) -> list[str]:
    differences = [f"  {difference}" for difference in comparison.differences[:_SHOWN]]
    if len(comparison.differences) > _SHOWN:
        differences.append(f"  and {len(comparison.differences) - _SHOWN} more")
    return [f"{clean(comparison.workload)}: clocks are not compared:", *comparison.reasons, *differences]


def to_table(comparison: Comparison) -> "Table":
    """The clocks side by side, or what forbids it; the words are not part of it."""
    from rich.table import Table
    from rich.text import Text

    if not comparison.comparable:
        table = Table(show_header=False, box=None)
        for line in _refusal(comparison):
            table.add_row(Text(line))
        return table
    header, *rows = _cells(comparison)
    table = Table(title=Text(clean(comparison.workload)))
    for index, name in enumerate(header):
        table.add_column(Text(name), justify="right" if index else "left", no_wrap=True)
    for row in rows:
        table.add_row(*map(Text, row), end_section=row[0] in {"collect", "total"})
    return table


def to_text(comparison: Comparison) -> str:
    """Table and words as aligned plain text that ends without a newline, for a pipe."""
    if not comparison.comparable:
        return "\n".join(_refusal(comparison))
    cells = _cells(comparison)
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))])
        for row in cells
    ]
    return "\n".join([clean(comparison.workload), *lines, "", *comparison.words])


def show(comparison: Comparison, console: Console) -> None:
    """Print the clocks and the words; raises CompareError with what forbids it."""
    comparison.check()
    from rich.console import Group
    from rich.text import Text

    console.show(Group(to_table(comparison), *map(Text, comparison.words)), to_text(comparison))


def to_json(comparison: Comparison) -> str:
    """The text of `to_dict`, strict JSON that ends with a newline."""
    return json.dumps(to_dict(comparison), indent=1, allow_nan=False) + "\n"


def to_dict(comparison: Comparison) -> dict[str, Any]:
    """The same facts for machines; `phases` is null where clocks must not be compared."""
    document = plain(comparison)
    document["phases"] = document.pop("spreads") if comparison.comparable else None
    document["differences"] = [
        {key: value for key, value in plain(d).items() if value is not ABSENT} for d in comparison.differences
    ]
    return {"schema_version": 1, "comparable": comparison.comparable, **document}


def write_json(comparison: Comparison, path: Path) -> None:
    """Write `to_json` to `path`, whole or not at all; raises CompareError."""
    try:
        write_atomically(path, to_json(comparison))
    except OSError as error:
        raise CompareError(f"{path} cannot be written: {error.strerror or error}") from error
