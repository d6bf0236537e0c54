"""``python -m workloads.digits.generate --size IMAGES --part images|labels``: synthetic digits as IDX files.

Digits of seven segments, 28 by 28 pixels, moved, of changing brightness, under noise. The images and the labels of the
same size and seed belong together.
"""

from __future__ import annotations

import functools
import struct

import numpy as np
from numpy.typing import NDArray

from workloads.common import generate

SIDE = 28
BLOCK_IMAGES = 4096
MOST_MOVED = 3
_SEGMENTS = {
    "a": (slice(4, 6), slice(9, 19)),
    "b": (slice(5, 14), slice(17, 19)),
    "c": (slice(14, 23), slice(17, 19)),
    "d": (slice(22, 24), slice(9, 19)),
    "e": (slice(14, 23), slice(9, 11)),
    "f": (slice(5, 14), slice(9, 11)),
    "g": (slice(13, 15), slice(9, 19)),
}
_DIGITS = ("abcdef", "bc", "abged", "abgcd", "fgbc", "afgcd", "afgedc", "abc", "abcdefg", "abcdfg")


def shapes() -> NDArray[np.float32]:
    """The ten digits, (10, 28, 28): 1 where there is ink, else 0."""
    made = np.zeros((10, SIDE, SIDE), np.float32)
    for digit, segments in enumerate(_DIGITS):
        for segment in segments:
            made[digit][_SEGMENTS[segment]] = 1
    return made


@functools.cache
def _moved() -> NDArray[np.float32]:
    """The digits moved by up to MOST_MOVED pixels, (10, down, right, 28, 28)."""
    steps = range(-MOST_MOVED, MOST_MOVED + 1)
    rows = [[np.roll(shapes(), (down, right), (1, 2)) for right in steps] for down in steps]
    return np.ascontiguousarray(np.array(rows).transpose(2, 0, 1, 3, 4))


def block(part: str, numbers: np.random.Generator, first: int, count: int) -> bytes:
    """The bytes of `count` images, uint8 (count, 28, 28), or of their labels, uint8 (count,): as `part` says.

    `first`, the number of the first image, changes nothing.
    """
    labels = numbers.integers(0, 10, count, np.uint8)
    if part == "labels":
        return labels.tobytes()
    down, right = numbers.integers(0, 2 * MOST_MOVED + 1, (2, count))
    images: NDArray[np.float32] = _moved()[labels, down, right]
    images *= numbers.uniform(120, 255, (count, 1, 1)).astype(np.float32)
    images += 25 * numbers.standard_normal(images.shape, np.float32)
    return images.clip(0, 255).astype(np.uint8).tobytes()


def main() -> None:
    """Run with the arguments of the process."""
    parser = generate.parser("workloads.digits.generate", "Synthetic digits as IDX files.", "images")
    parser.add_argument("--part", choices=("images", "labels"), default="images")
    given = parser.parse_args()
    head = (
        struct.pack(">4i", 2051, given.size, SIDE, SIDE)
        if given.part == "images"
        else struct.pack(">2i", 2049, given.size)
    )
    generate.write(functools.partial(block, given.part), given, BLOCK_IMAGES, head)


if __name__ == "__main__":
    main()
