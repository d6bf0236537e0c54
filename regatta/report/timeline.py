"""When each rank of a run did what, and who waited for whom.

A record has durations, no times of day, as hosts' clocks need not agree. They are laid out from what is known: a
rendezvous ends for all ranks at once, work begins then, and the run is collected when the last rank has computed.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from regatta.records.record import RankRecord, Record
from regatta_protocol.log import DRIVER

_WORTH_SAYING = 0.05


@dataclass(frozen=True)
class Segment:
    """An activity of a rank from `start` to `end`, seconds since the run was asked for. `wait`: for the slowest
    rank.
    """

    rank: int
    name: str
    start: float
    end: float

    @property
    def seconds(self) -> float:
        """Return how long it took."""
        return self.end - self.start


def rank_label(rank: int) -> str:
    """`rank 3`, or `driver`."""
    return "driver" if rank == DRIVER else f"rank {rank}"


def segments(record: Record) -> tuple[Segment, ...]:
    """The segments of every rank that measured something; none where the run's ranks never got ready."""
    phases = record.phases
    if phases.launch is None:
        return ()
    sync = phases.sync or 0.0
    ready = sync + phases.launch + (phases.rendezvous or 0.0)
    ranks = [rank for rank in record.ranks if rank.phases]
    worked = ready + max((_work(rank) for rank in ranks), default=0.0)
    end = max(worked, phases.total or 0.0)
    return tuple(
        segment for rank in ranks for segment in _of_rank(rank, sync, ready, worked, end) if segment.seconds > 0
    )


def _of_rank(rank: RankRecord, sync: float, ready: float, worked: float, end: float) -> Iterator[Segment]:
    came = max(sync, ready - rank.phases.get("rendezvous", 0.0))
    loaded = ready + rank.phases.get("load", 0.0)
    computed = ready + _work(rank)
    marks = (0.0, sync, came, ready, loaded, computed, worked, end)
    names = ("sync", "launch", "rendezvous", "load", "compute", "wait", "collect")
    for name, start, stop in zip(names, marks, marks[1:], strict=False):
        yield Segment(rank.rank, name, start, stop)


def slowest(record: Record) -> RankRecord | None:
    """The rank whose load and compute together took longest: the one that the others wait for."""
    ranks = [rank for rank in record.ranks if _work(rank) > 0]
    return max(ranks, key=_work, default=None)


def words(record: Record) -> tuple[str, ...]:
    """Return who waited for whom, in sentences; none for a single rank."""
    ranks = [rank for rank in record.ranks if _work(rank) > 0]
    last = slowest(record)
    if last is None or len(ranks) < 2:
        return ()
    said = []
    waits = [_work(last) - _work(rank) for rank in ranks if rank is not last]
    if max(waits) >= _WORTH_SAYING:
        said.append(
            f"{rank_label(last.rank).capitalize()} was the slowest ({_work(last):.2f} s of load and compute): "
            f"{'the other' if len(waits) == 1 else 'the others'} waited {_span(waits)} s for it."
        )
    else:
        said.append("All ranks were ready with load and compute within 0.05 s.")
    met = {rank.rank: rank.phases["rendezvous"] for rank in ranks if "rendezvous" in rank.phases}
    if len(met) > 1 and max(met.values()) - min(met.values()) >= _WORTH_SAYING:
        late, early = min(met, key=lambda rank: met[rank]), max(met, key=lambda rank: met[rank])
        said.append(
            f"{rank_label(late).capitalize()} came last to the rendezvous; "
            f"{rank_label(early)} had waited there for {met[early] - met[late]:.2f} s."
        )
    return tuple(said)


def _span(values: list[float]) -> str:
    low, high = f"{min(values):.2f}", f"{max(values):.2f}"
    return low if low == high else f"{low} to {high}"


def _work(rank: RankRecord) -> float:
    return rank.phases.get("load", 0.0) + rank.phases.get("compute", 0.0)
