"""Secrets of the cluster, for a controller that has none: only who may become root here gets them."""

from __future__ import annotations

import os
import re
import stat
from typing import TYPE_CHECKING, Dict, Sequence

from regatta_protocol.operations.hosts import Token

if TYPE_CHECKING:
    from regatta_protocol.place import Place

KEYS = {"cluster_key": "{state}/.ssh/id_ed25519", "mesh_key": "/etc/regatta/mesh/id_ed25519"}
_MOST_BYTES = 1 << 16


def held(place: Place, keys: Sequence[str], tokens: Sequence[Token]) -> Dict[str, str]:
    """Those of these secrets that this host has, by name."""
    found: Dict[str, str] = {name: _text(KEYS[name].format(state=place["state"])) for name in keys}
    found |= {token.name: _token(token.path, token.line) for token in tokens}
    return {name: text for name, text in found.items() if text}


def _token(path: str, line: str) -> str:
    """Return what a file holds, or the value of its setting `line`, if that is named."""
    text = _text(path)
    if not line:
        return text
    found = re.search(rf"^{re.escape(line)}\s+(\S+)$", text, re.M)
    return found[1] if found else ""


def _text(path: str) -> str:
    """A plain file's text; empty where there is none. On a host of layout 1 the account of runs owns the key."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return ""
    with os.fdopen(descriptor, errors="replace") as file:
        return file.read(_MOST_BYTES) if stat.S_ISREG(os.fstat(descriptor).st_mode) else ""
