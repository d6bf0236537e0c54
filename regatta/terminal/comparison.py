"""A comparison as text, and its file."""

from pathlib import Path

from regatta import files
from regatta.errors import CompareError
from regatta.records.compare import Comparison, Spread
from regatta.terminal.console import Console
from regatta.terminal.table import aligned
from regatta.text import clean

_SHOWN = 20


def check(comparison: Comparison) -> None:
    """Raise CompareError with everything that forbids to compare times."""
    if not comparison.comparable:
        raise CompareError(to_text(comparison))


def _cells(comparison: Comparison) -> list[list[str]]:
    """Header and rows of the table of times, seconds."""
    labels = list(comparison.runs)
    rows = [["seconds", *labels]]
    for phase, spreads in comparison.spreads.items():
        cells = (_cell(spreads.get(label), marked=label in comparison.marked) for label in labels)
        rows.append([phase, *cells])
    return [*rows, ["runs", *(str(len(ids)) for ids in comparison.runs.values())]]


def _cell(spread: Spread | None, *, marked: bool) -> str:
    if spread is None:
        return "-"
    around = f" ({spread.low:.3f}..{spread.high:.3f})" if spread.n > 1 else ""
    return f"{spread.median:.3f}{around}{' *' if marked else ''}"


def _refusal(comparison: Comparison) -> list[str]:
    differences = [f"  {difference}" for difference in comparison.differences[:_SHOWN]]
    if len(comparison.differences) > _SHOWN:
        differences.append(f"  and {len(comparison.differences) - _SHOWN} more")
    return [f"{clean(comparison.workload)}: times are not compared:", *comparison.reasons, *differences]


def to_text(comparison: Comparison, width: int | None = None) -> str:
    """Table and words as aligned plain text that ends without a newline; see `table.aligned` on `width`."""
    if not comparison.comparable:
        return "\n".join(_refusal(comparison))
    lines = aligned(_cells(comparison), numbers=True, width=width)
    return "\n".join([clean(comparison.workload), *lines, "", *comparison.words])


def show(comparison: Comparison, console: Console) -> None:
    """Print the times and the words; raises CompareError with what forbids it."""
    check(comparison)
    console.note(to_text(comparison, console.width))


def write_json(text: str, path: Path) -> None:
    """Write a comparison as JSON to `path`, whole or not at all; raises CompareError."""
    try:
        files.write(path, text + "\n")
    except OSError as error:
        raise CompareError(f"{path} cannot be written: name another file ({error.strerror or error})") from error
