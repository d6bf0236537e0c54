"""Digits of 28 x 28 pixels: those of the workload `digits`."""

from __future__ import annotations

from workloads.digits import images
from workloads.images.rows import Room

SIDE, COLOURS, CLASSES = images.SIDE, 1, images.CLASSES


def fill(room: Room, data: str, size: int, seed: int) -> None:
    """Put digits into a room: IDX files of a folder, ``handwritten``, or ``generated``. Raises :class:`BadInput`."""
    found = images.of(data, size, seed)
    room.put(
        inputs=found.pixels, labels=found.labels, test_inputs=found.test_pixels, test_labels=found.test_labels
    )
    if data == "generated":
        room.made_up()
