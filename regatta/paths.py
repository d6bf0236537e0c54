"""The folders in which the controller keeps things."""

import os
from pathlib import Path

_HERE = Path(__file__).resolve().parent
# Whether this is no checkout, but what `pip install` made of one (setup.py).
INSTALLED = (_HERE / "project").is_dir()
# The folder with ansible/, workloads/, requirements/ and inventory/.
PROJECT = _HERE / "project" if INSTALLED else _HERE.parent


def cache_dir() -> Path:
    """Downloads and builds that may be deleted at any time: `$REGATTA_CACHE` or the user's cache folder."""
    if chosen := os.environ.get("REGATTA_CACHE"):
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "regatta"


def identity_file() -> Path:
    """Return what tells a person's projects from others' at the same path: `$REGATTA_IDENTITY`, or in the user's
    settings.
    """
    if chosen := os.environ.get("REGATTA_IDENTITY"):
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(base).expanduser() / "regatta" / "identity"


def runtime_dir() -> Path:
    """A private folder with a short path, for SSH control sockets (a socket's path has at most 107 bytes)."""
    base = Path(f"/tmp/regatta-{os.getuid()}")
    base.mkdir(mode=0o700, exist_ok=True)
    info = base.lstat()
    if base.is_symlink() or info.st_uid != os.getuid() or info.st_mode & 0o077:
        raise PermissionError(f"{base} is not a private folder of this user: remove it and try again")
    return base


def results_dir() -> Path:
    """Return where records are kept: `$REGATTA_RESULTS` or `results/` in the current folder."""
    return Path(os.environ.get("REGATTA_RESULTS") or "results")
