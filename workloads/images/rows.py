"""The rows to train on and those held out, as arrays in memory or as files that all ranks of a host map."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Rows:
    """`inputs` (n, ...): pictures uint8, or words int32; `labels` uint8 (n,); `test_*`: the part that is held out."""

    inputs: NDArray[Any]
    labels: NDArray[np.uint8]
    test_inputs: NDArray[Any]
    test_labels: NDArray[np.uint8]
    synthetic: bool
    """Whether they are synthetic."""

    @classmethod
    def open(cls, folder: Path) -> Rows:
        """Map what a :class:`Room` has put there; the ranks of a host share its pages until one writes: none does."""
        arrays = {name: np.load(folder / f"{name}.npy", mmap_mode="c") for name in ARRAYS}
        return cls(**arrays, synthetic=(folder / MADE_UP).exists())


ARRAYS = tuple(one.name for one in fields(Rows) if one.name != "synthetic")
MADE_UP = "made-up"
GENERATED = "generated"
"""The word for synthetic rows."""
HELD_OUT = 6
"""The number of synthetic training rows for each test row."""


@dataclass
class Room:
    """The place of rows while they are read: files of a `folder`, or memory where there is none."""

    folder: Path | None = None
    kept: dict[str, NDArray[Any]] = field(default_factory=dict)
    synthetic: bool = False

    def array(self, name: str, shape: tuple[int, ...], kind: type[np.generic] = np.uint8) -> NDArray[Any]:
        """An empty array for one of ARRAYS, to be filled."""
        if self.folder is None:
            self.kept[name] = np.empty(shape, kind)
            return self.kept[name]
        return np.lib.format.open_memmap(self.folder / f"{name}.npy", "w+", dtype=kind, shape=shape)

    def put(self, prefix: str, inputs: NDArray[Any], labels: NDArray[np.uint8]) -> None:
        """Keep whole arrays as ``<prefix>inputs`` and ``<prefix>labels``."""
        self.array(f"{prefix}inputs", inputs.shape, inputs.dtype.type)[:] = inputs
        self.array(f"{prefix}labels", labels.shape)[:] = labels

    def made_up(self) -> None:
        """Mark the rows as synthetic."""
        self.synthetic = True
        if self.folder is not None:
            (self.folder / MADE_UP).touch()

    def rows(self) -> Rows:
        """Return what has been kept in memory."""
        return Rows(**self.kept, synthetic=self.synthetic)
