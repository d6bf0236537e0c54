"""A bench on a terminal: what runs, what is next, the time left; a line for each run that has ended."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

from regatta.bench.estimate import span
from regatta.bench.order import Entry
from regatta.records.record import Record
from regatta.terminal.console import Console, label, progress_text
from regatta.text import clean
from regatta_protocol.events import Event, Phase, Progress, Ready

if TYPE_CHECKING:
    import rich.console
    import rich.live

_STATES = {"succeeded": "", "failed": "FAILED", "cancelled": "cancelled", "lost": "LOST"}


def text_of(entry: Entry) -> str:
    """`ppr-100000-w2 torch, repeat 1`."""
    return f"{entry.point.name} {entry.framework}, {'warm-up' if entry.warm_up else 'repeat'} {entry.repeat}"


def _ended(record: Record) -> str:
    """How long the run took, and what became of it."""
    total = record.phases.total
    text = " ".join([f"{total:.2f} s" if total is not None else "-", *filter(None, [_STATES[record.exit.state]])])
    if record.exit.failure:
        where = "".join(f"{place}: " for place in [record.exit.failure.node] if place)
        text += f" ({where}{record.exit.failure.cause})"
    return text + (f" (with {', '.join(record.others)}: left out of verdicts)" if record.others else "")


class View(Console):
    """A console for a bench: the runs' own log is left to `fab logs`; on a terminal there is a live view below."""

    def __init__(
        self,
        stdout: TextIO | None = None,
        stderr: TextIO | None = None,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(stdout, stderr, now=now)
        self._live: rich.live.Live | None = None
        self._title = ""
        self._began: float | None = None
        self._running: tuple[Entry, int, int] | None = None
        self._partner: Entry | None = None
        self._next: Entry | None = None
        self._left = 0.0
        self._left_at = 0.0
        self._doing = ""
        self._warned: set[str] = set()

    def __enter__(self) -> "View":
        super().__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.rest()
        super().__exit__(kind, error, trace)

    def rest(self) -> None:
        """End the live view."""
        with self._lock:
            live, self._live = self._live, None
            self._running = None
        if live is not None:
            live.stop()

    def begin(
        self,
        title: str,
        entry: Entry,
        number: int,
        of: int,
        following: Entry | None,
        left: float,
        beside: Entry | None = None,
    ) -> None:
        """A run begins: the `number`th `of` all; `left` are the seconds that it and the others may take.

        `beside`: the other of a duet.
        """
        with self._lock:
            self._title, self._running, self._next = title, (entry, number, of), following
            self._partner = beside
            self._began, self._left, self._left_at, self._doing = self._now(), left, self._now(), "starts"
            if self._out.terminal and self._live is None:
                self._live = self._out.live(self._draw_live)
                self._live.start()

    def end(self, record: Record, left: float, beside: Record | None = None) -> None:
        """The run that began has ended, and the one `beside` it in a duet."""
        with self._lock:
            assert self._running is not None
            entry, number, of = self._running
            text = f"[{number:{len(str(of))}}/{of}] {text_of(entry)}: {_ended(record)}"
            if beside is not None and self._partner is not None:
                text += f"; beside it {self._partner.framework}: {_ended(beside)}"
            following = "" if self._out.terminal or self._next is None else f"; next {text_of(self._next)}"
            self.say(text + (f"{following}; about {span(left)} left" if following else ""))

    def say(self, text: str) -> None:
        """A line of the bench itself."""
        super().note(text)

    def note(self, text: str) -> None:
        """Leave out the output of runs."""

    def line(self, node: str, rank: int | None, text: str) -> None:
        """The log of runs is left out."""

    def warn(self, text: str) -> None:
        """Each warning once."""
        with self._lock:
            if text not in self._warned:
                self._warned.add(text)
                self._say(self._out if self._live else self._err, "warning: ", "yellow", text)

    def event(self, node: str, event: Event) -> None:
        """Keep what a run does for the live view."""
        with self._lock:
            match event:
                case Progress(rank=rank):
                    self._doing = f"{label(node, rank)} {progress_text(event)}"
                case Phase(rank=rank, name=name):
                    self._doing = f"{label(node, rank)} {clean(name)} done"
                case Ready():
                    self._doing = "ready"
                case _:
                    pass

    def _draw_live(self) -> "rich.console.RenderableType":
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        with self._lock:
            if self._running is None or self._began is None:
                return Text("")
            entry, number, of = self._running
            ran = self._now() - self._began
            left = max(0.0, self._left - (self._now() - self._left_at))
            head = Table.grid(padding=(0, 2))
            bar = ProgressBar(total=of, completed=number - 1, width=30)
            head.add_row(Text(self._title, "bold"), bar, Text(f"{number - 1} of {of} done, about {span(left)} left"))
            body = Table.grid(padding=(0, 2))
            body.add_row(Text("runs", "green"), Text(text_of(entry)), Text(f"{ran:.0f} s"), Text(self._doing))
            if self._next is not None:
                body.add_row(Text("next", "dim"), Text(text_of(self._next), "dim"))
            return Group(head, body)
