"""Digits of 28 x 28 pixels: those of the workload `digits`."""

from __future__ import annotations

from workloads.digits import images
from workloads.images.rows import GENERATED, Room

SIDE, COLOURS, CLASSES = images.SIDE, 1, images.CLASSES


def fill(room: Room, data: str, size: int, seed: int, take: int) -> None:
    """Put digits, uint8 (n, 28, 28), into a room: at most `take` of a folder's IDX files, ``handwritten``, or
    ``generated``: `size`. Raises :class:`BadInput`."""
    found = images.of(data, size, seed)
    most = None if data == GENERATED else take or None
    room.put("", found.pixels[:most], found.labels[:most])
    room.put("test_", found.test_pixels[:most], found.test_labels[:most])
    if data == GENERATED:
        room.made_up()
