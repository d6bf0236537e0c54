"""The sources of pictures: CIFAR-10's binary files, or synthetic ones of the same shape."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from workloads.cifar import binary, generate
from workloads.common import events, storage
from workloads.common.events import BadInput

HELD_OUT = 5
"""The number of synthetic training pictures for each test picture, as in CIFAR."""
_TEST_SEED_STEP = 1 << 20


@dataclass(frozen=True)
class Pictures:
    """`pixels` uint8 (n, 3, 32, 32); `labels` uint8 (n,); `test_*`: the part that is held out; whether synthetic."""

    pixels: NDArray[np.uint8]
    labels: NDArray[np.uint8]
    test_pixels: NDArray[np.uint8]
    test_labels: NDArray[np.uint8]
    synthetic: bool

    def save(self, folder: Path) -> None:
        """Write each of them as a file ``<name>.npy``."""
        for name, array in vars(self).items():
            np.save(folder / f"{name}.npy", array)

    @classmethod
    def open(cls, folder: Path) -> Pictures:
        """Map what :meth:`save` wrote; all ranks of a host share its pages until one writes, which none does."""
        names = ("pixels", "labels", "test_pixels", "test_labels")
        arrays = {name: np.load(folder / f"{name}.npy", mmap_mode="c") for name in names}
        return cls(**arrays, synthetic=bool(np.load(folder / "synthetic.npy")))


def from_files(data: str) -> Pictures:
    """CIFAR-10's files in a folder, of this host or HDFS, or their names apart by commas.

    ``data_batch_*.bin`` are to train on, in the order of their names, and ``test_batch.bin`` is held out. Raises
    :class:`BadInput` where one is missing or damaged. Warns of one that has not 10,000 pictures and is not synthetic.
    """
    files = data.split(",") if "," in data else storage.listing(data)
    synthetic = any(_name(file).startswith(generate.NOTE) for file in files)
    train = [file for file in sorted(files, key=_name) if _is(file, "data_batch_*.bin")]
    test = [file for file in files if _is(file, "test_batch.bin")]
    if not train or len(test) != 1:
        names = ", ".join(sorted(map(_name, files))) or "none"
        raise BadInput(f"{data}: needs files data_batch_*.bin and one test_batch.bin, .gz or not; has {names}")
    parts = [_read(file, synthetic=synthetic) for file in train]
    pixels, labels = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return Pictures(pixels, labels, *_read(test[0], synthetic=synthetic), synthetic)


def generated(count: int, seed: int) -> Pictures:
    """`count` synthetic pictures and a fifth of that to test; the same `seed` makes the same ones."""
    train = generate.drawn(np.random.default_rng([seed, 0]), count)
    test = generate.drawn(np.random.default_rng([seed + _TEST_SEED_STEP, 0]), max(count // HELD_OUT, 1))
    return Pictures(*train, *test, True)


def _read(file: str, *, synthetic: bool) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    pixels, labels = binary.read(file)
    if len(labels) != binary.PUBLISHED and not synthetic:
        events.warning(f"{_name(file)} has {len(labels):,} pictures; as published it has {binary.PUBLISHED:,}")
    return pixels, labels


def _is(file: str, pattern: str) -> bool:
    return fnmatch.fnmatch(_name(file).removesuffix(".gz"), pattern)


def _name(file: str) -> str:
    return file.rpartition("/")[2]
