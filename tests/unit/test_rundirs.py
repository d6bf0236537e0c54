"""The content of a run's folder on a node after its writers were killed."""

import os
import subprocess
from pathlib import Path

from regatta.node import rundirs


def test_half_files_of_killed_writers_go(tmp_path: Path) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    own = tmp_path / f"stop.json.{os.getpid()}.new"
    for path in (tmp_path / f"stop.json.{gone.pid}.new", own, tmp_path / "exit.json", tmp_path / "log"):
        path.touch()
    rundirs.clear_halves(str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["exit.json", "log", own.name]
