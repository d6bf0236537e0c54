"""A trial that is a script of the project: started again for each point, which it gets as flags.

It reports by lines of JSON on its standard output that have the metric: ``print(json.dumps({"accuracy": 0.9}))``. All
else that it prints is the run's. `REGATTA_TRIAL` is the trial's folder: what is kept there is its checkpoint;
`REGATTA_EPOCHS` says how many reports are wanted at most, `REGATTA_SEED` is the search's seed. A search may end it
sooner: what it keeps is whole where it is renamed into place.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from workloads.common.events import BadInput
from workloads.common.search.trial import ended

FUNCTION = f"{__name__}:trial"
"""The program that a search calls."""
COMMAND, METRIC, EPOCHS, SUM = "script", "script_metric", "script_epochs", "script_sha256"
"""Arguments of it that are no flags: the card's command, its metric, reports at most, and the hash of its script."""
_GRACE_SECONDS = 10.0
_LAST_LINES = 3


def check(command: str) -> Path:
    """The script of a card's command. Raises :class:`BadInput` where there is none."""
    path = Path(shlex.split(command)[0])
    if not path.is_file():
        raise BadInput(f"command: there is no {path} in the project: correct the card")
    return path


def trial(
    folder: Path, seed: int, script: str, script_metric: str, script_epochs: int, script_sha256: str, **values: Any
) -> Iterator[dict[str, Any]]:
    """Start the script with ``--NAME=VALUE`` for each of the values, and yield its reports.

    Raises RuntimeError with its last output, where it ends with another code than 0. Where no reader is left
    it is killed; with its last report it is given some seconds to end.
    """
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in values.items()]
    own = {"REGATTA_TRIAL": str(folder), "REGATTA_SEED": str(seed), "REGATTA_EPOCHS": str(script_epochs)}
    command = ["setpriv", "--pdeathsig", "KILL", "--", sys.executable, *shlex.split(script), *flags]
    environment = {**os.environ, **own, "PYTHONUNBUFFERED": "1"}
    last: deque[str] = deque(maxlen=_LAST_LINES)
    given = 0
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout and process.stderr
        hearing = threading.Thread(target=_pass_on, args=(process.stderr, last))
        hearing.start()
        try:
            for line in process.stdout:
                if (report := _report(line, script_metric)) is None:
                    print(line, end="", flush=True)
                else:
                    given += 1
                    yield report
        except GeneratorExit:
            with _killed_after(process, _GRACE_SECONDS if given >= script_epochs else 0):
                for _ in process.stdout:
                    pass
            raise
        except BaseException:
            process.kill()
            raise
        finally:
            code = process.wait()
            hearing.join()
    if code:
        raise RuntimeError(f"{shlex.split(script)[0]} {ended(code)}{': ' if last else ''}{' | '.join(last)}")


@contextmanager
def _killed_after(process: subprocess.Popen[str], seconds: float) -> Iterator[None]:
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    yield
    timer.cancel()


def _report(line: str, metric: str) -> dict[str, Any] | None:
    """Return what a line reports; None where it is none."""
    if not line.startswith("{"):
        return None
    try:
        made = json.loads(line)
    except ValueError:
        return None
    return made if isinstance(made, dict) and metric in made else None


def _pass_on(errors: IO[str], last: deque[str]) -> None:
    for line in errors:
        last.append(line.rstrip())
        print(line, end="", file=sys.stderr, flush=True)
