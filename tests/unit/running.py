"""`regatta run` as a person types it in their own project."""

import os
import subprocess
import sys
from pathlib import Path

from regatta.paths import PROJECT


def run(project: Path, inventory: Path, name: str, *words: str) -> "subprocess.CompletedProcess[str]":
    """`regatta run NAME`, by two workers; records and caches are next to the project."""
    code = "from regatta import cli; cli.main()"
    own = {"PYTHONPATH": str(PROJECT), "REGATTA_RESULTS": str(project.parent / "results")}
    return subprocess.run(
        [sys.executable, "-c", code, "run", name, f"--inventory={inventory}", "--workers=2", *words],
        cwd=project,
        env=os.environ | own | {"XDG_CACHE_HOME": str(project.parent / "kept")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
