"""The time that a run may take: what such a run took before, else a rough guess from its size."""

import statistics
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from regatta.bench.order import Entry
from regatta.experiments.invocation import options
from regatta.frameworks import registry
from regatta.records.record import Record

_Kind = tuple[str, str, int | None, int, str]


@dataclass
class Estimates:
    """Seconds that runs of the same kind have taken, end to end; `add` what has just ended."""

    known: dict[_Kind, list[float]] = field(default_factory=lambda: defaultdict(list))

    @classmethod
    def of(cls, records: Iterable[Record], cluster: str) -> "Estimates":
        """From what is recorded of a cluster."""
        made = cls()
        for record in records:
            if record.cluster.name == cluster:
                made.add(record)
        return made

    def add(self, record: Record) -> None:
        """Take in a record; those of runs that are in no plan, or have failed, say nothing."""
        found, total = record.identity, record.phases.total
        counts = record.exit.state == "succeeded" and not record.others
        if counts and total is not None and record.series and record.series.point:
            size, workers = found.parameters.get("size"), int(found.parameters.get("workers", 1))
            words = " ".join(map(str, found.parameters.get("options", ())))
            self.known[(found.workload, found.framework, size, workers, words)].append(total)

    def seconds(self, entry: Entry) -> tuple[float, bool]:
        """Seconds of a run, and whether that is the median of similar runs; else they are estimated by its size."""
        point = entry.point
        framework = registry.of_run(entry.framework)
        workers = 1 if framework.single else point.workers
        if taken := self.known.get((point.workload, entry.framework, point.size, workers, " ".join(options(point)))):
            return statistics.median(taken), True
        work = point.of.card.work(point.size, point.values)
        return framework.start_seconds + work / workers, False

    def total(self, entries: Iterable[Entry]) -> float:
        """Seconds of all these runs, one after another."""
        kinds: dict[tuple[str, str], list[Entry]] = defaultdict(list)
        for entry in entries:
            kinds[entry.point.name, entry.framework].append(entry)
        return sum(self.seconds(same[0])[0] * len(same) for same in kinds.values())


def span(seconds: float) -> str:
    """`45 s`, `12 min`, `3 h 05 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"
