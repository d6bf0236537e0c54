"""The effort of each framework next to its times: as a table of a report, and of the command `effort`."""

from collections.abc import Iterable, Mapping, Sequence

from regatta.effort.effort import Effort, FirstRun
from regatta.records.record import Record
from regatta.report import texts
from regatta.report.tables import Table

COLUMNS = (
    *("workload", "framework", "lines", "bare program", "packages", "size"),
    *("services", "ports", "steps", "first run", "from bare hosts", "seen while it works"),
)
_NOTE = (
    "Lines: code of Regatta that the workload has under the framework and not in a plain loop, without comments. Bare "
    "program: lines by which a program of the same items without Regatta differs from its plain loop. Packages and "
    "size: of the framework in the environment of runs on this machine. Steps: commands and settings from bare hosts "
    "to an answer. First run: the earliest with a record, end to end. From bare hosts: provisioning of them, and that "
    "run. –: not known here."
)


def table(efforts: Iterable[Effort]) -> Table:
    """A row for each workload and framework."""
    return Table(
        "effort", "Effort of each framework", COLUMNS, tuple(_row(one) for one in efforts), _NOTE, grouped=True
    )


def first_runs(
    records: Sequence[Record], provisioned: Mapping[str, float] | None = None
) -> Mapping[tuple[str, str], FirstRun]:
    """The first run that succeeded of each workload and framework.

    `provisioned`: seconds of making a cluster of bare hosts, by its name.
    """
    found: dict[tuple[str, str], FirstRun] = {}
    for record in sorted(records, key=lambda one: one.identity.started):
        if record.exit.state == "succeeded" and (seconds := record.phases.total) is not None:
            before = (provisioned or {}).get(record.cluster.name)
            run = FirstRun(seconds, None if before is None else before + seconds)
            found.setdefault((record.identity.workload, record.identity.framework), run)
    return found


def _row(one: Effort) -> tuple[str, ...]:
    return (
        one.workload,
        one.framework,
        _number(one.lines),
        _number(one.bare),
        _number(one.packages),
        texts.size(one.bytes) if one.bytes != 0 else "–",
        ", ".join(one.services) or "–",
        ports(one),
        f"{len(one.steps)}: {'; '.join(one.steps)}",
        texts.seconds(one.seconds),
        texts.seconds(one.from_bare),
        "; ".join(one.seen),
    )


def ports(one: Effort) -> str:
    """`11 and ranges`."""
    return f"{one.ports}{' and ranges' * one.ranged}" if one.services else "–"


def _number(value: int | None) -> str:
    return "–" if value is None else str(value)
