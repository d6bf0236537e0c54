"""Charts as SVG and PNG files, drawn by vl-convert without a browser or a network."""

import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path

from regatta.report import across, charts, curves, drawing, specs, texts, theme
from regatta.report.charts import Row
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


def still(spec: Spec, rows: Sequence[Row]) -> Spec:
    """One chart as it is drawn without a browser: for a light page, 640 pixels wide."""
    look = {"width": _WIDTH, "config": theme.config(dark=False), "background": "transparent"}
    return charts.with_rows(spec, rows) | look


def write(folder: Path, svgs: Mapping[str, Future[str]], pngs: Mapping[str, Future[bytes]]) -> list[Path]:
    """Write charts by name, when they are drawn. Raises OSError, RecordError."""
    written = []
    for name, svg in svgs.items():
        written.append(folder / f"{texts.file_name(name)}.svg")
        written[-1].write_text(drawing.on_white(svg.result()), encoding="utf-8")
    for name, png in pngs.items():
        written.append(folder / f"{texts.file_name(name)}.png")
        written[-1].write_bytes(png.result())
    return written
