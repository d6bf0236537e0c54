"""Puts what was fetched of a run into an object store, by the store's package, which is brought to this machine."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from regatta import paths
from regatta.environment import programs
from regatta.environment.variables import Variables
from regatta.errors import DataError, LaunchError
from regatta.release import objects
from regatta.run import fetching
from regatta.run.outputs import NodeOutput, Run
from regatta.terminal.meter import Meter, size_text

_PROGRAM = "workloads.common.storage.upload"
_REFUSED = 2


@dataclass(frozen=True)
class Uploaded:
    """The objects that the store has now below `address`."""

    address: str
    files: int
    bytes: int
    seconds: float

    def line(self) -> str:
        """The line that a person reads."""
        count = f"{self.files} file{'s' * (self.files != 1)}, {size_text(self.bytes)}"
        return f"{self.address}: {count}, in {self.seconds:.1f} s"


def put(
    run: Run,
    parts: Sequence[NodeOutput],
    folder: Path,
    address: str,
    variables: Variables,
    say: Callable[[str], None],
    stream: TextIO | None = None,
) -> Uploaded:
    """Put the files of `parts`, which have come to `folder`, below an address; `variables` say who may do that.

    DataError where the store refuses or does not answer: what it has by then stays there, each file whole.
    """
    address = address.rstrip("/")
    files = [(str(path), f"{address}/{path.relative_to(folder)}") for path in _here(run, parts, folder)]
    place = programs.folder(objects.package(address), say=say)
    environment = {
        **os.environ,
        **variables.public,
        **variables.hidden,
        "PYTHONPATH": os.pathsep.join([str(place), str(paths.PROJECT)]),
    }
    began, done, size = time.monotonic(), 0, 0
    with (
        tempfile.TemporaryFile("w+") as asked,
        tempfile.TemporaryFile("w+", errors="replace") as said,
        Meter(f"put {run.id}", sum(Path(path).stat().st_size for path, _ in files), stream) as meter,
    ):
        json.dump({"files": files}, asked)
        asked.seek(0)
        with subprocess.Popen(
            [sys.executable, "-m", _PROGRAM],
            stdin=asked,
            stdout=subprocess.PIPE,
            stderr=said,
            env=environment,
            text=True,
            errors="replace",
        ) as process:
            assert process.stdout
            try:
                for line in process.stdout:
                    done, size = done + 1, size + int(line)
                    meter.set(size)
            except BaseException:
                process.kill()
                raise
        said.seek(0)
        words = said.read().strip().splitlines()[-8:]
    if process.returncode == _REFUSED and words:
        raise DataError(f"{words[-1]}; {done} of {len(files)} files are there, all are in {folder}")
    if process.returncode:
        raise LaunchError("\n".join([f"putting files to {address} has failed; all are in {folder}", *words]))
    return Uploaded(address, done, size, time.monotonic() - began)


def _here(run: Run, parts: Sequence[NodeOutput], folder: Path) -> list[Path]:
    """The files of `parts` that have come."""
    every = [fetching.place(run, part, folder) / file.path for part in parts for file in part.files]
    return [path for path in every if path.is_file() and not path.is_symlink()]
