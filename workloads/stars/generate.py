"""``python -m workloads.stars.generate --size ROWS > stars.csv``: synthetic stars and galaxies in SDSS's columns."""

from __future__ import annotations

import numpy as np

from workloads.common import generate
from workloads.stars.columns import FEATURES, LABEL, made_up

BLOCK_ROWS = 20_000
HEAD = (",".join((*FEATURES, LABEL)) + "\n").encode()
_ROW = ",".join(["%d", "%d", *["%.5f"] * (len(FEATURES) - 2), "%s"]) + "\n"


def block(numbers: np.random.Generator, first: int, count: int) -> bytes:
    """`count` rows as lines of CSV; `first`, the number of the first row, changes nothing."""
    features, labels = made_up(numbers, count)
    words = np.where(labels == 1, "GALAXY", "STAR").tolist()
    return "".join([_ROW % (*row, word) for row, word in zip(features.tolist(), words, strict=True)]).encode()


def main() -> None:
    """Run with the arguments of the process."""
    given = generate.parser("workloads.stars.generate", "Synthetic stars and galaxies.", "rows").parse_args()
    generate.write(block, given, BLOCK_ROWS, HEAD)


if __name__ == "__main__":
    main()
