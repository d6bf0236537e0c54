"""Reads and writes the IDX format of MNIST and EMNIST: magic, big-endian sizes, then the values (Y. LeCun, 1998)."""

from __future__ import annotations

import gzip
import math
import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from workloads.common.events import BadInput
from workloads.common.storage import packed

UNSIGNED_BYTE = 0x08
LABEL_DIMENSIONS, IMAGE_DIMENSIONS = 1, 3


def read(path: str | Path, dimensions: int) -> NDArray[np.uint8]:
    """Values of an IDX file of unsigned bytes with so many dimensions, in the shape that it says.

    It may be packed by gzip or zstd. Raises :class:`BadInput` where it is missing, damaged, of another kind, or not as
    long as its sizes say.
    """
    body = packed.content(path)
    if len(body) < 4 or body[:2] != b"\0\0":
        raise BadInput(
            f"{path}: not an IDX file: it begins with {body[:4].hex(' ') or 'nothing'}, not 00 00; download it again"
        )
    if body[2] != UNSIGNED_BYTE or body[3] != dimensions:
        kind = {LABEL_DIMENSIONS: "labels", IMAGE_DIMENSIONS: "images"}.get(dimensions, f"{dimensions} dimensions")
        raise BadInput(
            f"{path}: magic {body[:4].hex(' ')} is not that of {kind}: 00 00 {UNSIGNED_BYTE:02x} {dimensions:02x} is"
        )
    start = 4 + 4 * dimensions
    if len(body) < start:
        raise BadInput(f"{path}: ends within its header, after {len(body)} bytes: download it again")
    shape = struct.unpack(f">{dimensions}I", body[4:start])
    expected = start + math.prod(shape)
    sizes = " x ".join(map(str, shape))
    if len(body) != expected:
        raise BadInput(
            f"{path}: the header says {sizes}, so {expected} bytes, but there are {len(body)}: download it again"
        )
    try:
        return np.frombuffer(body, np.uint8, offset=start).reshape(shape)
    except ValueError:  # one size is 0, and the others are more than an array may have
        raise BadInput(f"{path}: the header says {sizes}, which cannot be read: download it again") from None


def write(path: Path, values: NDArray[np.uint8]) -> None:
    """Write unsigned bytes as IDX; compressed where the name ends in ``.gz``."""
    header = struct.pack(f">BBBB{values.ndim}I", 0, 0, UNSIGNED_BYTE, values.ndim, *values.shape)
    body = header + values.astype(np.uint8, copy=False).tobytes()
    path.write_bytes(gzip.compress(body, compresslevel=1, mtime=0) if path.suffix == ".gz" else body)
