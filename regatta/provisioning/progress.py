"""Bytes of long transfers: steps on the controller write them into a folder, and the screen shows their sums."""

import json
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

FOLDER = "REGATTA_PROGRESS"
"""The variable with the folder; without it nothing is written."""
EACH_SECONDS = 0.5

Measure = Callable[[], tuple[str, int, int | None]]
"""The thing that is transferred, bytes done, and bytes in all where that is known."""


@contextmanager
def telling(measure: Measure) -> Iterator[None]:
    """While the block runs, write what `measure` finds, every half a second."""
    folder, ended = os.environ.get(FOLDER), threading.Event()
    if not folder:
        yield
        return
    file = Path(folder) / f"{os.getpid()}-{threading.get_ident()}.json"
    thread = threading.Thread(target=_tell, args=(measure, file, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        file.unlink(missing_ok=True)


def _tell(measure: Measure, file: Path, ended: threading.Event) -> None:
    with suppress(OSError):  # the folder is gone: no one looks any more
        while not ended.wait(EACH_SECONDS):
            new = file.with_suffix(".new")
            new.write_text(json.dumps(measure()))
            new.replace(file)


def held(folder: Path, *suffixes: str) -> dict[str, int]:
    """The bytes of each file below a folder by its name, of files that end so."""
    found = {}
    with suppress(OSError):  # a file that was moved meanwhile
        for path in folder.rglob("*"):
            if path.name.endswith(suffixes or "") and path.is_file():
                found[path.name] = path.stat().st_size
    return found


def size(path: Path) -> int:
    """The bytes of a file, of all files of a folder, or 0."""
    with suppress(OSError):
        return sum(held(path).values()) if path.is_dir() else path.stat().st_size
    return 0


def text(done: int, total: int | None) -> str:
    """`312 of 545 MB`."""
    return f"{done / 1e6:.0f} of {total / 1e6:.0f} MB" if total else f"{done / 1e6:.0f} MB"


class Transfers:
    """Return what is being transferred, for a person: `packages` counts the bytes that the package proxy has sent."""

    def __init__(self, packages: Callable[[], int]) -> None:
        self._packages, self._before = packages, 0
        self._held = tempfile.TemporaryDirectory(prefix="regatta-progress-")
        self.folder = Path(self._held.name)

    def __enter__(self) -> "Transfers":
        return self

    def __exit__(self, *_: object) -> None:
        self._held.cleanup()

    def begin(self) -> None:
        """Count the package proxy's bytes from 0 again: another task begins."""
        self._before = self._packages()

    def __str__(self) -> str:
        """`wheels 312 of 545 MB`; empty where nothing is transferred."""
        sums: dict[str, tuple[int, int]] = {}
        for path in self.folder.glob("*.json"):
            with suppress(OSError, ValueError):
                what, done, total = json.loads(path.read_text())
                before = sums.get(what, (0, 0))
                sums[what] = before[0] + done, before[1] + (total or 0)
        if packages := self._packages() - self._before:
            sums["Debian packages"] = packages, 0
        return ", ".join(f"{what} {text(done, total)}" for what, (done, total) in sorted(sums.items()))
