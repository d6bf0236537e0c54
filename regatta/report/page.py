"""The report as one HTML file that needs nothing else."""

import base64
import functools
import gzip
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from regatta.effort.effort import Effort
from regatta.records import document
from regatta.records.record import Record
from regatta.report import (
    across,
    answers,
    charts,
    curves,
    effort,
    history,
    images,
    overhead,
    scaling,
    specs,
    tables,
    texts,
    theme,
    timeline,
    vega,
)
from regatta.report.drawing import Drawer
from regatta.report.regressions import Change
from regatta.report.summary import Summary
from regatta.report.tables import Table
from regatta.text import fit

_OPEN = 1
_PICTURES, _MANY_RUNS, _PICTURES_OF_MANY = 48, 500, 12
"""The number of charts that are drawn into the page itself, some 45 ms and 22 kB each; a browser draws the others."""


@dataclass(frozen=True)
class Report:
    """The content of a page: `records` are in `summaries`' cases; `changes` is None where nothing was compared with.

    `histories`: of configurations over months, where they are asked for; `broken` are sentences about files that are no
    records, `notes` what else a reader has to know. `rates`: of false verdicts, by cluster.
    """

    title: str
    made: str
    records: tuple[Record, ...]
    summaries: tuple[Summary, ...]
    changes: tuple[Change, ...] | None = None
    against: str = ""
    broken: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    histories: tuple[history.History, ...] = ()
    efforts: tuple[Effort, ...] = ()
    rates: Mapping[str, str] = field(default_factory=dict)

    @property
    def failed(self) -> list[Record]:
        """The runs that did not succeed."""
        return [record for record in self.records if record.exit.state != "succeeded"]

    @functools.cached_property
    def tables(self) -> list[Table]:
        """All tables, in the order of the page."""
        return tables.once(
            [
                *tables.times(self.summaries),
                *tables.alone(self.summaries),
                *tables.published(self.summaries),
                *tables.ratios(self.summaries, self.changes or ()),
                *across.tables(self.summaries),
                *scaling.tables(self.summaries),
                *tables.phases(self.summaries),
                *tables.use(self.summaries),
                *overhead.tables(self.summaries),
                *([effort.table(self.efforts)] if self.efforts else []),
                *([tables.changes(self.changes, self.against, self.summaries)] if self.changes is not None else []),
                *([history.table(self.histories)] if self.histories else []),
                *([tables.failures(failed)] if (failed := self.failed) else []),
                tables.machines(self.records),
                tables.runs(self.records),
            ]
        )


