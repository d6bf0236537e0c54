"""Commands as a person types them, timed; where this is stopped, the running command is ended and waited for."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from regatta.paths import PROJECT

FAB = PROJECT / ".venv/bin/fab"
STOP_SECONDS = 30.0
_ERRORS = 3
_LAST_LINES = 15
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class BenchError(Exception):
    """A measurement is impossible, or what was measured did not do its work."""


@dataclass(frozen=True)
class Done:
    """A command that has ended: its exit code, what it printed, how long it took, when it ended (Unix time)."""

    code: int
    output: str
    seconds: float
    ended: float


def run(
    words: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path = PROJECT,
    limit: float = 1800,
    check: bool = True,
) -> Done:
    """Run a command in its own session, so that Ctrl-C reaches it once, from us. BenchError where it fails."""
    shown = " ".join(str(word) for word in words)
    began = time.monotonic()
    with subprocess.Popen(
        [str(word) for word in words],
        env={**os.environ, **(env or {})},
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            _end(process)
            raise BenchError(f"`{shown}` did not end within {limit:g} s") from None
        except BaseException:
            _end(process)
            raise
    done = Done(process.returncode, output, time.monotonic() - began, time.time())
    if check and done.code:
        raise BenchError(f"`{shown}` ended with {done.code}:\n{last_lines(output)}")
    return done


def last_lines(text: str) -> str:
    """The end of a command's output, indented, after what Ansible has called an error before that."""
    lines = text.strip().splitlines()
    errors = [line for line in lines[:-_LAST_LINES] if line.startswith("[ERROR]")][:_ERRORS]
    return "\n".join(f"    | {line}" for line in (*errors, *lines[-_LAST_LINES:]))


def interruptible() -> None:
    """Let SIGTERM and a closed terminal end us as Ctrl-C does, with everything undone; a second signal is ignored."""

    def ignore(_number: int, _frame: object) -> None:
        pass

    def interrupt(which: int, _frame: object) -> None:
        for number in _ENDING:
            signal.signal(number, ignore)
        raise KeyboardInterrupt(which)

    for number in _ENDING:
        signal.signal(number, interrupt)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Clean up whole: a signal that would end us does so when it is done."""
    late: list[int] = []
    previous = {number: signal.signal(number, lambda which, _: late.append(which)) for number in _ENDING}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    if late:
        raise KeyboardInterrupt(late[0])


def _end(process: "subprocess.Popen[str]") -> None:
    with undisturbed():
        for number in (signal.SIGINT, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=STOP_SECONDS)
                return
