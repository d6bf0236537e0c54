"""The size of what is synced of a tree, and whether a person wants that much."""

import contextlib
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from regatta.errors import DeclinedError, SyncError, UsageError
from regatta.terminal import screen

MEGABYTES = 500
VARIABLE = "REGATTA_TREE_MB"
_LARGEST = 5


def limit() -> int:
    """Bytes that a tree may have before a person is asked (`REGATTA_TREE_MB`)."""
    wanted = os.environ.get(VARIABLE) or str(MEGABYTES)
    if not (wanted.isascii() and wanted.isdecimal()):
        raise UsageError(f"{VARIABLE}={wanted}: give a number of megabytes")
    return int(wanted) * 10**6


def check(root: Path, sizes: Mapping[str, int]) -> None:
    """Ask on a terminal whether a large tree is to be synced. DeclinedError for a no, SyncError without a terminal.

    `sizes`: bytes of each path.
    """
    total = sum(sizes.values())
    if total <= limit():
        return
    from regatta.terminal.meter import size_text
    from regatta.text import shown

    largest = ", ".join(f"{shown(path)} {size_text(size)}" for path, size in largest_of(sizes))
    large = f"{root} has {size_text(total)} to sync, more than {size_text(limit())}; the largest: {largest}"
    if sys.stdin is not None and sys.stdin.isatty():
        print(large, file=sys.stderr, flush=True)
        with contextlib.suppress(EOFError):
            if screen.ask("Sync all of it? Type yes:").strip() == "yes":
                return
        raise DeclinedError("nothing was synced: name in .regattaignore what the nodes do not need")
    raise SyncError(
        f"{large}. Name in .regattaignore what the nodes do not need (/data/ on its own line), "
        f"or allow more: {VARIABLE}={-(-total // 10**6)}"
    )


def largest_of(sizes: Mapping[str, int]) -> list[tuple[str, int]]:
    """The largest folders (with `/` at the end) and files, side by side: of a folder that holds all, what it holds."""
    prefix = ""
    while True:
        below: dict[str, int] = defaultdict(int)
        for path, size in sizes.items():
            if path.startswith(prefix):
                name, slash, _ = path[len(prefix) :].partition("/")
                below[prefix + name + slash] += size
        ordered = sorted(below.items(), key=lambda item: (-item[1], item[0]))
        first, size = ordered[0]
        if not first.endswith("/") or size < 0.9 * sum(below.values()) or sum(p.startswith(first) for p in sizes) > 50:
            return ordered[:_LARGEST]
        prefix = first


def measured(root: Path, paths: Iterable[str], seconds: float) -> dict[str, tuple[int, bool]]:
    """Bytes of each file or folder below `root`, and whether that is all of it: no longer than `seconds` for all."""
    left, found = list(paths), {}
    end = time.monotonic() + seconds
    while left:
        now = time.monotonic()
        share = now + max(0.0, end - now) / len(left)
        path = left.pop(0)
        found[path] = _measured(root / path, share)
    return found


def _measured(path: Path, end: float) -> tuple[int, bool]:
    total, folders = 0, [str(path)] if path.is_dir() and not path.is_symlink() else []
    with contextlib.suppress(OSError):  # gone meanwhile
        total = 0 if folders else path.lstat().st_size
    while folders:
        with contextlib.suppress(OSError), os.scandir(folders.pop()) as entries:
            for number, entry in enumerate(entries):
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                else:
                    total += entry.stat(follow_symlinks=False).st_size
                if number % 64 == 63 and time.monotonic() > end:
                    return total, False
        if folders and time.monotonic() > end:
            return total, False
    return total, True
