"""The folders in which the controller keeps things."""

import os
import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent
# Whether this is no checkout, but what `pip install` made of one (setup.py).
INSTALLED = (_HERE / "project").is_dir()
# The folder with ansible/, workloads/, requirements/ and inventory/.
PROJECT = _HERE / "project" if INSTALLED else _HERE.parent
NODE_PYTHON = Path(sys.executable) if INSTALLED else PROJECT / ".venv-node/bin/python"
"""The interpreter of runs on this machine, where its inventory names no other."""
RESULTS = "results"
LISTS = ("uv.lock", "pylock.toml", "requirements.txt", "requirements.in", "pyproject.toml", "setup.cfg", "setup.py")
"""The files in which a project says what it needs, the first that is there and says something."""
OTHER_LISTS = (
    *("poetry.lock", "pdm.lock", "Pipfile.lock", "Pipfile", "pixi.lock", "pixi.toml", "conda-lock.yml"),
    *("environment.yml", "environment.yaml", "conda.yml", "conda.yaml"),
)
"""Those of tools whose lists are not read."""
MARKS = ("regatta.toml", *LISTS, *OTHER_LISTS)
"""Files by which a folder is a project."""


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
    """Return where records are kept: `$REGATTA_RESULTS` or `results/` of the project around the current folder."""
    if chosen := os.environ.get("REGATTA_RESULTS"):
        return Path(chosen)
    return Path(os.path.relpath(project_dir(Path.cwd()))) / RESULTS


def project_dir(start: Path) -> Path:
    """The project that a folder is in: the nearest folder upwards, within git's work tree, with a file of `MARKS`.

    Without one it is the work tree. Without git see `declared`.
    """
    upwards = (start.resolve(), *start.resolve().parents)
    top = next((folder for folder in upwards if os.path.lexists(folder / ".git")), None)
    if top is None:
        return declared(start)
    inside = [folder for folder in upwards if folder.is_relative_to(top)]
    return next((folder for folder in inside if any((folder / name).is_file() for name in MARKS)), top)


def declared(start: Path) -> Path:
    """The nearest folder upwards with a `regatta.toml`, else `start`; Regatta's own folder is in none."""
    start = start.resolve()
    upwards = [] if start.is_relative_to(PROJECT) else (start, *start.parents)
    return next((folder for folder in upwards if (folder / MARKS[0]).is_file()), start)
