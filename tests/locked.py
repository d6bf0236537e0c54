"""Packages that a lock of requirements/ names, in their own folder next to the nodes' environment; made once."""

import fcntl
import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
NODE = PROJECT / ".venv-node/bin/python"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "regatta/tests"


def packages(name: str) -> Path:
    """The folder with what `requirements/<name>.lock` has, and nothing beyond it, for the nodes' Python."""
    lock = PROJECT / f"requirements/{name}.lock"
    version = subprocess.run([NODE, "--version"], capture_output=True, check=True).stdout
    folder = CACHE / hashlib.sha256(version + lock.read_bytes()).hexdigest()[:12]
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / ".lock").open("w") as alone:
        fcntl.flock(alone, fcntl.LOCK_EX)
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(dir=CACHE) as made:
                command = [NODE.with_name("uv"), "pip", "install", "--quiet", "--python", NODE, "--require-hashes"]
                command += ["--no-deps", "--target", f"{made}/all", "-r", lock]
                subprocess.run(command, env={"UV_SYSTEM_CERTS": "true", **os.environ}, check=True)
                Path(made, "all").rename(folder)
    return folder
