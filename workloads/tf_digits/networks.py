"""The two networks as published, for both libraries: their layers, and weights that are the same for a seed.

Weights have torch's layout here: convolutions (out, in, height, width), dense layers (out, in), pictures in (colour,
row, column).
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Weights = list[NDArray[np.float32]]
"""Of each layer in turn its weight and its bias."""


@dataclass(frozen=True)
class Network:
    """Pictures of `side` x `side` in `colours`; `convolutions`: channels and kernel of each, which are followed by
    ReLU and a pooling to half the size; `dense`: outputs of each, between which there is ReLU. `same`: a convolution
    keeps the size."""

    side: int
    colours: int
    convolutions: tuple[tuple[int, int], ...]
    dense: tuple[int, ...]
    same: bool

    @property
    def classes(self) -> int:
        """Return how many there are."""
        return self.dense[-1]

    @property
    def last(self) -> tuple[int, int]:
        """Side and channels of what the first dense layer takes."""
        side = self.side
        for _, kernel in self.convolutions:
            side = (side if self.same else side - kernel + 1) // 2
        return side, self.convolutions[-1][0]

    def shapes(self) -> list[tuple[int, ...]]:
        """Of the weights of each layer, without its biases."""
        before, found = self.colours, list[tuple[int, ...]]()
        for channels, kernel in self.convolutions:
            found.append((channels, before, kernel, kernel))
            before = channels
        side, channels = self.last
        before = side * side * channels
        for outputs in self.dense:
            found.append((outputs, before))
            before = outputs
        return found

    def drawn(self, seed: int) -> Weights:
        """Weights to begin with, uniform within one by the root of how many inputs an output has; biases too."""
        numbers, made = np.random.default_rng([seed, 1]), Weights()
        for shape in self.shapes():
            most = 1 / math.sqrt(math.prod(shape[1:]))
            made.append(numbers.uniform(-most, most, shape).astype(np.float32))
            made.append(numbers.uniform(-most, most, shape[:1]).astype(np.float32))
        return made


NETWORKS = {
    "digits": Network(28, 1, ((6, 5), (16, 5)), (120, 84, 10), same=False),
    "pictures": Network(224, 3, ((32, 3), (64, 3)), (2,), same=True),
}


def size(weights: Weights) -> int:
    """Return how many numbers there are."""
    return sum(weight.size for weight in weights)


def norm(weights: Weights) -> float:
    """Euclidean norm of all of them together."""
    return math.sqrt(sum(float(np.square(weight, dtype=np.float64).sum()) for weight in weights))


def checksum(weights: Weights) -> str:
    """SHA-256 of their bytes, one after the other; hexadecimal."""
    return hashlib.sha256(b"".join(np.ascontiguousarray(weight).tobytes() for weight in weights)).hexdigest()
