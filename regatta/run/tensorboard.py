"""TensorBoard over the event files of runs: brought here as all outputs are, again and again while a run lasts."""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from regatta import paths
from regatta.environment import programs
from regatta.errors import DataError, LaunchError, NodesError
from regatta.hosts import tunnels
from regatta.hosts.remote import Remote
from regatta.run import fetching, outputs, pages
from regatta.run.outputs import Run

PACKAGE = "tensorboard>=2.21"
"""Earlier ones import `pkg_resources`, which setuptools no longer has."""
EVENTS = "**/*tfevents*"
PORT = 6006
START_SECONDS = 300.0
MOST_GB = 2.0
_TURN_SECONDS = 0.5


def bring(remote: Remote, runs: Sequence[Run], stream: TextIO | None = None) -> list[Path]:
    """The folder here of each run that has event files, which are brought; DataError where none of them has any.

    Progress goes to `stream` (None: standard error).
    """
    found = []
    failed: dict[str, Exception] = {}
    for run in runs:
        parts, unasked = outputs.look(remote, run, [EVENTS])
        target = paths.results_dir() / run.id
        if any(part.count for part in parts):
            fetching.check(run.id, parts, MOST_GB)
            failed |= fetching.fetch(remote, run, parts, target, stream).failed
        failed |= unasked
        if any(target.glob(EVENTS)):
            found.append(target)
    if not found and failed:
        raise NodesError("looking for event files", failed)
    if not found:
        names = ", ".join(run.id for run in runs)
        raise DataError(
            f"{names}: no event files of TensorBoard (*tfevents*) in the working directory. torch.utils.tensorboard's "
            "SummaryWriter writes them there; --with tensorboard brings its package to a run"
        )
    return found


@contextmanager
def serving(folders: Sequence[Path], port: int | None, say: Callable[[str], None]) -> Iterator[str]:
    """TensorBoard over these folders, on a port of 127.0.0.1; gives its address. LaunchError: why not."""
    place = programs.folder(PACKAGE, say=say)
    at = port or tunnels.free_local_port(PORT)
    with tempfile.TemporaryDirectory(prefix="regatta-board-") as temporary:
        for folder in folders:
            Path(temporary, folder.name).symlink_to(folder.resolve())
        log, own = Path(temporary, ".log"), Path(temporary, ".own")
        own.mkdir()  # else TensorBoard leaves a folder in /tmp
        words = [sys.executable, "-m", "tensorboard.main", "--logdir", temporary, "--host", "127.0.0.1"]
        with (
            log.open("wb") as out,
            subprocess.Popen(
                [*words, "--port", str(at), "--reload_interval", "5"],
                env={**os.environ, "PYTHONPATH": str(place), "TMPDIR": str(own)},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            ) as process,
        ):
            try:
                url = f"http://127.0.0.1:{at}/"
                _answers(process, url, log)
                yield url
            finally:
                process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(5)
                process.kill()


def _answers(process: "subprocess.Popen[bytes]", url: str, log: Path) -> None:
    ends = time.monotonic() + START_SECONDS
    while True:
        try:
            pages.answering(url)
            return
        except LaunchError:
            if process.poll() is None and time.monotonic() < ends:
                time.sleep(_TURN_SECONDS)
                continue
            last = log.read_text(errors="replace").strip().splitlines()[-8:]
            raise LaunchError("TensorBoard does not start:\n" + "\n".join(last)) from None
