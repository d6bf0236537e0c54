"""The work of one rank: take its rows, train with the others, count what the network gets right."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from workloads.common import events, framework
from workloads.common.events import BadInput
from workloads.common.ranks import Ranks
from workloads.common.shared import HostFolder
from workloads.tf_digits import networks, rows

TOLERANCE = {"accuracy": 0.02, "right": 1e9, "test_loss": 0.01, "losses": 0.01, "weights": 0.05}
"""Differences that are allowed between the libraries, which round the same sums otherwise: rounding grows with every
step.
"""

MOMENTUM = 0.9
LIBRARIES = {"torch": "torch", "ray": "torch", "tensorflow": "tensorflow", "ray-tensorflow": "tensorflow"}
"""Of each framework; of other frameworks it is an option."""
TEST_ROWS = 256


@dataclass(frozen=True)
class Options:
    """The parameters of a run. `data`: a folder of IDX files, ``handwritten``, or ``generated`` with its `size`."""

    network: str
    data: str
    size: int
    library: str
    epochs: int
    learning_rate: float
    seed: int
    batch: int


class Part:
    """One rank of the training."""

    def __init__(self, options: Options, ranks: Ranks) -> None:
        self._options, self._ranks = options, ranks
        self._network = networks.NETWORKS[options.network]
        library = LIBRARIES.get(framework.of_environment(), options.library)
        self._trainer = importlib.import_module(f"workloads.tf_digits.with_{library}").Trainer

    def load(self, folder: HostFolder | None) -> None:
        """Read or make the rows, or map what another rank of this host has made of them."""
        options = self._options
        self._rows = rows.shared(folder, options.network, options.data, options.size, options.seed)
        if len(self._rows.labels) < self._ranks.world:
            raise BadInput(
                f"{self._ranks.world} ranks for {len(self._rows.labels)} rows to train on: take fewer --workers or "
                "more rows"
            )

    def compute(self) -> None:
        """Make the network, and its graphs or its exchange ready, as phase `trace`; train, then test."""
        options, drawn, ranks = self._options, self._rows, self._ranks
        with events.phase("trace"):
            first = self._network.drawn(options.seed)
            trainer = self._trainer(self._network, first, options.learning_rate, MOMENTUM, ranks.world)
            trainer.trace()
        losses: list[float] = []
        for epoch in range(options.epochs):
            with events.phase("epoch"):
                order = rows.order(len(drawn.labels), epoch, options.seed, ranks)
                batches = [order[first : first + options.batch] for first in range(0, len(order), options.batch)]
                means = [trainer.learn(drawn.pixels[batch], drawn.labels[batch]) for batch in batches]
                own = sum(float(mean) * len(batch) for mean, batch in zip(means, batches, strict=True))
                losses.append(trainer.total([own])[0] / (len(order) * ranks.world))
            events.progress("epochs", epoch + 1, options.epochs, loss=losses[-1])
        tests = len(drawn.test_labels)
        mine = np.arange(ranks.rank, tests, ranks.world)
        chosen = [mine[first : first + TEST_ROWS] for first in range(0, len(mine), TEST_ROWS)]
        found = [trainer.evaluate(drawn.test_pixels[some], drawn.test_labels[some]) for some in chosen]
        right, loss = trainer.total([float(sum(one)) for one in zip((0, 0.0), *found, strict=True)])
        weights = trainer.weights()
        answer = {
            "pictures": len(drawn.labels),
            "synthetic": options.network == "pictures" or options.data == rows.GENERATED,
            "parameters": networks.size(weights),
            "tests": tests,
            "right": round(right),
            "accuracy": right / tests,
            "test_loss": loss / tests,
            "losses": losses,
            "weights": networks.norm(weights),
        }
        self._answer = {"answer": answer, "checksum": networks.checksum(weights)}

    def answer(self) -> dict[str, Any]:
        """Sizes, how many test rows are right, losses of the epochs, norm of the weights; and their checksum."""
        return self._answer


def combine(parts: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], list[str]]:
    """The one answer of all ranks, and lines for a person. Raises RuntimeError where their weights differ."""
    answer, checksum = parts[0]["answer"], parts[0]["checksum"]
    if any(part["checksum"] != checksum for part in parts):
        raise RuntimeError("the ranks ended with different weights")
    kind = "synthetic pictures" if answer["synthetic"] else "pictures"
    return answer, [
        f"tf-digits: {answer['pictures']:,} {kind}, {answer['parameters']:,} weights",
        *(f"  epoch {epoch}: loss {loss:.4f}" for epoch, loss in enumerate(answer["losses"], 1)),
        f"{answer['right']:,} of {answer['tests']:,} test pictures are right: {100 * answer['accuracy']:.2f} %; "
        f"test loss {answer['test_loss']:.4f}",
        f"weights {checksum}",
    ]
