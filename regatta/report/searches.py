"""The picture of a search: what each of its trials came to, and the best until then."""

from collections.abc import Iterator
from typing import Any

from regatta.report.cases import Group
from regatta.report.summary import Summary

Row = dict[str, Any]


def rows(summary: Summary) -> list[Row]:
    """The value of each trial, and the best one so far, of the latest run of each configuration that is a search."""
    return [row for group in summary.case.groups if group.runs for row in _of(group)]


def _of(group: Group) -> Iterator[Row]:
    answer = group.runs[-1].answer or {}
    values, metric = answer.get("values"), answer.get("metric")
    if not isinstance(metric, str) or not isinstance(values, list):
        return
    numbers = [(trial, value) for trial, value in enumerate(values, 1) if isinstance(value, int | float)]
    if len(numbers) < 2:
        return
    choose = max if answer.get("value") == max(value for _, value in numbers) else min
    best = numbers[0][1]
    for trial, value in numbers:
        best = choose(best, value)
        yield {
            "configuration": group.configuration.label,
            "framework": group.configuration.framework,
            "metric": metric,
            "trial": trial,
            "value": value,
            "best": best,
        }
