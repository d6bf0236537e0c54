"""Shows a playbook: one line for each step, problems at once and in full, a summary. A log has Ansible's output."""

import io
import json
import os
import select
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TextIO, cast

from regatta.program import retold
from regatta.provisioning.progress import Transfers
from regatta.terminal import screen
from regatta.text import clean, fit

if TYPE_CHECKING:
    import rich.progress

LOGS = ".logs"
"""Folder next to an inventory."""
KEPT = 10
TOLD = "REGATTA_STEPS"
"""The variable with the number of the descriptor on which Ansible reports its steps."""
DRAIN_SECONDS = 2.0
QUIET_SECONDS = 30.0
"""Without a terminal, a line names the current task after so long a silence."""
_BESIDE = 12
"""Columns of a terminal for the spinner and the time."""
_NAMES, _OTHERS, _WIDE = 33, 50, 100
"""Columns of a step's name, of the rest of its line, and of a line without a terminal."""
_ENDS = {"unchanged": "unchanged", "changed": "changed", "failures": "failed", "unreachable": "unreachable"}


def named(path: Path) -> str:
    """The place of Ansible's own output, in words for a person."""
    here = Path.cwd()
    return f"Ansible's own output: {path.relative_to(here) if path.is_relative_to(here) else path}"


def log(folder: Path, what: str) -> Path:
    """A new file for Ansible's own output, for this user only; the oldest go."""
    logs = folder / LOGS
    logs.mkdir(mode=0o700, exist_ok=True)
    for old in sorted(logs.glob("*.log"))[: -(KEPT - 1)]:
        old.unlink(missing_ok=True)
    path = logs / f"{time.strftime('%Y%m%d-%H%M%S')}-{what}.log"
    path.touch(0o600)
    return path


@dataclass
class _Step:
    """One line: its name, and the results so far."""

    name: str = ""
    of_role: bool = False
    task: str = ""
    began: float = field(default_factory=time.monotonic)
    task_began: float = 0.0
    seen: set[str] = field(default_factory=set)
    done: set[str] = field(default_factory=set)
    changed: dict[str, None] = field(default_factory=dict)
    task_changed: dict[str, None] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)
    here: bool = False

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    def outcome(self, check: bool, well: str = "unchanged") -> str:
        """`2 of 3 hosts changed`, or `well`: nothing changed and nothing failed."""
        who = [f"{len(self.changed)} of {len(self.seen)} host{'s' * (len(self.seen) > 1)}"] if self.changed else []
        who += ["this machine"] if self.here else []
        said = [f"{' and '.join(who)} {'would change' if check else 'changed'}"] if who else []
        said += [f"{len(self.failed)} failed"] if self.failed else []
        return ", ".join(said) or well


