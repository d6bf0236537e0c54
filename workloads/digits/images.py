"""The sources of images: IDX files, scikit-learn's handwritten digits, or these distorted, any number of them."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from workloads.common import storage
from workloads.common.events import BadInput
from workloads.digits import idx

SIDE = 28
CLASSES = 10
HELD_OUT = 6
_CHUNK = 20_000


@dataclass(frozen=True)
class Images:
    """`pixels` uint8 (n, 28, 28), dark is 0; `labels` uint8 (n,); `test_*` the part that is held out."""

    pixels: NDArray[np.uint8]
    labels: NDArray[np.uint8]
    test_pixels: NDArray[np.uint8]
    test_labels: NDArray[np.uint8]

    def save(self, folder: Path) -> None:
        """Write each array as a file ``<name>.npy``."""
        for name, array in vars(self).items():
            np.save(folder / f"{name}.npy", array)

    @classmethod
    def open(cls, folder: Path) -> Images:
        """Map what :meth:`save` wrote; all ranks of a host share its pages until one writes, which none does."""
        names = ("pixels", "labels", "test_pixels", "test_labels")
        return cls(**{name: np.load(folder / f"{name}.npy", mmap_mode="c") for name in names})


def of(data: str, size: int, seed: int) -> Images:
    """``handwritten``, ``generated`` with this size and seed, or the files of a folder. Raises :class:`BadInput`."""
    if data == "handwritten":
        return handwritten()
    return generated(size, seed) if data == "generated" else from_files(data)


def from_files(data: str) -> Images:
    """The four IDX files of MNIST or EMNIST in a folder, of this host or HDFS, or their names apart by commas.

    Raises :class:`BadInput` where one is missing or there twice, is no IDX file of 28 x 28 pixels or of labels 0 to 9,
    or where images and labels are not as many.
    """
    files = data.split(",") if "," in data else storage.listing(data)
    train = _pair(data, files, "train")
    test = _pair(data, files, "t10k" if any("t10k" in _name(file) for file in files) else "test")
    return Images(*train, *test)


def _pair(data: str, files: Sequence[str], part: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    images = _one(data, files, f"*{part}*images*idx3*")
    labels = _one(data, files, f"*{part}*labels*idx1*")
    pixels, classes = idx.read(images, idx.IMAGE_DIMENSIONS), idx.read(labels, idx.LABEL_DIMENSIONS)
    if len(pixels) != len(classes):
        raise BadInput(f"{images} has {len(pixels)} images, {labels} has {len(classes)} labels")
    if not len(pixels):
        raise BadInput(f"{images}: no images")
    if pixels.shape[1:] != (SIDE, SIDE):
        raise BadInput(f"{images}: images of {pixels.shape[1]} x {pixels.shape[2]} pixels, not {SIDE} x {SIDE}")
    if int(classes.max()) >= CLASSES:
        place = int(np.argmax(classes >= CLASSES))
        raise BadInput(f"{labels}: label {place} is {classes[place]}, not a digit")
    return pixels, classes


def _one(data: str, files: Sequence[str], pattern: str) -> str:
    found = [file for file in files if fnmatch.fnmatch(_name(file), pattern)]
    if len(found) != 1:
        names = ", ".join(map(_name, found)) or "none"
        raise BadInput(f"{data}: needs one file {pattern}, has {names}")
    return found[0]


def _name(file: str) -> str:
    return file.rpartition("/")[2]


def handwritten() -> Images:
    """scikit-learn's 1,797 handwritten digits, enlarged to 28 x 28 pixels; every sixth is held out."""
    from sklearn.datasets import load_digits

    found = load_digits()
    pixels = _enlarge(found.images)
    labels = found.target.astype(np.uint8)
    held_out = np.arange(len(labels)) % HELD_OUT == HELD_OUT - 1
    return Images(pixels[~held_out], labels[~held_out], pixels[held_out], labels[held_out])


def generated(count: int, seed: int) -> Images:
    """`count` distorted handwritten digits and a sixth of that to test, from different originals.

    The same `seed` makes the same images.
    """
    originals = handwritten()
    pixels, labels = _distorted(originals.pixels, originals.labels, count, seed)
    tests = max(count // HELD_OUT, 1)
    return Images(pixels, labels, *_distorted(originals.test_pixels, originals.test_labels, tests, seed + 1))


def _enlarge(images: NDArray[np.float64]) -> NDArray[np.uint8]:
    """(n, 8, 8) with values 0 to 16 -> (n, 28, 28): 20 x 20 by cubic interpolation, in the middle, as MNIST."""
    import torch

    small = torch.from_numpy(images).float()[:, None] * (255.0 / 16.0)
    large = torch.nn.functional.interpolate(small, size=(20, 20), mode="bicubic", align_corners=False)
    framed = torch.nn.functional.pad(large, (4, 4, 4, 4))[:, 0]
    pixels: NDArray[np.uint8] = framed.round().clamp(0, 255).to(torch.uint8).numpy()
    return pixels


def _distorted(
    pixels: NDArray[np.uint8], labels: NDArray[np.uint8], count: int, seed: int
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Originals at random, each turned by up to 0.2 rad, sheared and scaled by up to 15 %, moved by up to 2 pixels."""
    import torch

    random = torch.Generator().manual_seed(seed)
    originals = torch.from_numpy(np.array(pixels)).float()[:, None]
    made = np.empty((count, SIDE, SIDE), np.uint8)
    classes = np.empty(count, np.uint8)
    for start in range(0, count, _CHUNK):
        size = min(_CHUNK, count - start)
        chosen = torch.randint(len(originals), (size,), generator=random)
        angle, shear, moved_x, moved_y = (torch.rand(4, size, generator=random) * 2 - 1).unbind()
        scale = 1 + 0.15 * (torch.rand(2, size, generator=random) * 2 - 1)
        cosine, sine = torch.cos(0.2 * angle), torch.sin(0.2 * angle)
        rows = [
            torch.stack([scale[0] * cosine, 0.15 * shear - sine, moved_x / 7], 1),
            torch.stack([sine, scale[1] * cosine, moved_y / 7], 1),
        ]
        grid = torch.nn.functional.affine_grid(torch.stack(rows, 1), [size, 1, SIDE, SIDE], align_corners=False)
        images = torch.nn.functional.grid_sample(originals[chosen], grid, align_corners=False)[:, 0]
        made[start : start + size] = images.round().clamp(0, 255).to(torch.uint8).numpy()
        classes[start : start + size] = labels[chosen.numpy()]
    return made, classes
