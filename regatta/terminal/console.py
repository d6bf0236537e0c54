"""A run on a terminal: log lines with node and rank in front, progress bars, notes, warnings and errors."""

import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

from regatta.program import hint
from regatta.terminal import screen
from regatta.text import clean
from regatta_protocol.events import Chosen, ErrorEvent, Event, Phase, Progress, Result, WarningEvent
from regatta_protocol.log import DRIVER

if TYPE_CHECKING:
    import rich.console
    import rich.live
    import rich.progress

_COLOURS = ("cyan", "green", "magenta", "yellow", "blue", "bright_cyan", "bright_green", "bright_magenta")
_MIN_GAP = 1.0
_MAX_MESSAGES = 1000
QUIET_SECONDS = 60.0
"""A run that prints nothing for so long gets a line."""
_MAX_SHOWN = 1000
"""Ranks whose progress is shown."""


def label(node: str, rank: int | None) -> str:
    """`node1/0`, `node1/driver` for the driver of a Ray run, `node1` where no rank is known."""
    return node if rank is None else f"{node}/{'driver' if rank == DRIVER else rank}"


def progress_text(event: Progress) -> str:
    """`compute 4/10 (40 %) loss 0.25`."""
    total = f"/{_number(event.total)} ({_percent(event)} %)" if event.total else ""
    values = (("residual", event.residual), ("loss", event.loss), ("accuracy", event.accuracy))
    extra = "".join(f" {name} {value:.3g}" for name, value in values if value is not None)
    return f"{clean(event.what)[:40]} {_number(event.done)}{total}{extra}"


def event_text(event: Event) -> str:
    """An event for a person who reads a log, in a line or more; '' for what only records and charts need."""
    match event:
        case Progress():
            return progress_text(event)
        case Phase(name=name, seconds=seconds):
            return f"{name} {seconds:.3g} s"
        case Chosen(option=option, value=value, why=why):
            return f"{option} {value}: {why}"
        case Result(show=show):
            return "\n".join(show)
        case WarningEvent(message=message):
            return f"warning: {message}"
        case ErrorEvent(message=message):
            return f"error: {message}"
    return ""


@dataclass
class _Shown:
    """The progress of one rank as it was last shown; `at` in seconds of time.monotonic."""

    what: str
    tenth: int
    at: float
    task: "rich.progress.TaskID | None" = None


@dataclass
class _Standing:
    """A line of a rank that it writes over again and again, as it was last shown."""

    text: str
    at: float
    task: "rich.progress.TaskID | None" = None


class Console:
    """Live view of runs, for several threads.

    On a terminal, within `with`, bars stay below the log, and the terminal is as before when `with` is left. In a
    pipe, on a dumb terminal and outside `with`, progress is lines: a rank's first, its last, and between them one
    every tenth of the total that is a second or more after the previous, or every `interval` seconds; a line that a
    rank writes over (tqdm) comes at most once a second. Colours only on a terminal without NO_COLOR. When the reader is
    gone (`| head`), output is dropped and the run continues.
    """

    def __init__(
        self,
        stdout: TextIO | None = None,
        stderr: TextIO | None = None,
        *,
        interval: float = 3.0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._out = _Stream(stdout or sys.stdout)
        self._err = _Stream(stderr or sys.stderr)
        self._interval = interval
        self._now = now
        self._width = 0
        self._inside = False
        self._bars: rich.progress.Progress | None = None
        self._shown: dict[tuple[str, int], _Shown] = {}
        self._standing: dict[tuple[str, int], _Standing] = {}
        self._said: set[str] = set()
        self._lock = threading.RLock()

    def __enter__(self) -> "Console":
        self._inside = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._inside = False
            bars, self._bars = self._bars, None
            self._shown.clear()
            self._standing.clear()
            self._said.clear()
            if bars is not None:
                with suppress(OSError):
                    bars.stop()

    def clear_bars(self) -> None:
        """Remove all bars: the run that they were of has ended."""
        with self._lock:
            tasks = [*(one.task for one in self._shown.values()), *(one.task for one in self._standing.values())]
            self._shown.clear()
            self._standing.clear()
            if self._bars is not None:
                for task in tasks:
                    if task is not None:
                        self._bars.remove_task(task)
                self._bars.refresh()

    @property
    def is_terminal(self) -> bool:
        """Whether standard output is a terminal that can draw bars."""
        return self._out.terminal

    @property
    def width(self) -> int | None:
        """The columns of the terminal; None where lines may have any length."""
        return self._out.width

    def line(self, node: str, rank: int | None, text: str) -> None:
        """Print a line of log: `node1/0 | text`."""
        with self._lock:
            self._width = max(self._width, len(node) + 2, len(label(node, rank)))
            prefix = f"{clean(label(node, rank)):{self._width}} | "
            style = "dim" if rank is None else _COLOURS[rank % len(_COLOURS)]
            for part in text.rstrip("\r\n").split("\n"):
                self._out.print(prefix, style, clean(part))

    def bars(self, node: str, bars: dict[int, str]) -> None:
        """Show what is in place on a node now, by rank: lines that have been written over and have not ended."""
        with self._lock:
            for key in [key for key in self._standing if key[0] == node and key[1] not in bars]:
                standing = self._standing.pop(key)
                if standing.task is not None and self._bars is not None:
                    self._bars.remove_task(standing.task)
                    self._bars.refresh()
            for rank, text in bars.items():
                standing = self._standing.setdefault((node, rank), _Standing("", -_MIN_GAP))
                if self._inside and self._out.terminal:
                    self._stand(label(node, rank), standing, self._out.printable(clean(text)))
                elif text != standing.text and self._now() - standing.at >= _MIN_GAP:
                    standing.text, standing.at = text, self._now()
                    self.line(node, rank, text)

    def _stand(self, name: str, standing: _Standing, text: str) -> None:
        bars = self._started_bars()
        if standing.task is None:
            standing.task = bars.add_task(self._out.printable(clean(name)), total=None, text=text, bare=True)
        else:
            bars.update(standing.task, text=text)

    def _started_bars(self) -> "rich.progress.Progress":
        if self._bars is None:
            self._bars = self._out.bars()
            self._bars.start()
        return self._bars

    def event(self, node: str, event: Event) -> None:
        """Show an event of a run: progress, and each warning or error message once."""
        with self._lock:
            match event:
                case Progress():
                    self._progress(node, event)
                case Phase(rank=rank, name=name):
                    self._finish(node, rank, name)
                case WarningEvent(rank=rank, message=message) if self._first(message):
                    self.warn(f"{label(node, rank)}: {message}")
                case ErrorEvent(rank=rank, message=message) if self._first(message):
                    self.line(node, rank, event_text(event))

    def note(self, text: str) -> None:
        """Print what Regatta itself has to say."""
        self._say(self._out, "", "", text)

    def warn(self, text: str) -> None:
        """Print a warning on standard error."""
        self._say(self._err, "warning: ", "yellow", text)

    def error(self, text: str) -> None:
        """Print an error on standard error."""
        self._say(self._err, "error: ", "bold red", text)

    def _say(self, stream: "_Stream", prefix: str, style: str, text: str) -> None:
        with self._lock:
            if stream is self._err and self._bars is not None and self._err.terminal:
                stream = self._out
            first, *others = text.split("\n")
            stream.print(prefix, style, clean(first))
            for part in others:
                stream.print("", "", clean(part))

    def _first(self, message: str) -> bool:
        if message in self._said or len(self._said) >= _MAX_MESSAGES:
            return False
        self._said.add(message)
        return True

    def _progress(self, node: str, event: Progress) -> None:
        key = (node, event.rank)
        shown = self._shown.get(key)
        if shown is None and len(self._shown) >= _MAX_SHOWN:
            return
        if self._inside and self._out.terminal:
            self._shown[key] = self._draw(node, event, shown)
            return
        tenth = _percent(event) // 10
        now = self._now()
        if shown is not None and shown.what == event.what:
            done = bool(event.total) and event.done >= event.total and shown.tenth < 10
            gap = now - shown.at
            if not (done or (tenth > shown.tenth and gap >= _MIN_GAP) or gap >= self._interval):
                return
        self._shown[key] = _Shown(event.what, tenth, now)
        self.line(node, event.rank, progress_text(event))

    def _draw(self, node: str, event: Progress, shown: _Shown | None) -> _Shown:
        bars = self._started_bars()
        if shown is not None and shown.what != event.what:
            self._finish(node, event.rank, shown.what)
            shown = None
        if shown is None or shown.task is None:
            name = self._out.printable(clean(label(node, event.rank)))
            shown = _Shown(event.what, 0, 0.0, bars.add_task(name, total=event.total or None, text=""))
        if shown.task is not None:
            text = self._out.printable(progress_text(event))
            bars.update(shown.task, total=event.total or None, completed=event.done, text=text)
        return shown

    def _finish(self, node: str, rank: int, name: str) -> None:
        shown = self._shown.get((node, rank))
        if shown is not None and shown.what == name and shown.task is not None and self._bars is not None:
            self._bars.remove_task(shown.task)
            del self._shown[(node, rank)]


class _Stream:
    """One output stream: through rich on a terminal, plain text elsewhere; gives up quietly when the reader is gone."""

    def __init__(self, file: TextIO | None) -> None:
        self._file = file = screen.over(file or Path(os.devnull).open("w"))  # noqa: SIM115
        self._broken = False
        self._encoding = getattr(file, "encoding", None) or "utf-8"
        self.terminal = screen.draws(file)
        self.width = screen.width(file)
        self._console: rich.console.Console | None = None

    @property
    def _rich(self) -> "rich.console.Console":
        """Rich's console, imported (0.15 s) only where there is a terminal."""
        if self._console is None:
            self._console = screen.painter(
                self._file,
                force_terminal=True,
                color_system=None if os.environ.get("NO_COLOR") else "auto",
                highlight=False,
                markup=False,
                emoji=False,
            )
        return self._console

    def printable(self, text: str) -> str:
        """`text` with escapes for what the stream's encoding cannot hold."""
        return text.encode(self._encoding, "backslashreplace").decode(self._encoding)

    def print(self, prefix: str, style: str, text: str) -> None:
        prefix, text = self.printable(prefix), self.printable(text)
        if self.terminal:
            from rich.text import Text

            self._guard(lambda: self._rich.print(Text.assemble((prefix, style), text), soft_wrap=True))
        else:
            self._guard(lambda: self._write(f"{prefix}{text}\n"))

    def bars(self) -> "rich.progress.Progress":
        from rich.progress import BarColumn, Progress, Task, TextColumn
        from rich.progress_bar import ProgressBar
        from rich.table import Column

        class Bar(BarColumn):
            def render(self, task: Task) -> ProgressBar:
                """Nothing for a task that is only text."""
                return "" if task.fields.get("bare") else super().render(task)  # type: ignore[return-value]

        return Progress(
            TextColumn("{task.description}", markup=False),
            Bar(bar_width=30),
            TextColumn("{task.fields[text]}", markup=False, table_column=Column(no_wrap=True)),
            console=self._rich,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def live(self, draw: "Callable[[], rich.console.RenderableType]") -> "rich.live.Live":
        """A view below the log that `draw` makes four times a second."""
        from rich.live import Live

        return Live(
            get_renderable=draw,
            console=self._rich,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def _write(self, text: str) -> None:
        self._file.write(text)
        self._file.flush()

    def _guard(self, output: Callable[[], None]) -> None:
        if self._broken:
            return
        try:
            output()
        except OSError as error:
            self._broken = True
            if not isinstance(error, BrokenPipeError) and sys.stderr is not None and self._file is not sys.stderr:
                with suppress(OSError):
                    sys.stderr.write(f"warning: output cannot be written ({error.strerror}): the run continues\n")
            with suppress(OSError):
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, self._file.fileno())
                os.close(null)


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) and value < 1e15 else f"{value:.4g}"


def _percent(event: Progress) -> int:
    return int(min(100.0, 100 * (event.done / event.total))) if event.total else 0


def quiet_line(run: str, seconds: float) -> str:
    """Return what to do about a run that prints nothing."""
    return f"{run} has printed nothing for {seconds:.0f} s; '{hint('why', run)}' says where each rank stands"
