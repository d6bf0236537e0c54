"""Charts as SVG and PNG files, drawn by vl-convert without a browser or a network."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from regatta.report import across, charts, curves, specs, texts, theme
from regatta.report.charts import Row
from regatta.report.drawing import Drawer
from regatta.report.specs import Spec
from regatta.report.summary import Summary

_WIDTH = 640


def of_all(summaries: Sequence[Summary]) -> Iterator[tuple[str, Spec, list[Row]]]:
    """As `of_cases`: the charts of several cases together, where there are some."""
    if rows := charts.overview(summaries):
        yield "overview", specs.OVERVIEW, rows
    for picture in [*across.pictures(summaries), *curves.pictures(summaries)]:
        yield picture.name, picture.spec, [*picture.rows]


def of_cases(summaries: Sequence[Summary]) -> Iterator[tuple[str, Spec, list[Row]]]:
    """File name without ending, specification and rows of each chart that has something to draw."""
    taken: dict[str, int] = {}
    for summary in summaries:
        words = f"{summary.case.workload} {summary.case.title}"
        base = re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")[:60]
        taken[base] = taken.get(base, 0) + 1
        name = base if taken[base] == 1 else f"{base}-{taken[base]}"
        for chart in charts.CHARTS:
            if rows := chart.rows(summary):
                yield f"{name}-{chart.kind}", chart.spec, rows


def still(spec: Spec, rows: Sequence[Row], background: str) -> Spec:
    """One chart as it is drawn into a file: light, 640 pixels wide."""
    look = {"width": _WIDTH, "config": theme.config(dark=False), "background": background}
    return charts.with_rows(spec, rows) | look


def write(folder: Path, name: str, text: str, formats: Sequence[str], drawer: Drawer) -> list[Path]:
    """Write one chart, the text of an SVG, in each format. Raises OSError, RecordError."""
    written = []
    for ending in formats:
        path = folder / f"{texts.file_name(name)}.{ending}"
        if ending == "svg":
            path.write_text(text, encoding="utf-8")
        else:
            path.write_bytes(drawer.png(text).result())
        written.append(path)
    return written
