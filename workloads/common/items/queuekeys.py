"""The sockets of ZeroMQ between the workers of a run and its queue, encrypted and closed to all others (CURVE)."""

from __future__ import annotations

import base64
import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from workloads.common.events import BadInput

VARIABLES = ("REGATTA_QUEUE", "REGATTA_QUEUE_KEY", "REGATTA_WORKER_KEY")


@dataclass(frozen=True)
class Keys:
    """The address of the queue, and the secret keys of queue and workers, which are only those of this run."""

    place: str
    queue: bytes = field(repr=False)
    worker: bytes = field(repr=False)

    def address(self, rank: int) -> str | None:
        """The address of a rank's host in the cluster."""
        addresses: list[str] = json.loads(os.environ.get("REGATTA_RANK_MAP") or "[]")
        return addresses[rank] if rank < len(addresses) else None


def of_environment() -> Keys:
    """Return what the launcher has set. Raises :class:`BadInput` where it has not."""
    place, *secret = (os.environ.get(name) for name in VARIABLES)
    if place is None or None in secret:
        raise BadInput(f"the framework zeromq needs {', '.join(VARIABLES)}: start it by Regatta, which sets them")
    return Keys(place, *(base64.b64decode(one or "") for one in secret))


@contextlib.contextmanager
def listening(keys: Keys) -> Iterator[Any]:
    """The queue's socket, which hears only those that have the worker's key."""
    import zmq
    from zmq.auth.thread import ThreadAuthenticator

    own, theirs = _pair(keys.queue), _pair(keys.worker)
    context = zmq.Context()
    guard = ThreadAuthenticator(context)
    guard.start()
    try:
        guard.configure_curve_callback("*", _Known(theirs[0]))
        with context.socket(zmq.ROUTER) as socket:
            socket.linger = 1000
            socket.curve_server = True
            socket.curve_publickey, socket.curve_secretkey = own
            socket.bind(keys.place)
            yield socket
    finally:
        guard.stop()
        context.term()


@contextlib.contextmanager
def connected(keys: Keys) -> Iterator[Any]:
    """A worker's socket. It connects when the queue is there."""
    import zmq

    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.linger = 1000
        socket.curve_serverkey = _pair(keys.queue)[0]
        socket.curve_publickey, socket.curve_secretkey = _pair(keys.worker)
        socket.connect(keys.place)
        yield socket


class _Known:
    """Says whether a key is that of the run's workers."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def callback(self, domain: str, key: bytes) -> bool:
        """Return what ZeroMQ's authenticator asks."""
        return key == self._key


def _pair(secret: bytes) -> tuple[bytes, bytes]:
    """Public and secret key, as text of Z85."""
    import zmq
    from zmq.utils import z85

    text = z85.encode(secret)
    return zmq.curve_public(text), text
