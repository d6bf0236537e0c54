"""The outcomes of the fault tests: kept as JSON, and written into docs/results/faults.md by `python outcomes.py`."""

import json
import re
import statistics
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[3]
PAGE = PROJECT / "docs/results/faults.md"
KEPT = Path(__file__).with_name("outcomes.json")
BEGIN = "<!-- faults: what follows is made from the tests by `make test-faults` -->"
END = "<!-- faults: end -->"
FAMILIES = {
    "rank": "A rank",
    "framework": "Supervisors and Ray's daemons",
    "hdfs": "HDFS's daemons, in a run that reads",
    "host": "A host",
    "network": "A host's network",
    "shared": "The shared folder",
    "resources": "Disks, clocks, sshd",
    "controller": "The controller",
    "spark": "Spark",
    "provision": "Provisioning",
}
FRAMEWORKS = ("torch", "ray", "tensorflow", "ray-tensorflow", "spark")


@dataclass(frozen=True)
class Cell:
    """One fault under one framework ("-" where none is involved).

    `outcome`: a few words, or why it is not tested (then `tested` is false). `message`: what the person saw first.
    `seconds`: from the fault to that message, None where there was none to wait for.
    """

    family: str
    fault: str
    framework: str
    outcome: str
    message: str = ""
    seconds: float | None = None
    tested: bool = True
    passed: bool = True


def load(path: Path) -> list[Cell]:
    """The cells of a file; none where there is no such file."""
    return [Cell(**cell) for cell in json.loads(path.read_text())] if path.exists() else []


def save(path: Path, cells: Iterable[Cell]) -> None:
    """Write cells; those that a file has of faults which were not tested this time stay."""
    known = {(cell.family, cell.fault, cell.framework): cell for cell in load(path)}
    known |= {(cell.family, cell.fault, cell.framework): cell for cell in cells}
    new = path.with_suffix(".new")
    new.write_text(json.dumps([asdict(cell) for cell in known.values()], indent=1) + "\n")
    new.replace(path)


def markdown(cells: Sequence[Cell]) -> str:
    """The tables, one a family, the messages, and the figures over all."""
    lines = [_summary(cells)]
    for family, title in FAMILIES.items():
        own = [cell for cell in cells if cell.family == family]
        if own:
            lines += ["", f"### {title}", "", *_table(own)]
    return "\n".join(lines)


def _summary(cells: Sequence[Cell]) -> str:
    tested = [cell for cell in cells if cell.tested]
    failing = sum(not cell.passed for cell in tested)
    said = [cell.seconds for cell in tested if cell.seconds is not None]
    rank = [cell.seconds for cell in tested if cell.seconds is not None and cell.family == "rank"]
    text = f"{len(tested)} cells tested, {failing} failing, {len(cells) - len(tested)} not tested here."
    if said:
        text += f" From the fault to its message: median {statistics.median(said):.1f} s, worst {max(said):.1f} s"
        text += f" (a rank: median {statistics.median(rank):.1f} s, worst {max(rank):.1f} s)." if rank else "."
    return text


def _table(cells: Sequence[Cell]) -> list[str]:
    lines = ["| fault | framework | outcome | first message | after |", "|---|---|---|---|---|"]
    faults = list(dict.fromkeys(cell.fault for cell in cells))
    order = {name: place for place, name in enumerate(FRAMEWORKS)}
    for cell in sorted(cells, key=lambda one: (faults.index(one.fault), order.get(one.framework, len(order)))):
        outcome = cell.outcome if cell.passed else f"**the test fails**: {cell.outcome}"
        outcome = outcome if cell.tested else f"not tested here: {outcome}"
        after = "" if cell.seconds is None else f"{cell.seconds:.1f} s"
        lines.append(f"| {cell.fault} | {cell.framework} | {outcome} | {_quoted(cell.message)} | {after} |")
    return lines


def _quoted(message: str) -> str:
    """One line of Markdown code: what is chance (addresses, names of runs, numbers of processes) is named."""
    text = re.sub(r"/tmp/pytest-\S*/", "", " ".join(message.split()))
    text = re.sub(r"\b\d+\.\d+\.\d+\.\d+\b", "ADDRESS", text)
    text = re.sub(r"\bf-[a-z0-9-]+\b", "RUN", text).replace("|", "/").replace("`", "'")
    return f"`{text[:240]}{' ...' if len(text) > 240 else ''}`" if text else ""


def write(page: Path, cells: Sequence[Cell]) -> None:
    """Put the tables between the page's markers; what people wrote around them stays."""
    before, begin, rest = page.read_text().partition(BEGIN)
    _old, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page} lacks '{BEGIN}' or '{END}'")
    page.write_text(f"{before}{BEGIN}\n\n{markdown(cells)}\n\n{END}{after}")


def main() -> int:
    """Entry point."""
    write(PAGE, load(KEPT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
