"""Trees of files of any depth and size, deleted and measured by the system's own programs.

Python's own ways fail at a depth of 1000, and keep a file open for each level. For a tree that a run owns they are used
as the account of runs (`rights.call`).
"""

from __future__ import annotations

import os
import subprocess
from typing import List


def remove(folder: str) -> bool:
    """Delete a folder, or all in it where its parent may not be written; whether nothing is left in it."""
    _quiet(["rm", "-rf", "--one-file-system", "--", folder])
    if _holds_something(folder):  # a folder in it that its owner may not look into
        _quiet(["chmod", "-R", "u+rwx", "--", folder])
        _quiet(["rm", "-rf", "--one-file-system", "--", folder])
    return not _holds_something(folder)


def size(folder: str) -> int:
    """Bytes that a tree takes on the disk, as far as it can be looked into."""
    done = _quiet(["du", "-sx", "--block-size=1", "--", folder])
    first = done.stdout.split(b"\t")[0]
    return int(first) if first.isdigit() else 0


def _holds_something(folder: str) -> bool:
    try:
        with os.scandir(folder) as entries:
            return any(True for _ in entries)
    except FileNotFoundError:
        return False
    except OSError:
        return True


def _quiet(command: List[str]) -> subprocess.CompletedProcess[bytes]:
    """Found in the system's own folders too, where PATH does not name them."""
    env = {**os.environ, "PATH": os.pathsep.join(filter(None, (os.environ.get("PATH"), os.defpath)))}
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd="/", env=env
    )
