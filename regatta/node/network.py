"""Free ports of a node."""

from __future__ import annotations

import contextlib
import socket
import time
from typing import TYPE_CHECKING, Collection

from regatta.node.problem import Problem

if TYPE_CHECKING:
    from regatta_protocol.place import Place


def free_ports(place: Place, low: int, high: int, taken: Collection[int], count: int) -> list[int]:
    """TCP ports of `cluster_address` in [low, high] that nothing listens on and no run in progress has `taken`."""
    found: list[int] = []
    first = low + (time.time_ns() // 1000) % (high - low + 1)
    for step in range(high - low + 1):
        port = low + (first - low + step) % (high - low + 1)
        if port in taken:
            continue
        with socket.socket() as sock, contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((place["cluster_address"], port))
            found.append(port)
        if len(found) == count:
            return found
    raise Problem(f"no {count} free port(s) between {low} and {high}: wait until other runs have ended, or cancel one")
