"""``python -m workloads.cifar.generate --size PICTURES``: synthetic pictures in the binary format of CIFAR-10.

Each class is a smooth pattern of colours; a picture of it is that pattern, moved, darkened and under noise: as large as
CIFAR's, and learnable. ``--part note`` writes a line that names them synthetic, for a file next to them.
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from workloads.cifar import binary
from workloads.cifar.binary import CHANNELS, CLASSES, SIDE
from workloads.common import generate

BLOCK = 2048
NOTE = "synthetic.txt"
"""The file that marks a folder of synthetic pictures."""
COARSE = 4
NOISE = 40
_AT_ONCE = 64
"""Pictures that are drawn at once: a cache has room for them."""


@functools.cache
def patterns() -> NDArray[np.float32]:
    """The ten classes, (10, 3, 32, 32) around 0: waves of a few lengths, the same at both edges; drawn once for all."""
    numbers = np.random.default_rng(10)
    angles = 2 * np.pi * np.arange(SIDE) / SIDE
    made = np.zeros((CLASSES, CHANNELS, SIDE, SIDE), np.float32)
    for down in range(COARSE):
        for right in range(COARSE):
            height = numbers.standard_normal((CLASSES, CHANNELS, 1, 1)) / (1 + down + right)
            phase = numbers.uniform(0, 2 * np.pi, (CLASSES, CHANNELS, 1, 1))
            made += (height * np.cos(down * angles[:, None] + right * angles + phase)).astype(np.float32)
    made /= made.std((1, 2, 3), keepdims=True)
    return made


def drawn(numbers: np.random.Generator, count: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """`count` pictures, uint8 (count, 3, 32, 32), and their classes, uint8 (count,)."""
    classes = numbers.integers(0, CLASSES, count, np.uint8)
    down, right = numbers.integers(0, SIDE, (2, count, 1))
    contrast = numbers.uniform(20, 50, (count, 1, 1, 1)).astype(np.float32)
    light = numbers.uniform(90, 160, (count, 1, 1, 1)).astype(np.float32)
    places = np.arange(SIDE)
    made = np.empty((count, CHANNELS, SIDE, SIDE), np.uint8)
    for first in range(0, count, _AT_ONCE):
        some = slice(first, first + _AT_ONCE)
        rows, columns = (places + down[some]) % SIDE, (places + right[some]) % SIDE
        pictures = patterns()[classes[some, None, None], :, rows[:, :, None], columns[:, None, :]].transpose(0, 3, 1, 2)
        pictures = pictures * contrast[some]
        pictures += light[some]
        pictures += NOISE * numbers.standard_normal(pictures.shape, np.float32)
        made[some] = pictures.clip(0, 255).astype(np.uint8)
    return made, classes


def block(numbers: np.random.Generator, first: int, count: int) -> bytes:
    """The bytes of so many pictures; `first`, the number of the first one, changes nothing."""
    return binary.written(*drawn(numbers, count))


def note(seed: int, numbers: np.random.Generator, first: int, count: int) -> bytes:
    """The line for a person."""
    return f"made up by workloads.cifar.generate with the seed {seed}: not CIFAR-10\n".encode() if not first else b""


def main() -> None:
    """Run with the arguments of the process."""
    parser = generate.parser("workloads.cifar.generate", "Synthetic pictures in CIFAR-10's binary format.", "pictures")
    parser.add_argument("--part", choices=("pictures", "note"), default="pictures")
    given = parser.parse_args()
    make = block if given.part == "pictures" else functools.partial(note, given.seed)
    generate.write(make, given, BLOCK if given.part == "pictures" else given.size)


if __name__ == "__main__":
    main()
