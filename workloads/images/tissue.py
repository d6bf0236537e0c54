"""Synthetic pictures of PatchCamelyon's shape: pale tissue with dark cells, in class 1 crowded in the middle."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from workloads.images.rows import Room

SIDE, COLOURS = 96, 3
CELL = 4
"""Side of a cell in pixels."""
MIDDLE = slice(8, 16)
"""The cells in which classes differ: 32 pixels, as published."""
USUAL, CROWDED = 0.15, 0.55
"""Share of dark cells."""
PALE, DARK = (215, 165, 205), (110, 60, 140)
NOISE = 24
BLOCK = 256
TEST_SEED_STEP = 1 << 20


def block(numbers: np.random.Generator, count: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """`count` pictures, uint8 (count, 96, 96, 3), and their classes, uint8 (count,)."""
    across = SIDE // CELL
    classes = numbers.integers(0, 2, count, np.uint8)
    share = np.full((count, across, across), USUAL, np.float32)
    share[classes == 1, MIDDLE, MIDDLE] = CROWDED
    dark = (numbers.random(share.shape, np.float32) < share)[..., None]
    cells = np.where(dark, np.array(DARK, np.int16), np.array(PALE, np.int16))
    cells = cells + numbers.integers(-NOISE, NOISE + 1, (count, 1, 1, COLOURS), np.int16)
    pictures = cells.repeat(CELL, 1).repeat(CELL, 2)
    pictures += numbers.integers(-NOISE, NOISE + 1, pictures.shape, np.int16)
    return pictures.clip(0, 255).astype(np.uint8), classes


def drawn(room: Room, prefix: str, count: int, seed: int) -> None:
    """Put so many into a room, as ``<prefix>inputs`` and ``<prefix>labels``; the same `seed` makes the same ones."""
    pictures = room.array(f"{prefix}inputs", (count, SIDE, SIDE, COLOURS))
    labels = room.array(f"{prefix}labels", (count,))
    for number, first in enumerate(range(0, count, BLOCK)):
        here = slice(first, min(first + BLOCK, count))
        pictures[here], labels[here] = block(np.random.default_rng([seed, number]), here.stop - first)
