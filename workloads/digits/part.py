"""The work of one rank: map the images, train with the others, count what the model gets right."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from workloads.common import training
from workloads.common.ranks import Ranks
from workloads.common.shared import HostFolder
from workloads.digits import images, model

MOMENTUM = {"perceptron": 0.9, "cnn": 0.9, "wide": 0.0}


@dataclass(frozen=True)
class Options(training.Schedule):
    """The parameters of a run. `data`: a folder, ``handwritten``, or ``generated`` with its `size`."""

    data: str
    size: int
    model: str
    split: str | None = None


class Part:
    """One rank of the training."""

    def __init__(self, options: Options, ranks: Ranks) -> None:
        self._options, self._ranks = options, ranks
        training.use_threads_of_environment()

    def load(self, folder: HostFolder | None) -> None:
        """Read the images, or make those that this rank needs, or map what another rank of this host has made."""
        options, ranks = self._options, self._ranks

        def build() -> images.Found:
            return images.find(options.data, options.size, options.seed, options.split)

        if folder is None and options.data == "generated":
            shown = training.rows_shown(options.size, options, ranks)
            tested = training.tests_of_rank(images.tests_of(options.size), ranks).numpy()
            self._found = images.Found(images.generated(options.size, options.seed, shown, tested))
            return
        if folder is None:
            self._found = build()
            return
        name = hashlib.sha256(repr((options.data, options.size, options.seed, options.split)).encode()).hexdigest()
        self._found = folder.once(f"images-{name[:16]}", lambda empty: build().save(empty), images.Found.open)

    def compute(self) -> None:
        """Train, then test."""
        options, ranks = self._options, self._ranks
        torch.manual_seed(options.seed)
        trained = model.make(options.model, self._found.classes)
        optimizer = torch.optim.SGD(
            trained.parameters(), lr=options.learning_rate, momentum=MOMENTUM[options.model], fused=True
        )
        drawn = self._found.images
        made = training.train_and_test(
            trained,
            optimizer,
            torch.nn.functional.cross_entropy,
            lambda scores, labels: scores.argmax(1) == labels,
            (training.batches(drawn.pixels, drawn.labels, shown), len(drawn.labels)),
            (training.batches(drawn.test_pixels, drawn.test_labels, shown), len(drawn.test_labels)),
            options,
            ranks,
        )
        self._made = {**made, "taken": self._found.said, "answer": {"images": len(drawn.labels), **made["answer"]}}

    def answer(self) -> dict[str, Any]:
        """Sizes, how many test images are right, loss of each epoch, norm of the weights; next to it their checksum."""
        return self._made


def shown(pixels: Tensor) -> Tensor:
    """Make of images float ones around 0."""
    return (pixels.float() - 127.5) / 127.5


def combine(parts: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], list[str]]:
    """The ranks' answers, which are one and the same, and lines for a person."""
    answer, said = training.combine(parts, "images")
    taken = f" of {parts[0]['taken']}" if parts[0]["taken"] else ""
    return answer, [f"digits: {answer['images']:,} images{taken}", *said]


def tolerance(options: Options) -> dict[str, float]:
    """See :func:`training.tolerance`."""
    return training.tolerance(options, training.TOLERANCE)
