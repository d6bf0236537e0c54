"""Synthetic input of any size on standard output: block by block, the blocks in parallel, the same bytes for a seed.

Each block has its own random numbers, so that the number of processes does not matter. Compressed, each is a gzip
member; members one after another are a gzip file.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import os
import sys
import zlib
from collections.abc import Callable, Iterator

import numpy as np

from workloads.common import arguments

MakeBlock = Callable[[np.random.Generator, int, int], bytes]
"""(random numbers, first item, number of items) -> the block's bytes."""


def parser(program: str, description: str, unit: str) -> argparse.ArgumentParser:
    """A parser with the options that all generators have; `unit` is what ``--size`` counts."""
    made = argparse.ArgumentParser(prog=f"python -m {program}", description=description, allow_abbrev=False)
    made.add_argument("--size", type=arguments.positive, required=True, metavar="N", help=f"number of {unit}")
    made.add_argument("--seed", type=int, default=0, help="the same seed makes the same bytes (default 0)")
    made.add_argument("--gzip", action="store_true", help="compress")
    return made


def write(make: MakeBlock, given: argparse.Namespace, block_items: int, head: bytes = b"") -> None:
    """Write `head`, then `given.size` items in blocks of `block_items`, to standard output.

    Other processes call `make`, which can be pickled. `given` has ``size``, ``seed`` and ``gzip`` of :func:`parser`.
    """
    out = sys.stdout.buffer
    if head:
        out.write(_gzip(head) if given.gzip else head)
    for block in _blocks(
        functools.partial(_one, make, given.seed, given.gzip, given.size, block_items), given.size, block_items
    ):
        out.write(block)
    out.flush()


def _blocks(one: Callable[[int], bytes], size: int, block_items: int) -> Iterator[bytes]:
    count = -(-size // block_items)
    processes = min(count, len(os.sched_getaffinity(0)))
    if processes == 1:
        yield from map(one, range(count))
        return
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        ahead = 2 * processes
        for first in range(0, count, ahead):
            yield from pool.map(one, range(first, min(count, first + ahead)), chunksize=1)


def _one(make: MakeBlock, seed: int, compress: bool, size: int, block_items: int, block: int) -> bytes:
    first = block * block_items
    numbers = np.random.default_rng([seed, block])
    made = make(numbers, first, min(block_items, size - first))
    return _gzip(made) if compress else made


def _gzip(data: bytes) -> bytes:
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    return packer.compress(data) + packer.flush()
