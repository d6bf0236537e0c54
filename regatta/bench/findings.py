"""The results of a bench, a row a point: times, ratios with intervals and verdicts, with published figures."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from regatta.bench import order
from regatta.experiments.plans import Point
from regatta.records import compare, stats
from regatta.records.clocks import TITLES
from regatta.records.record import SINGLE, Record
from regatta.terminal.comparison import to_text
from regatta.terminal.table import aligned
from regatta.text import clean

_MOST_BESIDE = 3
"""The most frameworks whose columns are next to each other."""


_ABOUT_RATIOS = "a : b is the time of a divided by that of b: below 1, a is faster"


@dataclass(frozen=True)
class Finding:
    """A point of a plan: its comparison, and the runs that are not part of it, each with a reason."""

    point: Point
    groups: Mapping[str, Sequence[Record]]
    comparison: compare.Comparison | None
    failed: tuple[str, ...]
    at_least: float = stats.AT_LEAST

    def medians(self) -> dict[str, dict[str, float]]:
        """Seconds by timer and framework; none where they must not be compared."""
        if self.comparison is None or not self.comparison.comparable:
            return {}
        spreads = self.comparison.spreads
        return {clock: {side: spread.median for side, spread in spreads[clock].items()} for clock in TITLES}

    def ratios(self, clock: str) -> list[tuple[str, str, stats.Ratio]]:
        """(framework, the one that it is compared with, ratio of their seconds) of each pair that has run."""
        found = [(*pair, self.ratio(*pair, clock)) for pair in _pairs(self.point.frameworks)]
        return [(other, base, ratio) for other, base, ratio in found if ratio]

    def ratio(self, other: str, base: str, clock: str) -> stats.Ratio | None:
        """Return how many times the seconds of `base` another framework took; None where one has not run."""
        groups = self.groups
        if not (groups.get(base) and groups.get(other)):
            return None
        return compare.ratio(groups[base], groups[other], clock, self.at_least)


def findings(points: Sequence[Point], records: Sequence[Record], at_least: float = stats.AT_LEAST) -> list[Finding]:
    """Compare what has succeeded at each point; warm-ups are left out, and failures named.

    `at_least`: the part by which times differ, if that is to matter.
    """
    found = []
    for point in points:
        mine = [r for r in records if r.series and r.series.point == point.name and not r.series.warm_up]
        groups: dict[str, Sequence[Record]] = {f: [r for r in mine if _counts(r, f)] for f in point.frameworks}
        good = order.recorded(mine, retry=True)
        bad = [r for r in mine if r.exit.state in ("failed", "lost") and order.key_of(r) not in good]
        failed = tuple(map(_failure, bad))
        any_run = any(groups.values())
        found.append(Finding(point, groups, compare.compare(groups) if any_run else None, failed, at_least))
    return found


def lines(found: Sequence[Finding], width: int | None = None) -> list[str]:
    """The tables as text, end to end and compute, then what forbids to compare, and what failed.

    A row has a point with all its frameworks; where they are many, one of them, next to only the single process.
    See `table.aligned` on `width`.
    """
    published = any(finding.point.published for finding in found)
    sides = [*dict.fromkeys([SINGLE, *(framework for finding in found for framework in finding.point.frameworks)])]
    others = [side for side in sides if side != SINGLE]
    shown: list[str] = []
    for phase, what in TITLES.items():
        references = others if published and phase == "total" else []
        if len(others) > _MOST_BESIDE:
            rows = [_columns(references), *(row for finding in found for row in _rows(finding, phase, references))]
        else:
            columns = ["point", *(f"{side} s" for side in sides), *(f"{a} : {b}" for a, b in _pairs(sides))]
            columns += [f"published: {side}" if side == references[0] else side for side in references]
            rows = [columns, *(_row(finding, phase, sides, references) for finding in found)]
        shown += [
            f"{what} (medians; ratios with their {stats.CONFIDENCE:.0%} intervals)".replace("%", " %"),
            *aligned(rows, width=width),
            "",
        ]
    if 1 < len(sides) <= _MOST_BESIDE + 1:
        shown += [_ABOUT_RATIOS, ""]
    if published:
        shown += ["published: other people's seconds, on other hardware; not compared", ""]
    for finding in found:
        if finding.comparison is not None and not finding.comparison.comparable:
            shown.append(f"{finding.point.name}: " + to_text(finding.comparison))
        shown += [f"{finding.point.name}: {line}" for line in finding.failed]
        if beside := finding.comparison.beside if finding.comparison else ():
            shown.append(
                f"{finding.point.name}: {len(beside)} run(s) timed while others ran and left out: {', '.join(beside)}"
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
        cells = ["-"] * (len(sides) + len(pairs))
        cells[len(sides) if pairs else 0] = _why(comparison)
        return [finding.point.name, *cells, *reference]
    clocks = [_clock(comparison, side, phase) for side in sides]
    return [finding.point.name, *clocks, *(_ratio(finding, *pair, phase) for pair in pairs), *reference]


def _columns(references: Sequence[str]) -> list[str]:
    return ["point", "framework", "seconds", f"times those of {SINGLE}", *(["published"] if references else [])]


def _rows(finding: Finding, phase: str, references: Sequence[str]) -> list[list[str]]:
    """A row for each framework of the point."""
    comparison = finding.comparison
    made: list[list[str]] = []
    for side in finding.point.frameworks:
        if comparison is None or not comparison.comparable:
            cells = ["-", _why(comparison)]
        else:
            cells = [_clock(comparison, side, phase), "" if side == SINGLE else _ratio(finding, side, SINGLE, phase)]
        theirs = finding.point.published.get(side)
        cells += [f"{theirs:.0f}" if theirs else "-"] if references else []
        made.append(["" if made else finding.point.name, side, *cells])
    return made


def _why(comparison: compare.Comparison | None) -> str:
    """Why there is nothing to compare."""
    return "no run succeeded" if comparison is None else "answers differ"


def _clock(comparison: compare.Comparison, side: str, phase: str) -> str:
    spreads = comparison.spreads[phase]
    mark = " *" if side in comparison.marked else ""
    return compare.seconds_text(spreads[side].median) + mark if side in spreads else "-"


def _ratio(finding: Finding, other: str, base: str, phase: str) -> str:
    ratio = finding.ratio(other, base, phase)
    return f"{ratio} {ratio.verdict}" if ratio else "-"
