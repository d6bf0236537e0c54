"""The main process of Ray's units, with a Ray of the test: it fails where a daemon ends in order, and only there."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAM = Path(__file__).resolve().parents[2] / "ansible/roles/ray/files/ray_main.py"
RAY = """
import signal, subprocess, sys, time
def main():
    assert sys.argv[:2] == ["ray", "start"], sys.argv
    names = ["raylet"] + (["gcs_server"] if "--head" in sys.argv else [])
    children = [subprocess.Popen([f"{HERE}/{name}", "600"], stdout=-3, stderr=-3) for name in names]
    def stop(*_):
        for child in children:
            child.terminate()
            child.wait()
        time.sleep(STOP_SECONDS)
        print("stopped in order", flush=True)
        sys.exit(1)
    signal.signal(signal.SIGTERM, stop)
    print(*(child.pid for child in children), flush=True)
    while True:
        time.sleep(0.05)
        [child.poll() for child in children]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with programs of the daemons' names, and with the package `ray`."""
    for name in ("raylet", "gcs_server"):
        shutil.copy("/bin/sleep", tmp_path / name)
    package = tmp_path / "ray/scripts"
    package.mkdir(parents=True)
    (tmp_path / "ray/__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "scripts.py").write_text(f"HERE, STOP_SECONDS = {str(tmp_path)!r}, 0.5\n{RAY}")
    return tmp_path


def begin(folder: Path, patience: str, *words: str) -> tuple["subprocess.Popen[str]", list[int]]:
    """The process, and its daemons as soon as it watches them."""
    process = subprocess.Popen(
        [sys.executable, PROGRAM, patience, "start", *words],
        env={**os.environ, "PYTHONPATH": str(folder)},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert process.stdout is not None
    daemons = [int(word) for word in process.stdout.readline().split()]
    end = time.monotonic() + 30
    while watched(process.pid) < len(daemons):
        assert time.monotonic() < end, "it watches nothing"
        time.sleep(0.05)
    return process, daemons


def watched(pid: int) -> int:
    """Return how many processes a process has a handle of."""
    found = 0
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it was closed in between
            found += "pidfd" in str(entry.readlink())
    return found


@pytest.mark.parametrize(
    ("words", "which", "name"), [([], 0, "raylet"), (["--head"], 0, "raylet"), (["--head"], 1, "gcs_server")]
)
def test_a_daemon_that_ends_in_order_makes_the_unit_fail(folder: Path, words: list[str], which: int, name: str) -> None:
    process, daemons = begin(folder, "0.2", *words)
    os.kill(daemons[which], signal.SIGTERM)
    said = process.communicate(timeout=60)[0]
    assert process.returncode == 1
    assert f"{name} ended" in said
    for pid in daemons:
        if Path(f"/proc/{pid}").exists():
            os.kill(pid, signal.SIGKILL)  # systemd does that


def test_a_stop_is_left_alone(folder: Path) -> None:
    process, _ = begin(folder, "30")
    process.terminate()
    said = process.communicate(timeout=60)[0]
    assert said == "stopped in order\n"
