"""Messages of ranks to their driver, and how each side knows that the other is gone.

TorchDistributor brings what ranks print to the driver, by a port that trusts every sender. Events go another way: a
connection a rank, whose sides prove to each other that they know the run's own key. The driver listens in
``REGATTA_PORTS``, which no account but the runs' reaches. A rank whose driver is gone ends.
"""

from __future__ import annotations

import contextlib
import os
import queue
import random
import secrets
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener, answer_challenge, deliver_challenge
from typing import Any, Literal

PORTS = "REGATTA_PORTS"
KEY_BYTES = 32
SILENCE_SECONDS = 30
"""Seconds to wait for a host that is gone without a word."""

Kind = Literal["came", "event", "refused", "raised", "done", "died"]


@dataclass(frozen=True)
class Word:
    """A rank's message, or what is known of it: `value` is an event, or words.

    `rank` is None before all ranks have met; `executor` is Spark's number.
    """

    kind: Kind
    value: Any = None
    rank: int | None = None
    address: str | None = None
    executor: str | None = None


@dataclass(frozen=True)
class Place:
    """The address at which the driver listens, and the key of the run."""

    address: str
    port: int
    key: bytes = field(repr=False)


class Line:
    """A rank's connection to its driver."""

    def __init__(self, place: Place) -> None:
        self._connection = Client((place.address, place.port), "AF_INET", authkey=place.key)
        self._lock = threading.Lock()
        self._socket = _watched(self._connection)
        self.address: str = self._socket.getsockname()[0]
        """This host's, by which it reaches the driver."""
        self.rank: int | None = None
        self._executor = executor()
        threading.Thread(target=self._guard, daemon=True).start()
        self.say("came")

    def say(self, kind: Kind, value: Any = None) -> None:
        """Tell the driver."""
        with self._lock:
            self._connection.send(Word(kind, value, self.rank, self.address, self._executor))

    def _guard(self) -> None:
        with contextlib.suppress(EOFError, OSError):
            self._connection.recv_bytes()
        os._exit(1)


class Ears:
    """The driver's side: `words` has what ranks say, as it comes in."""

    def __init__(self, listener: Listener, key: bytes) -> None:
        self.words: queue.SimpleQueue[Word] = queue.SimpleQueue()
        self._listener, self._key = listener, key
        self._sockets: list[socket.socket] = []
        address: Any = listener.address
        self.place = Place(address[0], address[1], key)
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Part from all ranks, which end then."""
        self._listener.close()
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                connection: Any = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._hear, args=(connection,), daemon=True).start()

    def _hear(self, connection: Connection) -> None:
        """Pass on what a rank says until it has ended; one that has not said that it is done has died."""
        try:
            deliver_challenge(connection, self._key)
            answer_challenge(connection, self._key)
        except (AuthenticationError, EOFError, OSError):
            connection.close()
            return
        self._sockets.append(_watched(connection))
        last = Word("came")
        with contextlib.suppress(EOFError, OSError):
            while True:
                last = connection.recv()
                self.words.put(last)
        if last.kind not in ("done", "refused", "raised"):
            self.words.put(Word("died", None, last.rank, last.address, last.executor))


@contextlib.contextmanager
def listening(address: str) -> Iterator[Ears]:
    """Listen at an address of this host, with its own key."""
    key = secrets.token_bytes(KEY_BYTES)
    ears = Ears(_listener(address), key)
    try:
        yield ears
    finally:
        ears.close()


def executor() -> str | None:
    """The number of the executor of Spark that this process belongs to; None where nothing says it."""
    told = os.environ.get("SPARK_LOG_URL_STDERR", "").partition("executorId=")[2]
    return told.partition("&")[0] or None


def _listener(address: str) -> Listener:
    """At a free port of ``REGATTA_PORTS``, or any."""
    first, _, last = os.environ.get(PORTS, "").partition("-")
    asked = random.sample(range(int(first), int(last) + 1), int(last) + 1 - int(first)) if last else [0]
    for port in asked:
        with contextlib.suppress(OSError):
            return Listener((address, port), "AF_INET", backlog=128)
    raise OSError(f"{address} has no free port in {first}-{last}")


def _watched(connection: Any) -> socket.socket:
    """The socket of a connection, which ends when the host of the other side is gone."""
    made = socket.socket(fileno=os.dup(connection.fileno()))
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, SILENCE_SECONDS // 3)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, SILENCE_SECONDS // 6)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * SILENCE_SECONDS)
    return made
