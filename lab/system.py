"""The machine underneath: commands, locks, signals, mounts and kernel settings."""

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType

RUN = Path("/run/regatta-lab")


class LabError(Exception):
    """Ends the command with one message."""


class Interrupted(BaseException):
    """A signal asked the command to end; raised in the main thread so that what was begun is undone."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def say(text: str) -> None:
    """Print a line at once, also into a pipe; a reader that has gone away stops nothing."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run(argv: Sequence[str | Path], *, feed: str | None = None) -> str:
    """Run a command; return its standard output.

    Raises:
        LabError: it could not be started or failed; the message ends with what it said.
    """
    words = [str(word) for word in argv]
    try:
        done = subprocess.run(words, input=feed, capture_output=True, text=True, check=False)
    except OSError as error:
        raise LabError(f"{words[0]} cannot be started: see 'python3 -m lab check' ({error.strerror})") from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip() or f"exit status {done.returncode}"
        raise LabError(f"`{' '.join(words)}` failed: {said}")
    return done.stdout


@contextlib.contextmanager
def lock(name: str) -> Iterator[None]:
    """Hold the machine-wide lock of this name; prints a line when another command holds it."""
    RUN.mkdir(mode=0o700, exist_ok=True)
    descriptor = os.open(RUN / f"{name}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting: another command works on {name}")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Held:
    """Whether signals wait (`signals_wait`), and the one that does."""

    now = False
    number = 0


def catch_signals() -> None:
    """Turn Ctrl-C, SIGTERM and a closed terminal into `Interrupted`, once: a second one changes nothing."""

    def interrupt(number: int, _frame: FrameType | None) -> None:
        ignore_signals()
        if _Held.now:
            _Held.number = number
        else:
            raise Interrupted(number)

    for number in _ENDING:
        signal.signal(number, interrupt)


@contextlib.contextmanager
def signals_wait() -> Iterator[None]:
    """Let a signal that ends the command wait until the block is done: nothing is left open or half made in it."""
    _Held.now = True
    try:
        yield
    finally:
        _Held.now = False
        number, _Held.number = _Held.number, 0
        if number:
            raise Interrupted(number)


def ignore_signals() -> None:
    """From here on nothing but SIGKILL stops the command: what it cleans up, it cleans up whole."""
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)


def mounts_below(folder: Path) -> list[str]:
    """Mount points at or below `folder`, the deepest first."""
    found = []
    for line in Path("/proc/self/mounts").read_text().splitlines():
        point = line.split()[1].encode().decode("unicode_escape")
        if point == str(folder) or point.startswith(f"{folder}/"):
            found.append(point)
    return sorted(found, key=len, reverse=True)


def unmount_below(folder: Path, *, seconds: float = 10) -> None:
    """Unmount everything at or below `folder`, waiting for processes that are just ending."""
    end = time.monotonic() + seconds
    while points := mounts_below(folder):
        for point in points:
            try:
                run(["umount", point])
            except LabError as error:
                if time.monotonic() > end:
                    raise LabError(f"{error}: leave that folder and try again") from error
                time.sleep(0.1)
                break


def _settings_file() -> Path:
    return RUN / "sysctl.json"


def raise_setting(key: str, value: int) -> None:
    """Give a sysctl at least this value; its first value is kept for `restore_settings`."""
    path = Path("/proc/sys") / key.replace(".", "/")
    try:
        before = int(path.read_text())
    except (OSError, ValueError):
        return
    if before >= value:
        return
    RUN.mkdir(mode=0o700, exist_ok=True)
    file = _settings_file()
    saved = json.loads(file.read_text()) if file.exists() else {}
    saved.setdefault(key, before)
    file.write_text(json.dumps(saved))
    try:
        path.write_text(str(value))
    except OSError as error:
        raise LabError(f"cannot set {key}={value}: see 'python3 -m lab check' ({error.strerror})") from error


def restore_settings(keep: Sequence[str]) -> None:
    """Put back every sysctl that `raise_setting` changed, but those named in `keep`."""
    file = _settings_file()
    if not file.exists():
        return
    saved = json.loads(file.read_text())
    for key in [key for key in saved if key not in keep]:
        with contextlib.suppress(OSError):
            (Path("/proc/sys") / key.replace(".", "/")).write_text(str(saved[key]))
        del saved[key]
    if saved:
        file.write_text(json.dumps(saved))
    else:
        file.unlink()


def become_root(arguments: Sequence[str], cache: Path) -> None:
    """Start this command again by `sudo -n` (no password asked); returns if that is not possible."""
    try:
        allowed = subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        allowed = False
    if not allowed:
        return
    project = Path(__file__).resolve().parent.parent
    environment = [f"REGATTA_CACHE={cache}", f"PYTHONPATH={project}", "PYTHONDONTWRITEBYTECODE=1"]
    os.execvp("sudo", ["sudo", "-n", "env", *environment, sys.executable, "-m", "lab", *arguments])