class Steps:
    """Shows the events of ansible/callback_plugins/steps.py. On a terminal the last line is the current task."""

    def __init__(
        self, output: TextIO | None, check: bool, *, well: str = "unchanged", transfers: Transfers | None = None
    ) -> None:
        """Lines go to `output`, or without it to standard output, and errors to standard error.

        `well`: what a step is that changed nothing, and in which nothing failed. `transfers` are shown as they grow.
        """
        self._file, self._check, self._well = screen.over(output or sys.stdout), check, well
        self._draws = screen.draws(self._file)
        above = cast("TextIO", _Above(self))
        self.errors = above if self._draws and sys.stderr.isatty() else output or sys.stderr
        self._step, self._said, self._transfers = _Step(), "", transfers
        self._bar: rich.progress.Progress | None = None
        self._lock = threading.Lock()

    def start(self, pipe: IO[bytes]) -> None:
        """Show the events of a pipe, and on a terminal the current task."""
        if self._draws:
            from rich.progress import Progress, ProgressColumn, SpinnerColumn, Task, TimeElapsedColumn
            from rich.text import Text

            class Now(ProgressColumn):
                def render(_, task: Task) -> Text:
                    """The current task as it stands at each refresh."""
                    return Text(self._now() or task.description, no_wrap=True, overflow="ellipsis")

            columns = (SpinnerColumn("line"), Now(), TimeElapsedColumn())
            painter = screen.painter(self._file, highlight=False)
            self._bar = Progress(*columns, console=painter, transient=True, refresh_per_second=4)
            self._bar.add_task("starting Ansible")
            self._bar.start()
        self._reader = threading.Thread(target=self._read, args=[pipe], daemon=True)
        self._reader.start()

    def stop(self) -> None:
        """Stop drawing; later events are still printed."""
        if self._bar is not None:
            self._bar.stop()

    def join(self) -> None:
        """Wait until all is shown, 2 s at most: a child of the child may hold the pipe for longer."""
        self._reader.join(DRAIN_SECONDS)
        self.stop()

    def say(self, text: str) -> None:
        """Print lines above the current task. The playbook continues if the reader is gone."""
        text = fit(retold(text)).encode(self._file.encoding, "backslashreplace").decode(self._file.encoding)
        with self._lock, suppress(OSError):
            if self._bar is not None:
                self._bar.console.print(text, markup=False, soft_wrap=True)
            else:
                print(text, file=self._file, flush=True)

    def _read(self, pipe: IO[bytes]) -> None:
        rest = b""
        with suppress(OSError, ValueError):  # it was closed
            while True:
                if not select.select([pipe], [], [], QUIET_SECONDS)[0]:
                    self._still()
                    continue
                if not (piece := os.read(pipe.fileno(), 1 << 16)):
                    return
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    self.hear(json.loads(line))

    def hear(self, event: Mapping[str, Any]) -> None:
        """Show one event."""
        ways: dict[str, Callable[..., None]] = {
            "task": self._task,
            "result": self._result,
            "failed": self._failed,
            "said": lambda text, **_: self.say(text.rstrip("\n")),
            "end": self._end,
        }
        ways[event["event"]](**event)

    def _task(self, task: str, step: str, of_role: bool, **_: Any) -> None:
        self._end_task()
        if step != self._step.name:
            self._end_step()
            self._step = _Step(step, of_role)
            if self._bar is not None:
                self._bar.reset(self._bar.task_ids[0])
        self._step.task, self._step.task_began = task, time.monotonic()
        if self._transfers:
            self._transfers.begin()

    def _result(self, host: str, changed: bool, here: bool, **_: Any) -> None:
        self._step.seen.add(host)
        self._step.done.add(host)
        if changed and here:
            self._step.here = True
        elif changed:
            self._step.changed[host] = self._step.task_changed[host] = None

    def _failed(self, word: str, host: str, text: str, **_: Any) -> None:
        step = self._step
        step.seen.add(host)
        step.failed.add(host)
        again, self._said = text == self._said, text
        said = " as above" if again else "".join(f"\n    {line}" for line in text.splitlines())
        self.say(f"{word} {host}, {self._where()}:{said}")

    def _end_task(self) -> None:
        if self._check and (hosts := self._step.task_changed):
            self.say(f"  would change: {self._where()} ({', '.join(sorted(hosts))})")
        self._step.task_changed, self._step.done = {}, set()

    def _end_step(self) -> None:
        """One line; a task of the playbook itself that took no time and changed nothing has none."""
        step, outcome = self._step, self._step.outcome(self._check, self._well)
        if step.seen and (step.of_role or step.seconds >= 1 or outcome != self._well):
            names = min(_NAMES, max(0, (screen.width(self._file) or _WIDE) - _OTHERS))
            self.say(f"  {clean(step.name).ljust(names)} {outcome:<38} {step.seconds:6.1f} s")

    def _end(self, hosts: Mapping[str, str], **_: Any) -> None:
        self._end_task()
        self._end_step()
        self._step = _Step()
        counts = Counter(hosts.values())
        words = {**_ENDS, "unchanged": self._well, **({"changed": "would change"} if self._check else {})}
        self.say(f"{len(hosts)} host(s): " + ", ".join(f"{counts[end]} {word}" for end, word in words.items()))

    def _where(self) -> str:
        return clean(f"{self._step.name}: {self._step.task}" if self._step.of_role else self._step.task)

    def _now(self) -> str:
        """The current task, the number of hosts that have done it, and what it transfers."""
        assert self._bar is not None
        step, moved = self._step, self._moved()
        more = (f" ({len(step.done)} host(s) done)" if step.done else "") + moved
        return f"{self._where()[: max(0, self._bar.console.width - _BESIDE - len(more))]}{more}"

    def _moved(self) -> str:
        moved = str(self._transfers or "")
        return f": {moved}" if moved else ""

    def _still(self) -> None:
        if self._bar is None and self._step.name:
            self.say(f"  {self._where()}, for {time.monotonic() - self._step.task_began:.0f} s now{self._moved()}")


class _Above(io.TextIOBase):
    """A file whose lines go above the current task."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    def write(self, text: str) -> int:
        """See io.TextIOBase."""
        self._steps.say(text.removesuffix("\n"))
        return len(text)


@contextmanager
def following(process: "subprocess.Popen[bytes]", events: IO[bytes], log: Path, shown: Steps | None) -> Iterator[None]:
    """Show the events or the output of a child; the log gets all output. The end of the block shows the rest."""
    assert process.stdout and process.stderr
    with log.open("a", encoding="utf-8") as file, events:
        relays = [
            screen.Relay(process.stdout, None if shown else sys.stdout, file),
            screen.Relay(process.stderr, shown.errors if shown else sys.stderr, file),
        ]
        if shown:
            shown.start(events)
        try:
            yield
        finally:
            for relay in relays:
                relay.join()
            if shown:
                shown.join()
