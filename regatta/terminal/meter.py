"""Shows the progress of a transfer: a bar with its rate on a terminal, now and then a line elsewhere."""

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

from regatta.terminal import screen

if TYPE_CHECKING:
    import rich.progress

LINE_SECONDS = 3.0


class Meter:
    """Shows bytes done of `total` (None: unknown) on standard error, within `with`; for one thread."""

    def __init__(
        self, label: str, total: int | None, stream: TextIO | None = None, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.label, self.total, self.done = label, total, 0
        self._stream = screen.over(stream or sys.stderr)
        self._now = now
        self._began = self._said = now()
        self._bar: rich.progress.Progress | None = None
        self._task: rich.progress.TaskID | None = None
        self._terminal = screen.draws(self._stream)

    def __enter__(self) -> "Meter":
        if self._terminal:
            from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
            from rich.progress import TransferSpeedColumn as Speed

            self._bar = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=30),
                DownloadColumn(),
                Speed(),
                TimeRemainingColumn(),
                console=screen.painter(self._stream),
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task(self.label, total=self.total)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    @property
    def seconds(self) -> float:
        """Seconds since the beginning."""
        return self._now() - self._began

    def expect(self, total: int) -> None:
        """Say how many bytes there are."""
        self.total = total
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, total=total)

    def restart(self) -> None:
        """Count bytes from 0 again; seconds continue."""
        self.set(0)

    def add(self, count: int) -> None:
        """Count in bytes that are done, besides those before."""
        self.set(self.done + count)

    def set(self, done: int) -> None:
        """Set how many bytes are done in all; shows that, or says it in a line now and then."""
        self.done = done
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=done)
        elif not self._terminal and self._now() - self._said >= LINE_SECONDS:
            self._said = self._now()
            print(f"{self.label}: {self.text()}", file=self._stream, flush=True)

    def text(self) -> str:
        """`120.0 of 500.0 MB (24 %), 85.3 MB/s`."""
        rate = f"{self.done / 1e6 / max(self.seconds, 1e-3):.1f} MB/s"
        if not self.total:
            return f"{self.done / 1e6:.1f} MB, {rate}"
        return f"{self.done / 1e6:.1f} of {self.total / 1e6:.1f} MB ({100 * self.done // self.total} %), {rate}"


def size_text(count: float) -> str:
    """Bytes as text: `1.5 GB`, in powers of 1000."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if count < 1000 or unit == "TB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError
