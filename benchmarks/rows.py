"""Figures that compare: ours and what it is measured against, in one table."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks import machine
from benchmarks.report import seconds


@dataclass(frozen=True)
class Row:
    """A figure: samples in seconds (none where the text says it); `other`: what it is compared with; `target`: text,
    and whether it is reached (None: there is none)."""

    text: str
    samples: Sequence[float]
    other: Sequence[float]
    target: str
    reached: bool | None


def within(text: str, taken: Sequence[float], target: float) -> Row:
    """A row whose target is a time."""
    return Row(text, taken, (), f"{target:g} s", statistics.median(taken) <= target)


def faster(text: str, ours: Sequence[float], other: Sequence[float], name: str, times: float) -> Row:
    """A row whose target is to take the `times`th part of what the other takes."""
    ratio = statistics.median(other) / statistics.median(ours)
    return Row(text, ours, other, f"{times:g} times faster than {name}: {ratio:.1f} times", ratio >= times)


def markdown(rows: Sequence[Row]) -> str:
    """The table for docs/results."""
    lines = ["| figure | median | range | compared with | target | reached |", "|---|---|---|---|---|---|"]
    for row in rows:
        span = f"{seconds(min(row.samples))} to {seconds(max(row.samples))}" if row.samples else "-"
        other, middle = (seconds(statistics.median(them)) if them else "-" for them in (row.other, row.samples))
        reached = {True: "yes", False: "**no**", None: "-"}[row.reached]
        lines.append(f"| {row.text} | {middle} | {span} | {other} | {row.target} | {reached} |")
    return "\n".join(lines)


def publish(name: str, rows: Sequence[Row]) -> None:
    """Print the table, and write the samples to ``results/benchmarks/NAME-<date>.json``."""
    found = machine.describe()
    print(f"{found}\n\n{markdown(rows)}")
    machine.keep(name, found.date, [vars(row) for row in rows])
