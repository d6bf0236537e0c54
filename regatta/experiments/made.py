"""Input that a workload makes where none is named: once for each state of what it is made from."""

import fnmatch
import hashlib
import os
import subprocess
import sys
from pathlib import Path

from regatta import paths
from regatta.cards.card import Made, Workload, flag
from regatta.errors import DataError


def default(workload: Workload) -> Path | None:
    """The input that the card's program makes; None where it names none. DataError where it cannot be made."""
    given = workload.card.input
    if given is None or given.default is None:
        return None
    made = given.default
    target = paths.cache_dir() / made.name.format(state=_state(workload, made))
    if target.is_file():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-m", made.module, str(target)],
        cwd=workload.root,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode:
        said = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        raise DataError(said[-1] if said else f"{made.about} could not be made; give {flag(given.option)} FILE")
    return target


def _state(workload: Workload, made: Made) -> str:
    """Hash of the names, sizes and times of what it is made of, and of the program that makes it."""
    program = workload.root / f"{made.module.replace('.', '/')}.py"
    digest = hashlib.sha256(program.read_bytes())
    for folder in made.reads:
        for base, _, files in os.walk(folder):
            for name in sorted(files):
                if any(fnmatch.fnmatchcase(name, pattern) for pattern in made.files):
                    info = (Path(base) / name).stat()
                    digest.update(f"{base}/{name}\0{info.st_size}\0{info.st_mtime_ns}\0".encode())
    return digest.hexdigest()[:16]
