"""A Python on a node that answers requests one after the other, and the program (ssh) that leads there."""

import contextlib
import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from typing import IO, Any, Generic

from regatta.errors import RemoteError, UnreachableError
from regatta.hosts.cluster import Node
from regatta.program import retold
from regatta_protocol.decoding import FaultError, decode, encode
from regatta_protocol.operations.operation import Answer, Line, Operation, kinds
from regatta_protocol.place import Place

LEAVE_SECONDS = 0.2
_KEPT_ERRORS = 100
Explain = Callable[[Node, int, str], RemoteError]


class Channel:
    """A process that leads to the node's side: `payload` makes that ready to take requests.

    It ends with the last reference to its channel, whose end closes its input.
    """

    def __init__(self, command: list[str], payload: bytes) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._errors: list[bytes] = []
        self._reader = threading.Thread(target=_read, args=(self._process.stderr, self._errors), daemon=True)
        self._reader.start()
        self._payload = payload

    @property
    def alive(self) -> bool:
        """Whether the way to the node is there, as far as this machine knows."""
        return self._process.poll() is None

    def send(self, request: dict[str, Any]) -> None:
        """Ask; whether that arrives shows when the answer is read."""
        assert self._process.stdin is not None
        message, self._payload = self._payload + json.dumps(request).encode() + b"\n", b""
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(message)
            self._process.stdin.flush()

    def lines(self) -> Iterator[bytes]:
        """Yield what comes back, until the other end is gone."""
        assert self._process.stdout is not None
        yield from iter(self._process.stdout.readline, b"")

    def answered(self) -> None:
        """Forget what was complained of while the last request was answered: it is not the next one's."""
        self._errors.clear()

    def kill(self) -> None:
        """End the way to the node."""
        self._process.kill()

    def ended(self) -> tuple[int, str]:
        """Wait until the process has ended: its exit code and what it complained of."""
        code = self._process.wait()
        self._reader.join(1)
        return code, b"".join(self._errors).decode("utf-8", "replace").strip()

    def close(self) -> None:
        """End what is being answered: closing its input ends the node's side."""
        process = self._process
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        try:
            process.wait(LEAVE_SECONDS if process.poll() is None else 0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._reader.join(1)
        for pipe in (process.stdout, process.stderr):
            if pipe and not self._reader.is_alive():
                pipe.close()


def _read(pipe: IO[bytes] | None, lines: list[bytes]) -> None:
    """Keep the latest lines of a pipe, until it ends."""
    for line in pipe or ():
        lines.append(line)
        if len(lines) > 2 * _KEPT_ERRORS:
            del lines[:_KEPT_ERRORS]


class Stream(Generic[Answer, Line]):
    """The answer to one request: an iterator of its lines, the last of which came at `last_heard`; then `answer`.

    A channel whose answer has come whole goes to `keep`, any other is closed.
    """

    answer: Answer

    def __init__(
        self,
        node: Node,
        channel: Channel,
        asked: Operation[Answer],
        place: Place,
        timeout: float | None,
        keep: Callable[[Channel], None],
        explain: Explain,
    ) -> None:
        self.node = node
        self.began = self.last_heard = time.monotonic()
        self._channel, self._keep, self._explain = channel, keep, explain
        self._lock = threading.Lock()
        self._whole = self._timed_out = self._closed = False
        self._timer: threading.Timer | None = None
        if timeout is not None:
            self._timeout = timeout
            self._timer = threading.Timer(timeout, self._expire)
            self._timer.daemon = True
            self._timer.start()
        self._asked, (self._answers, *self._lines) = asked, kinds(type(asked))
        channel.send({"op": asked.op, "place": place, "args": encode(asked)})

    def __enter__(self) -> "Stream[Answer, Line]":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Line]:
        for line in self._channel.lines():
            self.last_heard = time.monotonic()
            try:
                value = json.loads(line)
            except ValueError:
                raise RemoteError(
                    self.node.name, f"unexpected output: {line[:200]!r}; what does its shell print at a login?"
                ) from None
            if "error" in value:
                self._end()
                raise RemoteError(self.node.name, retold(str(value["error"])))
            if "done" in value:
                self._end()
                self.answer = self._read(self._answers, value["done"])
                return
            yield self._read(self._lines[0], value)
        raise self._failure()

    def _read(self, kind: Any, value: Any) -> Any:
        try:
            return None if kind is type(None) else decode(kind, value)
        except FaultError as fault:
            raise RemoteError(
                self.node.name,
                f"its answer to {self._asked.op} does not fit: {fault}; provision it with this version",
            ) from None

    def close(self) -> None:
        """End the request, not what it started."""
        if self._timer:
            self._timer.cancel()
        with self._lock:
            if self._closed:
                return
            self._closed = True
        if self._whole and not self._timed_out:
            self._keep(self._channel)
        else:
            self._channel.close()

    def _end(self) -> None:
        with self._lock:
            self._whole = True
        self._channel.answered()

    def _expire(self) -> None:
        with self._lock:
            if self._whole or self._closed:
                return
            self._timed_out = True
        self._channel.kill()

    def _failure(self) -> RemoteError:
        if self._timed_out:
            return UnreachableError(self.node.name, f"no answer within {self._timeout:g} s; is the host up?")
        return self._explain(self.node, *self._channel.ended())
