"""The default graph of `run-ppr`: the package dependencies of this machine, made once for each state of its lists."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from regatta import paths
from regatta.errors import DataError

_SOURCES = ("/var/lib/apt/lists", "/var/lib/dpkg")


def debian() -> Path:
    """The dependency graph as an edge list. DataError where this machine has no package lists."""
    target = paths.cache_dir() / "graphs" / f"debian-{_signature()}.txt.gz"
    if target.is_file():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-m", "workloads.ppr.debian", str(target)],
        cwd=paths.PROJECT,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode:
        said = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        raise DataError(said[-1] if said else "the package dependency graph could not be made; give --graph FILE")
    return target


def _signature() -> str:
    """Hash of the names, sizes and times of apt's lists, and of the program that reads them."""
    digest = hashlib.sha256((paths.PROJECT / "workloads/ppr/debian.py").read_bytes())
    for folder in _SOURCES:
        for base, _, files in os.walk(folder):
            for name in sorted(files):
                if name.endswith("Packages") or ".Packages." in name or name == "status" or "_Packages" in name:
                    info = (Path(base) / name).stat()
                    digest.update(f"{base}/{name}\0{info.st_size}\0{info.st_mtime_ns}\0".encode())
    return digest.hexdigest()[:16]
