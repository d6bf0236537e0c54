"""Shows what all nodes do right now: each tells of itself over one connection (`regatta.node.sample`); nothing is
installed.

A node that does not answer is asked again until it does.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

from regatta.errors import RegattaError
from regatta.hosts.channel import Stream
from regatta.hosts.cluster import Node
from regatta.hosts.remote import Remote
from regatta.terminal.console import QUIET_SECONDS, progress_text, quiet_line
from regatta.terminal.meter import size_text
from regatta.terminal.table import aligned
from regatta.text import clean
from regatta_protocol.events import Progress
from regatta_protocol.log import DRIVER
from regatta_protocol.operations.hosts import Sample, Sampled

if TYPE_CHECKING:
    from rich.console import RenderableType

INTERVAL_SECONDS = 1.0
RETRY_SECONDS = 3.0
STALE_SECONDS = 5.0
BAR_CELLS = 10
NARROW = 140
"""With fewer columns there is no room for bars."""
NODE_HEADINGS = ("node", "cpu", "load", "memory", "received", "sent", "read", "written", "services")
GPU_HEADINGS = ("node", "gpu", "use", "memory", "temperature", "power", "card")
RUN_HEADINGS = ("run", "framework", "for", "rank", "node", "phase", "progress")


@dataclass(frozen=True)
class Rates:
    """The load of a node: `cpu` and `memory` as parts of 1, all others in bytes a second."""

    cpu: float
    memory: float
    received: float
    sent: float
    read: float
    written: float

    @classmethod
    def between(cls, before: Mapping[str, Any], after: Mapping[str, Any]) -> "Rates":
        """From two samples of the same node."""
        seconds = max(after["at"] - before["at"], 1e-3)
        busy, ticks = (now - then for now, then in zip(after["cpu"], before["cpu"], strict=True))
        moved = [
            max(0.0, (now - then) / seconds)
            for name in ("network", "disk")
            for now, then in zip(after[name], before[name], strict=True)
        ]
        used, total = after["memory"]
        return cls(busy / max(ticks, 1), used / total, *moved)


@dataclass
class Seen:
    """The last that was heard of a node; `error` while it does not answer."""

    node: Node
    sample: Mapping[str, Any] | None = None
    rates: Rates | None = None
    heard: float = 0.0
    error: str = ""


class Watch:
    """Follows all nodes within `with`; for several threads."""

    def __init__(self, remote: Remote, interval: float = INTERVAL_SECONDS) -> None:
        self._remote = remote
        self._interval = interval
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._seen = {node.name: Seen(node) for node in remote.cluster.nodes}
        self._streams: dict[str, Stream[None, Sampled]] = {}

    def __enter__(self) -> "Watch":
        for node in self._remote.cluster.nodes:
            threading.Thread(target=self._follow, args=(node,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        with self._lock:
            streams = list(self._streams.values())
        for stream in streams:
            stream.close()

    def nodes(self) -> list[Seen]:
        """Every node as it was last seen, in the order of the inventory."""
        now = time.monotonic()
        with self._lock:
            found = [Seen(**vars(seen)) for seen in self._seen.values()]
        for seen in found:
            if not seen.error and seen.sample is not None and now - seen.heard > STALE_SECONDS + self._interval:
                seen.error = f"silent for {now - seen.heard:.0f} s"
        return found

    def wait(self, seconds: float) -> bool:
        """Until every node has rates or an error, at most so long; whether that is so."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if all(seen.rates or seen.error for seen in self.nodes()):
                return True
            time.sleep(0.05)
        return False

    def _follow(self, node: Node) -> None:
        head = node.name == self._remote.cluster.head.name and not node.local
        while not self._ended.is_set():
            try:
                with self._remote.stream(node, Sample(self._interval, head)) as stream:
                    with self._lock:
                        self._streams[node.name] = stream
                    for line in stream:
                        self._take(node, line.sample)
            except (RegattaError, OSError, ValueError) as error:
                with self._lock:
                    self._seen[node.name].error = str(getattr(error, "reason", error)).partition("\n")[0]
            self._ended.wait(RETRY_SECONDS)

    def _take(self, node: Node, sample: Mapping[str, Any]) -> None:
        with self._lock:
            seen = self._seen[node.name]
            if seen.sample is not None and not seen.error:
                seen.rates = Rates.between(seen.sample, sample)
            seen.sample, seen.heard, seen.error = sample, time.monotonic(), ""


def node_rows(nodes: Sequence[Seen], width: int | None = None) -> list[tuple[str, ...]]:
    """A row a node, below the headings; with bars where a terminal of `width` has room for them."""
    cells = BAR_CELLS if width is None or width >= NARROW else 0
    rows: list[tuple[str, ...]] = [NODE_HEADINGS]
    for seen in nodes:
        if seen.error or seen.rates is None or seen.sample is None:
            rows.append((seen.node.name, *["-"] * (len(NODE_HEADINGS) - 2), clean(seen.error) or "connecting"))
            continue
        rates, sample = seen.rates, seen.sample
        flows = (rates.received, rates.sent, rates.read, rates.written)
        rows.append(
            (
                seen.node.name,
                bar(rates.cpu, cells),
                f"{sample['load']:.1f} of {sample['cores']}",
                f"{bar(rates.memory, cells)} of {size_text(sample['memory'][1])}",
                *(f"{size_text(flow)}/s" for flow in flows),
                " ".join(sample["units"]) or "-",
            )
        )
    return rows


