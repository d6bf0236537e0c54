"""Puts a report together from records."""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from regatta.cards import discovery
from regatta.effort import installed
from regatta.effort.counted import efforts
from regatta.effort.effort import Effort
from regatta.errors import RecordError
from regatta.program import hint
from regatta.records import bare, calibration, stats
from regatta.records.record import Record
from regatta.records.store import Listing, Store
from regatta.report import effort, history, regressions, sources, vega
from regatta.report.cases import Case, card_of, cases
from regatta.report.page import Report
from regatta.report.summary import summarise


def report(
    folder: Path,
    *,
    run: str | None = None,
    only: str | None = None,
    against: Path | None = None,
    at_least: float = stats.AT_LEAST,
    histories: bool = False,
) -> Report:
    """The report of all records in `folder`, or of one run, compared with the earlier ones at `against`.

    `only`: the name of a workload, plan, experiment or point whose runs are reported. `at_least`: the part by which
    times differ, if that is to matter. `histories`: also how each configuration has changed over time.
    RecordError where there is nothing to report or to compare with; files that are no records are named in it.
    """
    with ThreadPoolExecutor(1) as pool:
        bundled = pool.submit(vega.script)  # takes seconds the first time, on a core that is idle
        made = _report(folder, run, only, against, at_least)
        if histories:
            made = replace(made, histories=history.histories([one.case for one in made.summaries]))
        bundled.result()
    return made


def _report(folder: Path, run: str | None, only: str | None, against: Path | None, at_least: float) -> Report:
    store = Store(folder)
    found = store.list() if run is None else Listing((sources.find(store, run),), ())
    if not found.records:
        raise RecordError(f"no records in {folder} yet{_broken(found.broken)}: start a run, or set REGATTA_RESULTS")
    rates = calibration.rates(found.records, at_least)
    if only is not None:
        found = Listing(_only(only, found.records), found.broken)
    earlier = sources.read(against) if against else None
    made = cases(found.records)
    notes = [*_without_card(made), *(f"Measured here: {one}." for one in calibration.of(found.records, at_least))]
    notes += [f"Measured here: {one}." for one in calibration.biases(found.records)]
    changes = None
    if earlier is not None:
        old, repeated = _apart(earlier.records, found.records)
        if not old:
            raise RecordError(f"{against} has only records of the report itself: name a folder of earlier ones")
        if repeated:
            notes.append(f"{repeated} records of {against} are in this report and were left out of the earlier set.")
        changes = regressions.changes(made, cases(old), at_least)
    return Report(
        title="Regatta report" if run is None else f"Regatta run {found.records[0].run_id}",
        made=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        records=found.records,
        summaries=summarise(made, at_least),
        changes=changes,
        against=against.name if against else "",
        broken=(*found.broken, *(earlier.broken if earlier else ())),
        notes=tuple(notes),
        efforts=tuple(_efforts(found.records)),
        rates=rates,
    )


def _efforts(records: Sequence[Record]) -> Iterator[Effort]:
    """Of Regatta's own workloads and frameworks that there are runs of."""
    there = {(record.identity.workload, record.identity.framework) for record in records}
    return efforts(discovery.ours().values(), installed.here(), effort.first_runs(records, bare.known()), there)


def _only(wanted: str, records: Sequence[Record]) -> tuple[Record, ...]:
    """The runs of a workload, plan, experiment or point. RecordError where there are none, with the names there are."""
    names = [
        {run.identity.workload, *((run.series.plan, run.series.point) if run.series else ())} - {None}
        for run in records
    ]
    chosen = tuple(run for run, own in zip(records, names, strict=True) if wanted in own)
    chosen = chosen or tuple(run for run in records if run.series and (run.series.point or "").startswith(f"{wanted}-"))
    if not chosen:
        known = sorted({str(name) for own in names for name in own})
        raise RecordError(
            f"no run is of '{wanted}' (--only takes a workload, plan, experiment or point): {', '.join(known)}"
        )
    return chosen


def _without_card(made: Sequence[Case]) -> Iterator[str]:
    """A sentence about workloads of which this folder has no card: it names their input and published figures."""
    names = sorted({case.workload for case in made if case.answered and card_of(case.workload) is None})
    if names:
        yield (
            f"The folder in which this report was made has no card of {', '.join(names)}: published figures are left "
            f"out, and titles have all parameters. Run '{hint('report')}' in the project that has the card."
        )


def _apart(earlier: Sequence[Record], now: Sequence[Record]) -> tuple[list[Record], int]:
    """The earlier records that are not among those of now, and how many are."""
    known = {record.run_id for record in now}
    old = [record for record in earlier if record.run_id not in known]
    return old, len(earlier) - len(old)


def _broken(broken: Sequence[str]) -> str:
    return f" ({len(broken)} file(s) are none, first: {broken[0]})" if broken else ""