def render(report: Report, drawer: Drawer) -> str:
    """The report as the text of one HTML page, whose charts a drawer draws meanwhile. Raises RecordError."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("regatta.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: fit(value) if type(value) is str else value,
    )
    failed = report.failed
    overview = charts.overview(report.summaries)
    pictures = [*across.pictures(report.summaries), *curves.pictures(report.summaries)]
    over_months = [*enumerate(history.pictures(report.histories), len(pictures))]
    every = [*pictures, *(picture for _, picture in over_months)]
    cases = [_case(summary, number, report.rates) for number, summary in enumerate(report.summaries)]
    drawn = _drawn(report, overview, every, cases, drawer)
    content = {
        "report": report,
        "failed": failed,
        "sections": tables.sections,
        "days": _days(report.records),
        "overview": bool(overview),
        "across": [*enumerate(pictures)],
        "over_months": over_months,
        "history": history.table(report.histories) if report.histories else None,
        "answers": tables.once(scaling.tables(report.summaries)),
        "pays": tables.once(across.tables(report.summaries)),
        "times": tables.once(tables.times(report.summaries)),
        "alone": [*tables.alone(report.summaries)],
        "published": list(tables.published(report.summaries)),
        "ratios": tables.once(tables.ratios(report.summaries, report.changes or ())),
        "phases": tables.once(tables.phases(report.summaries)),
        "use": tables.once(tables.use(report.summaries)),
        "overheads": tables.once(overhead.tables(report.summaries)),
        "effort": effort.table(report.efforts) if report.efforts else None,
        "changes": None if report.changes is None else tables.changes(report.changes, report.against, report.summaries),
        "machines": tables.machines(report.records),
        "runs": tables.runs(report.records),
        "cases": cases,
        "explained": _explained(cases),
        "partly": any(not drawn.get((case["number"], kind)) for case in cases for kind in case["rows"]),
        "failures": tables.failures(failed) if failed else None,
        "only": report.records[0].run_id if len(report.records) == 1 else "",
        "style": _text("report.css"),
        "program": _text("report.js"),
        "vega": vega.script(),
        "payload": _packed(_payload(report, overview, every, cases)),
    }
    svgs = {place: svg.result() for place, svg in drawn.items()}
    return environment.get_template("report.html.j2").render(**content, drawn=svgs)


def _packed(content: bytes) -> str:
    return base64.b64encode(gzip.compress(content, 6, mtime=0)).decode("ascii")


def _case(summary: Summary, number: int, rates: Mapping[str, str]) -> dict[str, Any]:
    case = summary.case
    comparisons = [
        {"workers": workers, "comparison": found, "words": found.words if found.comparable else found.reasons}
        for workers, found in case.comparisons.items()
    ]
    rows = {chart.kind: found for chart in charts.CHARTS if (found := chart.rows(summary))}
    return {
        "case": case,
        "answer": answers.answer(summary),
        "false_verdicts": answers.false_verdicts(summary, rates),
        "number": number,
        "open": number < _OPEN,
        "comparisons": comparisons,
        "charts": [chart for chart in charts.CHARTS if chart.kind in rows],
        "rows": rows,
        "latest": next((run for run in reversed(case.runs) if len(run.cluster.rank_map) > 1), None),
    }


def _explained(cases: Sequence[dict[str, Any]]) -> dict[str, int]:
    """The first case with a kind of chart, by kind: what the chart shows stands there, and only there."""
    kinds = [
        (kind, case["number"]) for case in cases for kind in (*case["rows"], *(["timeline"] * bool(case["latest"])))
    ]
    return dict(reversed(kinds))


def _drawn(
    report: Report,
    overview: list[charts.Row],
    pictures: Sequence[across.Picture],
    cases: Sequence[dict[str, Any]],
    drawer: Drawer,
) -> "dict[tuple[Any, str], Future[str]]":
    """SVGs of the first charts that have rows, by place and kind."""
    wanted = (one for one in _wanted(report, overview, pictures, cases) if one[2])
    most = _PICTURES if len(report.records) <= _MANY_RUNS else _PICTURES_OF_MANY
    chosen = itertools.islice(wanted, most)
    return {place: drawer.svg(images.still(spec, rows)) for place, spec, rows in chosen}


def _wanted(
    report: Report, overview: list[charts.Row], pictures: Sequence[across.Picture], cases: Sequence[dict[str, Any]]
) -> Iterator[tuple[tuple[Any, str], specs.Spec, Sequence[charts.Row]]]:
    """Place and kind, specification and rows of charts: of all cases together, each case's times, then its others."""
    yield ("all", "overview"), specs.OVERVIEW, overview
    yield ("all", "changes"), specs.CHANGES, charts.regressions(report.changes or ())
    for number, picture in enumerate(pictures):
        yield ("across", str(number)), picture.spec, picture.rows
    for case in cases:
        yield (case["number"], "bars"), specs.BARS, case["rows"].get("bars", ())
    by_kind = {chart.kind: chart.spec for chart in charts.CHARTS if chart.kind != "bars"}
    for case in cases:
        for kind, rows in case["rows"].items():
            if kind in by_kind:
                yield (case["number"], kind), by_kind[kind], rows
        if latest := case["latest"]:
            yield (case["number"], "timeline"), specs.TIMELINE, charts.timeline(latest)


def _payload(
    report: Report, overview: list[charts.Row], pictures: Sequence[across.Picture], cases: Sequence[dict[str, Any]]
) -> bytes:
    """Return what the page's program draws, as JSON."""
    drawn = {chart.kind: chart.spec for chart in charts.CHARTS}
    drawn |= {"timeline": specs.TIMELINE, "changes": specs.CHANGES, "overview": specs.OVERVIEW}
    drawn |= {picture.kind: picture.spec for picture in pictures}
    frameworks = {record.identity.framework for record in report.records}
    document = {
        "specs": {kind: specs.coloured(spec, frameworks) for kind, spec in drawn.items()},
        "themes": {"light": theme.config(dark=False), "dark": theme.config(dark=True)},
        "cases": [{kind: charts.fitted(rows) for kind, rows in case["rows"].items()} for case in cases],
        "about_use": texts.ABOUT_USE,
        "changes": charts.fitted(charts.regressions(report.changes or ())),
        "overview": charts.fitted(overview),
        "across": [charts.fitted(picture.rows) for picture in pictures],
        "runs": {record.run_id: _run(record) for record in report.records},
    }
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode()


def _run(record: Record) -> dict[str, Any]:
    words = [*timeline.words(record), *(overhead.words(record.overhead) if record.overhead else ())]
    return {
        "record": document.to_dict(record),
        "timeline": charts.fitted(charts.timeline(record)),
        "words": [fit(line) for line in words],
    }


def _days(records: Sequence[Record]) -> str:
    days = sorted({record.identity.started[:10] for record in records})
    return days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}" if days else "no day"


def _text(name: str) -> str:
    return (resources.files("regatta.report") / "templates" / name).read_text(encoding="utf-8")
