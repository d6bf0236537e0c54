"""How long provisioning of bare hosts took the last time, as this machine remembers it by the cluster's name."""

import contextlib
import json
from pathlib import Path

from regatta import files, paths


def keep(cluster: str, seconds: float) -> None:
    """Write down how long provisioning took; a cache that cannot be written keeps nothing."""
    with contextlib.suppress(OSError):
        _file().parent.mkdir(parents=True, exist_ok=True)
        with files.replacing(_file()) as new:
            new.write_text(json.dumps({**known(), cluster: seconds}))


def known() -> dict[str, float]:
    """Seconds of provisioning by the names of clusters."""
    with contextlib.suppress(OSError, ValueError, TypeError):
        return {str(name): float(seconds) for name, seconds in dict(json.loads(_file().read_text())).items()}
    return {}


def _file() -> Path:
    return paths.cache_dir() / "provisioned.json"
