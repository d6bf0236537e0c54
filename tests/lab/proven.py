"""Which tests of provisioning have passed for all that provisioning reads now: those need not run again here.

A test that is changed runs again, and so does everything in `make test-whole`.
"""

import hashlib
import json
import time
from pathlib import Path

import life

from lab import image

MOST = 20


def _place() -> Path:
    return image.cache_dir() / "lab" / "proven" / f"{life.key()}.json"


def _known() -> dict[str, dict[str, str]]:
    try:
        return dict(json.loads(_place().read_text()))
    except (OSError, ValueError):
        return {}


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def passed(test: str, path: Path) -> str | None:
    """The day on which a test of a file has passed, or None where it has to run."""
    found = _known().get(test, {})
    return found.get("day") if found.get("file") == _digest(path) else None


def keep(test: str, path: Path) -> None:
    """Write down that a test has passed; the oldest lists go."""
    place = _place()
    image.make_folder(place.parent)
    new = place.with_suffix(".new")
    new.write_text(json.dumps(_known() | {test: {"day": time.strftime("%Y-%m-%d"), "file": _digest(path)}}, indent=1))
    new.rename(place)
    for old in sorted(place.parent.glob("*.json"), key=lambda one: one.stat().st_mtime)[:-MOST]:
        old.unlink(missing_ok=True)
