"""The sources of images: files (folders.py), scikit-learn's handwritten digits, or these distorted, any number."""

from __future__ import annotations

import gzip
import importlib.util
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.common.events import BadInput
from workloads.digits import folders
from workloads.digits.folders import CLASSES, HELD_OUT, SIDE

__all__ = ["CLASSES", "HELD_OUT", "SIDE", "Found", "Images", "find", "from_files", "generated", "handwritten", "of"]

_FOUND = "found.json"
_CHUNK = 20_000
_DRAWN = 512
"""Images that are drawn at once: their grids fit into a cache."""
WHOLE = slice(None)


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


@dataclass(frozen=True)
class Found:
    """Images, how many classes they are of, and what to say, in a line, of where they are from."""

    images: Images
    classes: int = CLASSES
    said: str = ""

    def save(self, folder: Path) -> None:
        """Write it as files."""
        self.images.save(folder)
        (folder / _FOUND).write_text(json.dumps([self.classes, self.said]))

    @classmethod
    def open(cls, folder: Path) -> Found:
        """Read what :meth:`save` wrote; see :meth:`Images.open`."""
        return cls(Images.open(folder), *json.loads((folder / _FOUND).read_text()))


def find(data: str, size: int, seed: int, split: str | None = None) -> Found:
    """``handwritten``, ``generated`` with this size and seed, or what is in a folder. Raises :class:`BadInput`.

    `split`: the one that is wanted of a folder's.
    """
    if data in ("handwritten", "generated"):
        return Found(handwritten() if data == "handwritten" else generated(size, seed))
    taken = folders.take(data, split)
    return Found(Images(*taken.train, *taken.test), taken.classes, taken.said)


def of(data: str, size: int, seed: int) -> Images:
    """The same for those who have ten classes. Raises :class:`BadInput` where there are more."""
    found = find(data, size, seed)
    if found.classes > CLASSES:
        raise BadInput(
            f"{data}: has {found.classes} classes, and {CLASSES} are meant here: the workload digits takes more"
        )
    return found.images


def from_files(data: str) -> Images:
    """The images of a folder, of this host or HDFS, or of files with commas between; see folders.py."""
    return find(data, 0, 0).images


def handwritten() -> Images:
    """scikit-learn's 1,797 handwritten digits, enlarged to 28 x 28 pixels; every sixth is held out."""
    rows = _handwritten_rows()
    pixels = _enlarge(rows[:, :-1].reshape(-1, 8, 8).astype(np.float64))
    labels = rows[:, -1].astype(np.uint8)
    held_out = np.arange(len(labels)) % HELD_OUT == HELD_OUT - 1
    return Images(pixels[~held_out], labels[~held_out], pixels[held_out], labels[held_out])


def generated(
    count: int, seed: int, rows: NDArray[Any] | slice = WHOLE, test_rows: NDArray[Any] | slice = WHOLE
) -> Images:
    """`count` distorted handwritten digits and a sixth of that to test, from different originals.

    The same `seed` makes the same images. Only those of `rows` and `test_rows`, numbers or truths, are drawn; others
    are dark.
    """
    originals = handwritten()
    pixels, labels = _distorted(originals.pixels, originals.labels, count, seed, rows)
    tests = tests_of(count), seed + 1, test_rows
    return Images(pixels, labels, *_distorted(originals.test_pixels, originals.test_labels, *tests))


def tests_of(count: int) -> int:
    """How many generated images are to test, where `count` are to train on."""
    return max(count // HELD_OUT, 1)


def _handwritten_rows() -> NDArray[np.uint8]:
    """(n, 65): 64 values from 0 to 16, and the digit. Read as scikit-learn ships them: its import takes a second."""
    package = importlib.util.find_spec("sklearn")
    if package is None or package.origin is None:
        raise BadInput("scikit-learn, whose handwritten digits are wanted, is not in this environment: install it")
    with gzip.open(Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz", "rt") as file:
        return np.loadtxt(file, np.uint8, delimiter=",")


def _enlarge(images: NDArray[np.float64]) -> NDArray[np.uint8]:
    """(n, 8, 8) with values 0 to 16 -> (n, 28, 28): 20 x 20 by cubic interpolation, in the middle, as MNIST."""
    import torch

    small = torch.from_numpy(images).float()[:, None] * (255.0 / 16.0)
    large = torch.nn.functional.interpolate(small, size=(20, 20), mode="bicubic", align_corners=False)
    framed = torch.nn.functional.pad(large, (4, 4, 4, 4))[:, 0]
    pixels: NDArray[np.uint8] = framed.round().clamp(0, 255).to(torch.uint8).numpy()
    return pixels


def _distorted(
    pixels: NDArray[np.uint8], labels: NDArray[np.uint8], count: int, seed: int, rows: NDArray[Any] | slice
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Originals at random, each turned by up to 0.2 rad, sheared and scaled by up to 15 %, moved by up to 2 pixels."""
    import torch

    random = torch.Generator().manual_seed(seed)
    originals = torch.from_numpy(np.array(pixels)).float()[:, None]
    made = np.zeros((count, SIDE, SIDE), np.uint8)
    classes = np.empty(count, np.uint8)
    wanted = np.zeros(count, np.bool_)
    wanted[rows] = True
    for start in range(0, count, _CHUNK):
        size = min(_CHUNK, count - start)
        chosen = torch.randint(len(originals), (size,), generator=random)
        angle, shear, moved_x, moved_y = (torch.rand(4, size, generator=random) * 2 - 1).unbind()
        scale = 1 + 0.15 * (torch.rand(2, size, generator=random) * 2 - 1)
        cosine, sine = torch.cos(0.2 * angle), torch.sin(0.2 * angle)
        turned = [
            torch.stack([scale[0] * cosine, 0.15 * shear - sine, moved_x / 7], 1),
            torch.stack([sine, scale[1] * cosine, moved_y / 7], 1),
        ]
        affine = torch.stack(turned, 1)
        here = torch.from_numpy(np.flatnonzero(wanted[start : start + size]))
        for some in here.split(_DRAWN):
            grid = torch.nn.functional.affine_grid(affine[some], [len(some), 1, SIDE, SIDE], align_corners=False)
            images = torch.nn.functional.grid_sample(originals[chosen[some]], grid, align_corners=False)[:, 0]
            made[start + some.numpy()] = images.round().clamp(0, 255).to(torch.uint8).numpy()
        classes[start : start + size] = labels[chosen.numpy()]
    return made, classes
