"""`regatta run` as a person types it in their own project."""

import os
import subprocess
import sys
from pathlib import Path

from regatta.paths import PROJECT


def run(project: Path, inventory: Path, name: str, *words: str) -> "subprocess.CompletedProcess[str]":
    """`regatta run NAME`, by two workers; records and caches are next to the project."""
    own = {"REGATTA_RESULTS": str(project.parent / "results")}
    return typed(project, "run", name, f"--inventory={inventory}", "--workers=2", *words, **own)


def typed(folder: Path, *words: str, entered: str = "", **variables: str) -> "subprocess.CompletedProcess[str]":
    """`regatta WORDS` in a folder, with further variables; caches are next to it. `entered`: its standard input."""
    code = "from regatta import cli; cli.main()"
    own = {"PYTHONPATH": str(PROJECT), "XDG_CACHE_HOME": str(folder.parent / "kept")}
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=folder,
        env=os.environ | own | variables,
        input=entered,
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
