"""The work of one rank: map the pictures, train with the others, count what the network gets right."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from workloads.cifar import pictures
from workloads.cifar.binary import CLASSES
from workloads.common import training
from workloads.common.networks import named
from workloads.common.networks.norm import groups_of_rank
from workloads.common.ranks import Ranks
from workloads.common.shared import HostFolder

TOLERANCE = {"accuracy": 0.1, "right": 1e9, "test_loss": 0.2, "losses": 0.2, "weights": 2.0}
"""Differences that are allowed where the number of ranks differs: sums are rounded otherwise, and rounding grows with
every step.
"""

MOMENTUM = 0.9
MEANS, DEVIATIONS = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
"""Of CIFAR-10's red, green and blue, from 0 to 1."""
TEST_ROWS = 256


@dataclass(frozen=True)
class Options(training.Schedule):
    """The parameters of a run. `data`: a folder of CIFAR's files, or ``generated`` with its `size`.

    `norm_groups`: a rank's rows of a batch are normalised in so many groups; `elastic` ranks were meant to have them.
    """

    data: str
    size: int
    model: str
    stem: str
    weight_decay: float
    norm_groups: int


def groups(options: Options, ranks: Ranks) -> int:
    """In how many groups the rows of one rank are normalised, where there are more or fewer ranks than were meant."""
    return groups_of_rank(options.norm_groups, options.elastic, ranks.world)


class Part:
    """One rank of the training."""

    def __init__(self, options: Options, ranks: Ranks) -> None:
        self._options, self._ranks = options, ranks
        training.use_threads_of_environment()

    def load(self, folder: HostFolder | None) -> None:
        """Read or make the pictures, or map what another rank of this host has made of them."""
        options = self._options

        def build() -> pictures.Pictures:
            if options.data == "generated":
                return pictures.generated(options.size, options.seed)
            return pictures.from_files(options.data)

        if folder is None:
            self._pictures = build()
            return
        name = hashlib.sha256(repr((options.data, options.size, options.seed)).encode()).hexdigest()
        self._pictures = folder.once(f"pictures-{name[:16]}", lambda empty: build().save(empty), pictures.Pictures.open)

    def compute(self) -> None:
        """Train, then test."""
        options, ranks, drawn = self._options, self._ranks, self._pictures
        torch.manual_seed(options.seed)
        trained = named.make(options.model, CLASSES, small=options.stem == "small", groups=groups(options, ranks))
        optimizer = torch.optim.SGD(
            trained.parameters(),
            lr=options.learning_rate,
            momentum=MOMENTUM,
            weight_decay=options.weight_decay,
            fused=True,
        )
        made = training.train_and_test(
            trained,
            optimizer,
            torch.nn.functional.cross_entropy,
            lambda scores, labels: scores.argmax(1) == labels,
            (training.batches(drawn.pixels, drawn.labels, shown), len(drawn.labels)),
            (training.batches(drawn.test_pixels, drawn.test_labels, shown), len(drawn.test_labels)),
            options,
            ranks,
            test_rows=TEST_ROWS,
        )
        known = {"pictures": len(drawn.labels), "synthetic": drawn.synthetic, "parameters": training.size(trained)}
        self._made = {**made, "answer": {**known, **made["answer"]}}

    def answer(self) -> dict[str, Any]:
        """Sizes, how many test pictures are right, losses of the epochs, norm of the weights; and their checksum."""
        return self._made


def shown(pixels: Tensor) -> Tensor:
    """Make of pictures float ones, of mean 0 and deviation 1 in each colour."""
    means, deviations = (255 * torch.tensor(values).view(3, 1, 1) for values in (MEANS, DEVIATIONS))
    return (pixels.float() - means) / deviations


def combine(parts: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], list[str]]:
    """The ranks' answers, which are one and the same, and lines for a person."""
    answer, said = training.combine(parts, "pictures")
    kind = "synthetic pictures" if answer["synthetic"] else "pictures"
    return answer, [f"cifar: {answer['pictures']:,} {kind}, {answer['parameters']:,} weights", *said]


def tolerance(options: Options) -> dict[str, float]:
    """See :func:`training.tolerance`."""
    return training.tolerance(options, TOLERANCE)
