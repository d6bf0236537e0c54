"""``python -m workloads.images.generate FOLDER --size PICTURES``: synthetic pictures in PatchCamelyon's HDF5 files.

They are those of ``--data generated`` with the same seed. A file next to them marks them as synthetic. Needs h5py.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from workloads.common import arguments
from workloads.images import camelyon
from workloads.images.rows import GENERATED, Room


def write(folder: Path, size: int, seed: int) -> None:
    """Write the four files that are read, `size` pictures to train on, and the note."""
    import h5py

    room = Room()
    camelyon.fill(room, GENERATED, size, seed, 0)
    folder.mkdir(parents=True, exist_ok=True)
    for split, prefix in camelyon.SPLITS.items():
        pictures, labels = room.kept[f"{prefix}inputs"], room.kept[f"{prefix}labels"]
        for what, values in (("x", pictures), ("y", labels.reshape(-1, 1, 1, 1))):
            with h5py.File(folder / camelyon.FILES.format(split=split, what=what), "w") as file:
                file[what] = values
    (folder / camelyon.NOTE).write_text(f"made up by workloads.images.generate with the seed {seed}\n")


def main() -> None:
    """Run with the arguments of the process."""
    parser = argparse.ArgumentParser(
        prog="python -m workloads.images.generate", description="Synthetic pictures in PatchCamelyon's HDF5 files."
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--size", type=arguments.positive, required=True, metavar="N", help="pictures to train on")
    parser.add_argument("--seed", type=int, default=0, help="the same seed makes the same pictures (default 0)")
    given = parser.parse_args()
    write(given.folder, given.size, given.seed)


if __name__ == "__main__":
    main()
