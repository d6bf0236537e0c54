"""The protocol of data transfers on a pipe (docs/explanation/storage.md): frames of kind, length, content.

Kinds: ``J`` a JSON object, ``D`` bytes of a file. The other side is regatta/hdfs/client.py.
"""

from __future__ import annotations

import json
import struct
from typing import Any, BinaryIO

HEAD = struct.Struct(">cI")
LARGEST = 16 << 20


class Cut(Exception):
    """The pipe has ended in the middle of a transfer."""


def send(pipe: BinaryIO, kind: bytes, content: bytes | memoryview) -> None:
    """Write one frame, without flushing: `kind` is one byte; the other side takes at most LARGEST bytes of content."""
    pipe.write(HEAD.pack(kind, len(content)))
    pipe.write(content)


def send_json(pipe: BinaryIO, **fields: Any) -> None:
    """Write a JSON object as one frame of kind ``J``, and flush."""
    send(pipe, b"J", json.dumps(fields).encode())
    pipe.flush()


def receive(pipe: BinaryIO) -> tuple[bytes, bytes]:
    """The next frame: (kind, content). Raises :class:`Cut`."""
    kind, length = HEAD.unpack(_exactly(pipe, HEAD.size))
    if kind not in (b"J", b"D") or length > LARGEST:
        raise Cut("not a frame")
    return kind, _exactly(pipe, length)


def _exactly(pipe: BinaryIO, length: int) -> bytes:
    content = pipe.read(length)
    if len(content) < length:
        raise Cut("the connection has ended")
    return content
