"""The rows to train on, and their order: the same for both libraries, which this module needs neither of."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from workloads.common.events import BadInput
from workloads.common.ranks import Ranks
from workloads.common.shared import HostFolder
from workloads.digits import images
from workloads.digits.images import Images
from workloads.tf_digits.networks import NETWORKS

HELD_OUT = 6
GENERATED = "generated"
STRIPES = (8, 16)
NOISE = 60.0
_TEST_SEED_STEP = 1 << 20


def drawn(count: int, seed: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """`count` synthetic pictures, uint8 (count, 224, 224, 3), and their classes, uint8 (count,).

    Stripes of a width, a brightness and a place at random under noise: across in class 0, upright in class 1.
    """
    side = NETWORKS["pictures"].side
    numbers = np.random.default_rng([seed, 2])
    classes = numbers.integers(0, 2, count, np.uint8)
    made = np.empty((count, side, side, 3), np.uint8)
    for number, label in enumerate(classes):
        width, start = numbers.integers(*STRIPES), numbers.integers(0, 2 * STRIPES[1])
        stripes = ((np.arange(side) + start) // width % 2).astype(np.float32)
        lit = (stripes[:, None, None] if label == 0 else stripes[None, :, None]) * numbers.uniform(30, 90, 3)
        noise = NOISE * numbers.standard_normal((side, side, 3), np.float32)
        made[number] = (lit + numbers.uniform(60, 120) + noise).clip(0, 255).astype(np.uint8)
    return made, classes


def made(network: str, data: str, size: int, seed: int) -> Images:
    """Rows to train on and to test. Raises :class:`BadInput`."""
    if network == "digits":
        return images.of(data, size, seed)
    if data != GENERATED:
        raise BadInput(f"the network {network} has only synthetic pictures: leave out --data {data}")
    return Images(*drawn(size, seed), *drawn(max(size // HELD_OUT, 1), seed + _TEST_SEED_STEP))


def shared(folder: HostFolder | None, network: str, data: str, size: int, seed: int) -> Images:
    """The same, made or read by one rank of this host for all of them."""
    if folder is None:
        return made(network, data, size, seed)

    def save(empty: Path) -> None:
        made(network, data, size, seed).save(empty)

    name = hashlib.sha256(repr((network, data, size, seed)).encode()).hexdigest()
    return folder.once(f"rows-{name[:16]}", save, Images.open)


def order(rows: int, epoch: int, seed: int, ranks: Ranks) -> NDArray[np.int64]:
    """This rank's rows of an epoch in their order, (rows // world,): up to world - 1 rows wait for another epoch."""
    every = np.random.default_rng([seed, 3, epoch]).permutation(rows)
    return every[ranks.rank :: ranks.world][: rows // ranks.world]
