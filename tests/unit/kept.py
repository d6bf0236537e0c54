"""Records of real runs (`tests/unit/records`), and others made of them."""

import random
import shutil
from pathlib import Path

from msgspec import structs

from regatta.records.record import ExitInfo, Failure, Framework, NodeUse, Record, Series
from regatta.records.store import Store

FOLDER = Path(__file__).parent / "records"


def records() -> list[Record]:
    """All of them, earliest first."""
    found = Store(FOLDER).list()
    assert not found.broken
    return list(found.records)


def copy_to(folder: Path) -> Store:
    """A store that holds them."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in FOLDER.glob("*.json"):
        shutil.copy(path, folder)
    return Store(folder)


def one(workload: str, framework: Framework) -> Record:
    """The first run of a workload under a framework."""
    found = (r for r in records() if (r.identity.workload, r.identity.framework) == (workload, framework))
    return next(found)


def again(record: Record, run_id: str, *, times: float = 1.0, series: Series | None = None, count: int = 0) -> Record:
    """The run once more under another name, each phase `times` as long; `count` makes it its own case."""
    phases = structs.asdict(record.phases)
    slower = {name: value * times if value is not None else None for name, value in phases.items()}
    parameters = dict(record.identity.parameters) | ({"count": count} if count else {})
    return structs.replace(
        record,
        identity=structs.replace(record.identity, run_id=run_id, parameters=parameters),
        phases=structs.replace(record.phases, **slower),
        series=series or record.series,
    )


def failed(record: Record, run_id: str = "failed-run") -> Record:
    """The run as if a rank of it had been killed."""
    end = ExitInfo("failed", -9, Failure("killed by SIGKILL", "localhost", 1, ("epoch 1", "<script>alert(1)</script>")))
    return structs.replace(again(record, run_id), answer=None, exit=end)


def measured(record: Record) -> Record:
    """The run with what it used, on a node with and on one without its own processes."""
    ranks = tuple(structs.replace(rank, cpu_seconds=1.5) for rank in record.ranks)
    whole = NodeUse("localhost", 4.0, 3 << 30, 1 << 30, 0, 5_000_000, "lo", 2_500_000, 7_000_000)
    return structs.replace(record, ranks=ranks, use=(whole, NodeUse("node2", sent_bytes=2_000_000)))


def many(count: int) -> list[Record]:
    """`count` runs in cases of 15: three frameworks, five repeats."""
    chance = random.Random(1)
    sides: tuple[Framework, ...] = ("single", "torch", "ray")
    made = []
    for number in range(count):
        case, framework = number // 15, sides[number % 3]
        workload = ("digits", "stars")[case % 2]
        series = Series(f"series-{case}", number % 15 // 3 + 1, 5)
        made.append(
            again(
                one_of[workload, framework],
                f"{workload}-{framework}-{number:04}",
                times=chance.uniform(0.9, 1.1),
                series=series,
                count=case + 1,
            )
        )
    return made


one_of = {(w, f): one(w, f) for w in ("digits", "stars") for f in ("single", "torch", "ray")}  # type: ignore[arg-type]
