"""Things that a test of the controller must not leave behind: threads, open files, child processes, temporary files."""

import gc
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from pathlib import Path

PATIENCE = 5.0
"""Seconds for what is just ending."""
THREADS = ("asyncio_", "ThreadPoolExecutor-render")
"""Beginnings of names of threads that live as long as the process: an executor's that a library keeps."""
FILES = ("/dev/null", "/dev/urandom", "/proc/", "anon_inode:[eventpoll]", "anon_inode:[eventfd]")
"""Beginnings of what libraries open once and keep: a source of random numbers, an event loop's own descriptors."""
KEEPING = ("vl_convert",)
"""Libraries that open files at their first use and keep them: of the test that comes first, files are not looked at."""
CHILDREN: tuple[str, ...] = ()
"""Beginnings of command lines of children that live as long as the process."""


def _threads() -> set[Hashable]:
    living = [thread for thread in threading.enumerate() if thread.is_alive()]
    return {thread for thread in living if not thread.name.startswith(THREADS)}


def _files() -> set[Hashable]:
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            target = str(entry.readlink())
        except OSError:  # that of the listing itself
            continue
        if int(entry.name) > 2 and not target.startswith(FILES):  # those of the capture come and go
            found.add((int(entry.name), target))
    return set(found)


def _children() -> set[Hashable]:
    found: set[Hashable] = set()
    for task in Path("/proc/self/task").iterdir():
        try:
            numbers = (task / "children").read_text().split()
        except OSError:
            continue
        for number in numbers:
            try:
                line = Path(f"/proc/{number}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if not (CHILDREN and line.startswith(CHILDREN)):
                found.add((int(number), line.strip()))
    return found


def _temporary() -> set[Hashable]:
    return {path.name for path in Path(tempfile.gettempdir()).iterdir()}


KINDS: dict[str, Callable[[], set[Hashable]]] = {
    "threads": _threads,
    "open files": _files,
    "child processes": _children,
    "temporary files": _temporary,
}


@contextmanager
def none() -> Iterator[None]:
    """Fail with what is there after the body and was not before, once it has had time to end."""
    before = {kind: look() for kind, look in KINDS.items()}
    known = sys.modules.keys() & set(KEEPING)
    yield
    if sys.modules.keys() & set(KEEPING) != known:
        before["open files"] = _files()
    end = time.monotonic() + PATIENCE
    pause = 0.0
    while left := {kind: new for kind, look in KINDS.items() if (new := look() - before[kind])}:
        if time.monotonic() > end:
            raise AssertionError(f"left behind: {left}")
        if pause:
            time.sleep(pause)
        gc.collect()
        subprocess._cleanup()  # type: ignore[attr-defined]  # children that have ended and were not waited for
        pause = 0.05
