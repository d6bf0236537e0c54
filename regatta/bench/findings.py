"""What a bench has shown, a row a point: clocks, ratios with intervals and verdicts, published figures beside."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from regatta.bench import order
from regatta.experiments.plans import Point
from regatta.frameworks import choice, registry
from regatta.records import compare, stats
from regatta.records.record import SINGLE, Record
from regatta.terminal.comparison import to_text
from regatta.terminal.table import aligned
from regatta.text import clean

CLOCKS = {"total": "end to end, as a person waits", "compute": "the inner loop alone"}


@dataclass(frozen=True)
class Finding:
    """A point of a plan: its comparison, and the runs that are not part of it, each with a reason."""

    point: Point
    groups: Mapping[str, Sequence[Record]]
    comparison: compare.Comparison | None
    failed: tuple[str, ...]


def findings(points: Sequence[Point], records: Sequence[Record]) -> list[Finding]:
    """Compare what has succeeded at each point; warm-ups are left out, and failures named."""
    found = []
    for point in points:
        mine = [r for r in records if r.series and r.series.point == point.name and not r.series.warm_up]
        groups: dict[str, Sequence[Record]] = {f: [r for r in mine if _counts(r, f)] for f in point.frameworks}
        good = order.recorded(mine, retry=True)
        bad = [r for r in mine if r.exit.state in ("failed", "lost") and order.key_of(r) not in good]
        failed = tuple(map(_failure, bad))
        any_run = any(groups.values())
        found.append(Finding(point, groups, compare.compare(groups) if any_run else None, failed))
    return found


def lines(found: Sequence[Finding]) -> list[str]:
    """The tables as text, end to end and the inner loop alone, then what forbids to compare, and what failed."""
    published = any(finding.point.published for finding in found)
    run = {framework for finding in found for framework in finding.point.frameworks}
    sides = registry.ordered({SINGLE, *choice.OF_BOTH, *run})
    others = [side for side in sides if side != SINGLE]
    shown: list[str] = []
    for phase, what in CLOCKS.items():
        references = others if published and phase == "total" else []
        columns = ["point", *(f"{side} s" for side in sides), *(f"{a} : {b}" for a, b in _pairs(sides))]
        columns += [f"published: {side}" if side == references[0] else side for side in references]
        rows = [columns, *(_row(finding, phase, sides, references) for finding in found)]
        shown += [
            f"{what} (medians; ratios with their {stats.CONFIDENCE:.0%} intervals)".replace("%", " %"),
            *aligned(rows),
            "",
        ]
    if published:
        shown += ["published: seconds of others on other hardware; not compared", ""]
    for finding in found:
        if finding.comparison is not None and not finding.comparison.comparable:
            shown.append(f"{finding.point.name}: " + to_text(finding.comparison))
        shown += [f"{finding.point.name}: {line}" for line in finding.failed]
        if beside := finding.comparison.beside if finding.comparison else ():
            shown.append(
                f"{finding.point.name}: {len(beside)} run(s) timed beside other runs and left out: {', '.join(beside)}"
            )
    return shown


def _counts(record: Record, framework: str) -> bool:
    return record.identity.framework == framework and record.exit.state == "succeeded"


def _failure(record: Record) -> str:
    failure, number = record.exit.failure, record.series.index if record.series else 0
    where = f" on {failure.node}" if failure and failure.node else ""
    cause = f": {clean(failure.cause)}" if failure else ""
    return f"{record.identity.framework}, repeat {number} {record.exit.state}{where}{cause} (run {record.run_id})"


def _pairs(sides: Sequence[str]) -> list[tuple[str, str]]:
    """Each is compared with the one behind it: frameworks with each other, then each with the single process."""
    others = [side for side in sides if side != SINGLE]
    return [*itertools.combinations(others, 2), *((side, SINGLE) for side in others if SINGLE in sides)]


def _row(finding: Finding, phase: str, sides: Sequence[str], references: Sequence[str]) -> list[str]:
    comparison, pairs = finding.comparison, _pairs(sides)
    reference = [f"{s:.0f}" if (s := finding.point.published.get(f)) else "-" for f in references]
    if comparison is None or not comparison.comparable:
        word = "no run succeeded" if comparison is None else "answers differ"
        cells = ["-"] * (len(sides) + len(pairs))
        cells[len(sides) if pairs else 0] = word
        return [finding.point.name, *cells, *reference]
    spreads = comparison.spreads[phase]
    mark = {f: " *" if f in comparison.marked else "" for f in spreads}
    clocks = [compare.seconds_text(spreads[f].median) + mark[f] if f in spreads else "-" for f in sides]
    ratios = []
    for other, base in pairs:
        groups = finding.groups
        ratio = compare.ratio(groups[base], groups[other], phase) if groups.get(base) and groups.get(other) else None
        ratios.append(f"{ratio} {ratio.verdict}" if ratio else "-")
    return [finding.point.name, *clocks, *ratios, *reference]
