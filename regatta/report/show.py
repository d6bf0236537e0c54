"""One run in the terminal: where its time went, and which rank was the slowest."""

from collections.abc import Iterator

from regatta.records.clocks import PHASES
from regatta.records.record import RankRecord, Record
from regatta.report import overhead, texts
from regatta.report.cases import describe
from regatta.report.timeline import rank_label, slowest, words
from regatta.terminal.table import aligned
from regatta.text import clean

_BAR = 40


def lines(record: Record, width: int | None = None) -> list[str]:
    """The run as lines of plain text; see `table.aligned` on `width`."""
    return [clean(line) if line else "" for line in _lines(record, width and width - 2)]


def _lines(record: Record, width: int | None) -> Iterator[str]:
    identity, end = record.identity, record.exit
    places = ", ".join(f"{len(node.ranks)} on {node.name}" for node in record.cluster.nodes if node.ranks)
    yield f"{record.run_id}: {identity.workload} under {identity.framework}, {end.state}"
    yield f"  started     {identity.started} on {record.cluster.name}"
    yield f"  ranks       {len(record.cluster.rank_map)}: {places}" + _threads(record)
    yield f"  parameters  {describe(identity.parameters, identity.workload) or '-'}"
    yield from (f"  {option:<10}  {value}" for option, value in record.chosen.items())
    yield f"  release     {_release(record)}"
    if record.series:
        yield f"  repeat      {record.series.index} of {record.series.total} ({record.series.label})"
    if end.failure:
        where = [end.failure.node, rank_label(end.failure.rank) if end.failure.rank is not None else None]
        yield f"  failure     {', '.join(filter(None, where))}: {end.failure.cause}".replace(" : ", " ")
        yield from (f"              | {line}" for line in end.failure.last_lines)
    yield from _beside(record)
    yield f"  energy      {texts.energy(record.joules, record.gpu_joules, gpus=record.has_gpus)}"
    if record.cost is not None:
        yield f"  cost        {texts.cost(record.cost)} at {record.cluster.price_per_hour:g} an hour"
    yield ""
    yield from _phases(record)
    if record.ranks:
        yield ""
        yield from _table(_ranks(record), width)
    yield from (f"  {line}" for line in words(record))
    if record.use:
        yield ""
        yield from _table(_use(record), width)
        yield f"  {texts.ABOUT_USE}"
    if record.overhead:
        yield ""
        yield from (f"  {line}" for line in overhead.words(record.overhead))
    if record.show:
        yield ""
        yield from (f"  {line}" for line in record.show)
    yield from (f"  warning: {line}" for line in record.warnings)


def _beside(record: Record) -> Iterator[str]:
    for place in record.beside:
        load = [f"{place.load:.2f} cores used outside of Regatta"] if place.load else []
        if place.runs or load:
            yield f"  with        {place.node}: {', '.join([*place.runs, *load])}"
    if record.others:
        yield "              other runs were on its nodes: its times count in no comparison"


def _threads(record: Record) -> str:
    return f", {record.speed.threads} thread(s) each" if record.speed.threads else ""


def _release(record: Record) -> str:
    identity = record.identity
    commit = f", commit {identity.commit[:12]}" if identity.commit else ""
    return f"{identity.release or '-'}{commit}{' with changes that were not committed' if identity.dirty else ''}"


def _phases(record: Record) -> Iterator[str]:
    total = record.phases.total or 0.0
    for name in PHASES:
        value = getattr(record.phases, name)
        share = value / total if value is not None and total > 0 and name != "total" else 0.0
        bar = "█" * round(share * _BAR)
        percent = f"{share:4.0%} " if share else ""
        yield f"  {name:<10}  {texts.seconds(value):>9}  {percent}{bar}".rstrip()
    if record.phases.overlap:
        yield f"  {'overlap':<10}  {texts.seconds(record.phases.overlap):>9}  load and compute of different ranks"


def _table(rows: list[list[str]], width: int | None) -> Iterator[str]:
    return (f"  {line}" for line in aligned(rows, width=width))


def _ranks(record: Record) -> list[list[str]]:
    names = list(dict.fromkeys(name for rank in record.ranks for name in rank.phases))
    last = slowest(record)
    exchanges = any(rank.exchanges for rank in record.ranks)
    rows = [["rank", "node", *names, "CPU", "peak memory", *(["sent an exchange"] if exchanges else []), ""]]
    for rank in record.ranks:
        mark = "slowest" if rank is last and len(record.ranks) > 1 else ""
        cells = [texts.seconds(rank.phases.get(name)) for name in names]
        used = (texts.seconds(rank.cpu_seconds), texts.gigabytes(rank.peak_bytes))
        sent = [_sent(rank)] if exchanges else []
        rows.append([_number(rank), rank.node or "-", *cells, *used, *sent, mark])
    return rows


def _sent(rank: RankRecord) -> str:
    """Return what a rank sent to others in an exchange, on average, and how many there were."""
    if not rank.exchanges or rank.exchanged_bytes is None:
        return "-"
    return f"{texts.size(rank.exchanged_bytes // rank.exchanges)} x {rank.exchanges}"


def _use(record: Record) -> list[list[str]]:
    rows = [["node", "CPU", "memory at once", "largest process", "read", "written", "received", "sent"]]
    for use in record.use:
        disks = (use.read_bytes, use.written_bytes)
        memory = (texts.gigabytes(use.peak_bytes), texts.gigabytes(use.largest_bytes))
        flows = (texts.size(value) for value in (*disks, use.received_bytes, use.sent_bytes))
        rows.append([use.node, texts.seconds(use.cpu_seconds), *memory, *flows])
    return rows


def _number(rank: RankRecord) -> str:
    return rank_label(rank.rank).removeprefix("rank ")
