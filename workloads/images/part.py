"""What one rank does: map the rows, train with the others, count what the network gets right."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from workloads.common import training
from workloads.common.ranks import Ranks
from workloads.common.shared import HostFolder
from workloads.images import mnist, models
from workloads.images.rows import Room, Rows

TOLERANCE = {"accuracy": 0.1, "right": 1e9, "losses": 0.2, "weights": 2.0}
"""What may differ where the number of ranks does: sums are rounded otherwise, and rounding grows with every step."""

MOMENTUM = 0.9
TEST_ROWS = 256


@dataclass(frozen=True)
class Options(training.Schedule):
    """The parameters of a run. `data`: a folder of the files of `dataset`, ``handwritten``, or ``generated``: `size`
    rows. `norm_groups`: a rank's rows of a batch are normalised in so many groups."""

    dataset: str
    data: str
    size: int
    model: str
    norm_groups: int


class Part:
    """One rank of the training."""

    def __init__(self, options: Options, ranks: Ranks) -> None:
        self._options, self._ranks = options, ranks
        training.use_threads_of_environment()

    def load(self, folder: HostFolder | None) -> None:
        """Read or make the rows, or map what another rank of this host has made of them."""
        options = self._options
        which = (options.dataset, options.data, options.size, options.seed)
        if folder is None:
            room = Room()
            mnist.fill(room, *which[1:])
            self._rows = room.rows()
            return

        def fill(empty: Path) -> None:
            mnist.fill(Room(empty), *which[1:])

        name = hashlib.sha256(repr(which).encode()).hexdigest()
        self._rows = folder.once(f"rows-{name[:16]}", fill, Rows.open)

    def compute(self) -> None:
        """Train, then test."""
        options, ranks, rows = self._options, self._ranks, self._rows
        torch.manual_seed(options.seed)
        trained = self._network()
        optimizer = torch.optim.SGD(trained.parameters(), lr=options.learning_rate, momentum=MOMENTUM, fused=True)
        made = training.train_and_test(
            trained,
            optimizer,
            nn.functional.cross_entropy,
            lambda scores, labels: scores.argmax(1) == labels,
            (batches(rows.inputs, rows.labels), len(rows.labels)),
            (batches(rows.test_inputs, rows.test_labels), len(rows.test_labels)),
            options,
            ranks,
            test_rows=TEST_ROWS,
        )
        known = {"rows": len(rows.labels), "synthetic": rows.synthetic, "parameters": training.size(trained)}
        self._made = {**made, "answer": {**known, **made["answer"]}}

    def answer(self) -> dict[str, Any]:
        """Sizes, how many test rows are right, losses of the epochs, norm of the weights; and their checksum."""
        return self._made

    def _network(self) -> nn.Module:
        return models.make(self._options.model, mnist.COLOURS, mnist.SIDE, mnist.CLASSES)


def batches(pictures: NDArray[np.uint8], labels: NDArray[np.uint8]) -> training.Batch:
    """Rows -> float pictures around 0, (k, colours, side, side), and int64 labels."""
    every, classes = (torch.from_numpy(np.require(array, requirements="W")) for array in (pictures, labels))

    def batch(rows: Tensor) -> tuple[Tensor, Tensor]:
        return (every[rows].float()[:, None] - 127.5) / 127.5, classes[rows].long()

    return batch


def combine(parts: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], list[str]]:
    """The ranks' answers, which are one and the same, and lines for a person."""
    answer, said = training.combine(parts, "rows")
    kind = "made-up rows (synthetic)" if answer["synthetic"] else "rows"
    return answer, [f"images: {answer['rows']:,} {kind}, {answer['parameters']:,} weights", *said]
