"""Secrets of the cluster, for a controller that has none: only who may become root here gets them."""

from __future__ import annotations

import os
import re
import stat
from typing import Any

KEYS = {"cluster_key": "{state}/.ssh/id_ed25519", "mesh_key": "/etc/regatta/mesh/id_ed25519"}
SPARK = "spark_secret"
_SPARK_LINE = re.compile(r"^spark\.authenticate\.secret\s+(\S+)$", re.M)
_MOST_BYTES = 1 << 16


def read(place: dict[str, Any], name: str) -> dict[str, str]:
    """A secret of the cluster."""
    with open(os.path.join("/etc/regatta", os.path.basename(name))) as file:
        return {"value": file.read().strip()}


def held(place: dict[str, Any], names: list[str]) -> dict[str, str]:
    """Those of these secrets that this host has, by name."""
    found = {name: _text(_path(place, name)) for name in names}
    if SPARK in found:
        line = _SPARK_LINE.search(found[SPARK])
        found[SPARK] = line[1] if line else ""
    return {name: text for name, text in found.items() if text}


def _path(place: dict[str, Any], name: str) -> str:
    if name in KEYS:
        return KEYS[name].format(state=place["state"])
    if name == SPARK:
        return "/etc/regatta/spark/daemons.conf"
    return os.path.join("/etc/regatta", os.path.basename(name))


def _text(path: str) -> str:
    """A plain file's text; empty where there is none. On a host of layout 1 the account of runs owns the key."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return ""
    with os.fdopen(descriptor, errors="replace") as file:
        return file.read(_MOST_BYTES) if stat.S_ISREG(os.fstat(descriptor).st_mode) else ""
