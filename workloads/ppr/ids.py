"""Numbers the nodes of a graph by place: 0 for the smallest id that an edge or a name has, and so on."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.common import compiled

kernels = compiled.load("workloads.ppr.kernels")

_BITS_PER_EDGE = 256
_BITS_ALWAYS = 1 << 28


@dataclass(frozen=True)
class Bits:
    """Places by a bit for each id up to the largest: as fast as the graph is dense in ids.

    `bits`: (w,), id i is bit i % 64 of word i // 64; `before`: (w,), how many ids are in earlier words; `ids`: uint32
    (n,), ascending.
    """

    bits: NDArray[np.uint64]
    before: NDArray[np.uint32]
    ids: NDArray[Any]

    @classmethod
    def of(cls, bits: NDArray[np.uint64]) -> Bits:
        """Finish a bitmap (w,) of the ids that there are."""
        before = np.empty(len(bits), np.uint32)
        ids = np.empty(kernels.count_ones(bits, before), np.uint32)
        kernels.list_ones(bits, ids)
        return cls(bits, before, ids)

    def places(self, ids: NDArray[Any]) -> NDArray[np.uint32]:
        """The place of each of `ids`, (k,), all of which the graph has: uint32 (k,)."""
        places = np.empty(len(ids), np.uint32)
        kernels.places_by_bits(ids, self.bits, self.before, places)
        return places


@dataclass(frozen=True)
class Sorted:
    """Places by binary search among the ids, (n,) and ascending."""

    ids: NDArray[Any]

    def places(self, ids: NDArray[Any]) -> NDArray[np.uint32]:
        """The place of each of `ids`, (k,), all of which the graph has: uint32 (k,)."""
        return np.searchsorted(self.ids, ids.astype(self.ids.dtype, copy=False)).astype(np.uint32)


Places = Bits | Sorted


def affords_bits(largest_id: int, edges: int) -> bool:
    """Whether a bit for each id takes little memory: at most 32 MiB, or 32 bytes an edge, and ids below 2**32."""
    return largest_id < 2**32 and largest_id < max(_BITS_ALWAYS, _BITS_PER_EDGE * edges)


def mark(blocks: Iterable[NDArray[Any]], named: NDArray[np.uint64], largest_id: int) -> NDArray[np.uint64]:
    """A bitmap of the ids, uint64 (largest_id // 64 + 1,), for :meth:`Bits.of`; they are less than 2**32."""
    bits = np.zeros((largest_id >> 6) + 1, np.uint64)
    for block in [*blocks, named.astype(np.uint32)]:
        kernels.mark(block, bits)
    return bits


def unique(blocks: Iterable[NDArray[Any]], named: NDArray[np.uint64], pool: ThreadPoolExecutor) -> NDArray[Any]:
    """All ids once, uint64 (n,), ascending.

    Each block is sorted by itself first, since blocks repeat what they hold more often than they differ.
    """
    return np.unique(np.concatenate([*pool.map(np.unique, blocks), named]).astype(np.uint64))
