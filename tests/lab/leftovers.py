"""Remove labs of test sessions that were killed: `PYTHONPATH=.:tests python tests/lab/leftovers.py`; others stay."""

import re
from pathlib import Path

import life

from lab.handle import lab_command
from lab.model import STATE


def remove() -> None:
    """Bare labs are named after a process; the shared ones are held by a lock."""
    names = [path.name for path in STATE.glob("t*")] if STATE.is_dir() else []
    for name in names:
        made_by = re.fullmatch(r"t(\d+)[a-z]", name)
        if made_by and not Path(f"/proc/{made_by[1]}").exists():
            lab_command("down", "--name", name)
    for name in set(names) & set(life.NAMES):
        with life.held(name) as free:
            if free:
                lab_command("down", "--name", name)


if __name__ == "__main__":
    remove()
