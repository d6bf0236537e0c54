"""What a host knows of its cluster; on the head also what further controllers need: root's alone."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any, Dict, Sequence

from regatta.node import layout, rundirs, secret
from regatta_protocol.decoding import FaultError, decode, encode
from regatta_protocol.operations.hosts import Definition, Member, Token

if TYPE_CHECKING:
    from regatta_protocol.place import Place

PATH = "/etc/regatta/cluster.json"


def member(place: Place, keys: Sequence[str], tokens: Sequence[Token]) -> Member:
    """The cluster of this host, its definition where this is the head, and those of these secrets that are here."""
    known = _read(layout.NODE)
    kept, roles = _kept(), tuple(map(str, known.get("roles", ())))
    held = {**(kept.secrets if kept else {}), **secret.held(place, keys, tokens)}
    return Member(held, str(known.get("cluster", "")), str(known.get("head", "")), roles, kept)


def keep(place: Place, definition: Definition) -> None:
    """Keep the definition, in place of the one that was here."""
    rundirs.store(PATH, encode(definition), 0o600)


def _kept() -> Definition | None:
    with contextlib.suppress(FaultError):
        return decode(Definition, _read(PATH))
    return None


def _read(path: str) -> Dict[str, Any]:
    with contextlib.suppress(OSError, ValueError), open(path) as file:
        said = json.load(file)
        return said if isinstance(said, dict) else {}
    return {}