def gpu_rows(nodes: Sequence[Seen], cells: int = BAR_CELLS) -> list[tuple[str, ...]]:
    """A row a GPU, below the headings; `-` for what a card does not tell; `cells`: of bars."""
    return [GPU_HEADINGS, *(_gpu_row(seen, card, cells) for seen in nodes for card in _cards(seen))]


def _cards(seen: Seen) -> Sequence[Mapping[str, Any]]:
    return (seen.sample or {}).get("gpus", []) if not seen.error else []


def _gpu_row(seen: Seen, card: Mapping[str, Any], cells: int) -> tuple[str, ...]:
    used, total = card.get("memory_used"), card.get("memory_total")
    memory = f"{bar(used / total, cells)} of {size_text(total)}" if used is not None and total else "-"
    use, degrees, watts = (card.get(name) for name in ("utilization", "temperature", "power"))
    return (
        seen.node.name,
        clean(str(card["index"])),
        "-" if use is None else bar(use, cells),
        memory,
        "-" if degrees is None else f"{degrees:.0f} °C",
        "-" if watts is None else f"{watts:.0f} W",
        clean(str(card["name"])),
    )


def run_rows(nodes: Sequence[Seen], has_driver: Callable[[str], bool]) -> list[tuple[str, ...]]:
    """A row a rank of each run in progress, below the headings; for a run that has said nothing, one.

    `has_driver`: whether a driver speaks for the ranks of a framework, by its name.
    """
    rows: list[tuple[str, ...]] = []
    for seen in nodes:
        for run in (seen.sample or {}).get("runs", []) if not seen.error else []:
            about = (run["id"], str(run["framework"]), f"{run['seconds']:.0f} s")
            for rank, state in sorted(run["ranks"].items(), key=lambda item: int(item[0])):
                name = "driver" if int(rank) == DRIVER else rank
                rows.append((*about, name, seen.node.name, str(state.get("phase", "-")), _progress(state)))
            if not run["ranks"] and run["here"]:
                rank = "driver" if has_driver(str(run["framework"])) else "-"
                rows.append((*about, rank, seen.node.name, run["phase"], "-"))
    return [RUN_HEADINGS, *sorted(rows, key=lambda row: (row[0], not row[3].isdigit(), row[3].zfill(6)))]


def quiet_lines(nodes: Sequence[Seen]) -> list[str]:
    """A line for each run that has printed nothing for long."""
    quiet: dict[str, float] = {}
    for seen in nodes:
        for run in (seen.sample or {}).get("runs", []) if not seen.error else []:
            if run["here"]:
                quiet[run["id"]] = min(quiet.get(run["id"], float("inf")), run.get("quiet", 0.0))
    return [quiet_line(run, for_) for run, for_ in sorted(quiet.items()) if for_ >= QUIET_SECONDS]


def hdfs_line(nodes: Sequence[Seen]) -> str:
    """Return how HDFS is, by its NameNode; empty where there is none or no node can be asked."""
    for seen in nodes:
        state = (seen.sample or {}).get("hdfs") or {}
        if state.get("installed"):
            if state.get("problem"):
                return f"HDFS: {clean(str(state['problem']))}"
            live = f"{len(state['live'])} of {len(state['expected'])} DataNodes live"
            return f"HDFS: {live}{', in safe mode' if state['safe_mode'] else ''}"
    return ""


def bar(part: float, cells: int = BAR_CELLS) -> str:
    """A bar for a part of a whole, 0 to 1: `████······  42 %`."""
    if not cells:
        return f"{100 * part:.0f} %"
    filled = round(min(max(part, 0.0), 1.0) * cells)
    return f"{'█' * filled}{'·' * (cells - filled)} {100 * part:3.0f} %"


def picture(
    title: str, nodes: Sequence[Seen], has_driver: Callable[[str], bool], width: int = NARROW
) -> "RenderableType":
    """All that was seen of the nodes, under `title`, for a terminal so wide; `has_driver`: see `run_rows`."""
    from rich.console import Group
    from rich.text import Text

    def table(rows: Sequence[tuple[str, ...]]) -> Text:
        return Text("\n".join(aligned(rows, width=width)), no_wrap=True)

    runs = run_rows(nodes, has_driver)
    below = table(runs) if len(runs) > 1 else Text("no run in progress", "dim")
    cards = gpu_rows(nodes, BAR_CELLS if width >= NARROW else 0)
    quiet = [Text(line, "yellow") for line in quiet_lines(nodes)]
    return Group(
        Text(title, "bold"),
        Text(hdfs_line(nodes)),
        table(node_rows(nodes, width)),
        *((Text(), table(cards)) if len(cards) > 1 else ()),
        Text(),
        below,
        *quiet,
    )


def _progress(state: Mapping[str, Any]) -> str:
    told = state.get("progress")
    if not told or not isinstance(told.get("done"), int | float):
        return "-"
    return progress_text(
        Progress(
            0, 0.0, str(told["what"]), told["done"], told.get("total") or 0, told.get("residual"), told.get("loss")
        )
    )
