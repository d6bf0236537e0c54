"""A program of a run that starts processes by spawn and has no main guard: it breeds no processes, it ends."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from regatta.node import spawn_guard
from regatta.paths import PROJECT

POOL = """
import multiprocessing
def double(number):
    return 2 * number
pool = multiprocessing.get_context("{how}").Pool(2)
print(pool.map(double, range(4)))
"""
GUARDED = """
import multiprocessing
def double(number):
    return 2 * number
if __name__ == "__main__":
    with multiprocessing.get_context("{how}").Pool(2) as pool:
        print(pool.map(double, range(4)))
"""
OF_RANKS, OF_RAY = "node/sitecustomize_rank", "frameworks/ray/run/sitecustomize"
# Two of the processes end at once: the traceback of one comes after the words of the other.
MUCH_AFTER = """
import os, signal, sys
print({words!r}, *(f"  File {{number}}" for number in range(50)), sep="\\n", file=sys.stderr, flush=True)
os.kill(os.getpid(), signal.SIGTERM)
"""


def ended(folder: Path, text: str, module: str) -> "subprocess.CompletedProcess[str]":
    """A program whose Python begins as that of a run does."""
    (folder / "program.py").write_text(text)
    (folder / "boot").mkdir(exist_ok=True)
    shutil.copy(PROJECT / f"regatta/{module}.py", folder / "boot/sitecustomize.py")
    for name in ("spawn_guard", "imports"):
        shutil.copy(PROJECT / f"regatta/node/{name}.py", folder / f"boot/regatta_{name}.py")
    with subprocess.Popen(
        [sys.executable, "program.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder / "boot"), "REGATTA_RUN_ID": "breeds", "TMPDIR": str(folder)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            said = process.communicate(timeout=60)[0]
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    return subprocess.CompletedProcess([], process.returncode, said)


@pytest.mark.parametrize(
    ("how", "module"),
    [("spawn", OF_RANKS), ("forkserver", OF_RANKS), ("spawn", OF_RAY)],
)
def test_a_program_without_a_main_guard_ends_with_a_word(tmp_path: Path, how: str, module: str) -> None:
    done = ended(tmp_path, POOL.format(how=how), module)
    assert done.returncode == -signal.SIGTERM, done.stdout
    assert spawn_guard.WORDS in done.stdout


def test_one_with_a_guard_goes_on(tmp_path: Path) -> None:
    done = ended(tmp_path, GUARDED.format(how="spawn"), OF_RANKS)
    assert (done.returncode, done.stdout) == (0, "[0, 2, 4, 6]\n")


def test_what_is_not_of_the_run_is_left_alone() -> None:
    assert not spawn_guard.of_this_run(os.getpid())


@pytest.mark.parametrize("program", [POOL.format(how="spawn"), MUCH_AFTER.format(words=spawn_guard.WORDS)])
def test_the_run_says_what_to_do(here: Path, tmp_path: Path, program: str) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "program.py").write_text(program)
    (project / "regatta.toml").write_text(
        f'[workloads.pool]\nabout = "x"\ncommand = {json.dumps("program.py")}\nframeworks = ["single"]\n'
    )
    done = subprocess.run(
        [sys.executable, "-c", "from regatta import cli; cli.main()", "run", "pool", f"--inventory={here}"],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode != 0
    advice = '; its program starts processes by spawn: put what it does below `if __name__ == "__main__":`'
    assert advice in done.stderr
