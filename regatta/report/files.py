"""Writes a report: the page, its tables as Markdown and CSV, its charts as SVG and PNG."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from regatta import files
from regatta.errors import RecordError
from regatta.report import drawing, images, page, texts
from regatta.report.drawing import Drawer
from regatta.report.page import Report
from regatta.report.tables import Table

PAGE = "report.html"


@dataclass(frozen=True)
class Written:
    """The page, and the other files. `not_drawn`: cases whose charts were not written as files."""

    page: Path
    others: tuple[Path, ...]
    not_drawn: int


def write(
    folder: Path, report: Report, formats: Sequence[str], most_cases: int, drawer: Drawer | None = None
) -> Written:
    """Write everything below `folder`, charts of the latest `most_cases` cases. RecordError where that fails."""
    latest = sorted(report.summaries, key=lambda summary: summary.case.latest, reverse=True)
    try:
        for name in ("tables", "charts") if formats else ("tables",):
            (folder / name).mkdir(parents=True, exist_ok=True)
        drawn = latest[:most_cases] if formats else []
        wanted = [*images.of_all(report.summaries), *images.of_cases(drawn)] if formats else []
        with drawing.at_hand(drawer) as own:
            svgs = {name: own.svg(images.still(spec, rows)) for name, spec, rows in wanted}
            pngs = {name: own.png(svg) for name, svg in svgs.items() if "png" in formats}
            files.write(folder / PAGE, page.render(report, own))
            others = [folder / "tables.md"]
            files.write(others[0], markdown(report))
            for table in report.tables:
                others.append(folder / "tables" / f"{texts.file_name(table.name)}.csv")
                files.write(others[-1], as_csv(table))
            others += images.write(folder / "charts", svgs if "svg" in formats else {}, pngs)
    except OSError as error:
        raise RecordError(
            f"the report cannot be written to {folder}: name another folder by --out ({error.strerror or error})"
        ) from error
    return Written(folder / PAGE, tuple(others), len(report.summaries) - len(drawn) if formats else 0)


def markdown(report: Report) -> str:
    """All tables but that of every run."""
    parts = [f"# {report.title}", f"{len(report.records)} runs. Made {report.made}.", *report.notes]
    parts += [f"- {line}" for line in report.broken]
    for table in report.tables:
        if table.name != "runs":
            parts.append(f"## {table.title}\n\n{as_markdown(table)}")
    return "\n\n".join(parts) + "\n"


def as_markdown(table: Table) -> str:
    """A table of GitHub's Markdown, with its note."""
    lines = [
        _row(table.columns),
        _row(["---"] + ["---" if table.prose else "---:"] * (len(table.columns) - 1)),
        *map(_row, table.rows),
    ]
    return "\n".join([*lines, *(["", table.note] if table.note else [])])


def as_csv(table: Table) -> str:
    """The columns and rows, without title and note."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(table.rows)
    return text.getvalue()


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
