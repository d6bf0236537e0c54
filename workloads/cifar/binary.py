"""Reads and writes the binary files of CIFAR-10 (A. Krizhevsky, 2009): for each picture a byte with its class, then
1,024 bytes each of red, green and blue, row by row."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from workloads.common.events import BadInput
from workloads.common.storage import packed

SIDE, CHANNELS, CLASSES = 32, 3, 10
RECORD = 1 + CHANNELS * SIDE * SIDE
PUBLISHED = 10_000
"""Pictures in each file as published."""


def read(path: str | Path) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Pictures (n, 3, 32, 32) and classes (n,) of a file, packed by gzip or zstd or not.

    Raises :class:`BadInput` where it is missing, truncated, empty, or has a class above 9.
    """
    body = packed.content(path)
    count, rest = divmod(len(body), RECORD)
    if rest or not count:
        whole = f"{PUBLISHED:,} of them in {PUBLISHED * RECORD:,} bytes"
        meant = f"whole pictures of {RECORD:,} bytes, as published {whole}"
        raise BadInput(f"{path}: {len(body):,} bytes are {count:,} pictures and {rest:,} bytes more; expected {meant}")
    records = np.frombuffer(body, np.uint8).reshape(count, RECORD)
    classes = records[:, 0]
    if int(classes.max()) >= CLASSES:
        place = int(np.argmax(classes >= CLASSES))
        raise BadInput(f"{path}: picture {place + 1:,} is of class {classes[place]}; expected 0 to {CLASSES - 1}")
    return records[:, 1:].reshape(count, CHANNELS, SIDE, SIDE), classes


def written(pictures: NDArray[np.uint8], classes: NDArray[np.uint8]) -> bytes:
    """The bytes of a file with these pictures (n, 3, 32, 32) and classes (n,)."""
    return np.concatenate([classes[:, None], pictures.reshape(len(classes), -1)], 1).tobytes()
