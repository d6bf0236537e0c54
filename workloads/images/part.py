"""The work of one rank: map the rows, train with the others, count what the network gets right."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from workloads.common import events, training
from workloads.common.networks.norm import groups_of_rank
from workloads.common.parallel import named
from workloads.common.ranks import Ranks
from workloads.common.shared import HostFolder
from workloads.images import tuning
from workloads.images.datasets import DATASETS, optimizer
from workloads.images.rows import Room, Rows

TOLERANCE = {"accuracy": 0.1, "right": 1e9, "test_loss": 0.2, "losses": 0.2, "weights": 2.0}
"""Differences that are allowed where the number of ranks differs: sums are rounded otherwise, and rounding grows with
every step.
"""

MOMENTUM = 0.9
TEST_ROWS = 256


@dataclass(frozen=True)
class Options(named.Schedule):
    """The parameters of a run. `data`: the files of `dataset`, at most `take` rows of them (0: all), ``handwritten``,
    or ``generated``: `size` rows.

    `stem`: how networks of the literature begin. `freeze`: share of the first layers that stay as they are. `weights`:
    a file to begin with. `norm_groups`: a rank's rows of a batch are normalised in so many groups.
    """

    dataset: str
    data: str
    size: int
    take: int
    model: str
    stem: str
    freeze: float
    weights: str | None
    norm_groups: int


class Part:
    """One rank of the training."""

    def __init__(self, options: Options, ranks: Ranks) -> None:
        self._options, self._ranks = options, ranks
        self._dataset = DATASETS[options.dataset]
        self.way = named.way(options)
        training.use_threads_of_environment()

    def over_spark(self, context: Any, partitions: int) -> None:
        """See :class:`SparkPart`: executors make the gradients of as many ranks."""
        from workloads.common.spark.jobs import Jobs

        self.way = Jobs(context, partitions, functools.partial(Part, self._options))

    def load(self, folder: HostFolder | None) -> None:
        """Make the network, then read or make the rows, or map what another rank of this host has made of them."""
        options = self._options
        self._network = self.network()
        which = (options.data, options.size, options.seed, options.take)

        def fill(room: Room) -> None:
            with events.phase("read"):
                self._dataset.fill(room, *which)

        if folder is None:
            room = Room()
            fill(room)
            self._rows = room.rows()
        else:
            name = hashlib.sha256(repr((options.dataset, *which)).encode()).hexdigest()
            self._rows = folder.once(f"rows-{name[:16]}", lambda empty: fill(Room(empty)), Rows.open)

    def network(self) -> nn.Module:
        """The network to train, with the weights to begin with; its first layers are frozen.

        Raises :class:`BadInput` where it is none for these rows, its file does not fit, or nothing is left to train.
        """
        options = self._options
        torch.manual_seed(options.seed)
        groups = groups_of_rank(options.norm_groups, options.elastic, self._ranks.world)
        groups = named.groups(options, groups, self._ranks.world)
        made = self._dataset.network(options.model, small=options.stem == "small", groups=groups)
        self._from = tuning.RANDOM
        if options.weights is not None:
            self._from = tuning.take(made, tuning.read(options.weights), options.weights)
        self._frozen = tuning.freeze(made, options.freeze)
        return made

    def compute(self) -> None:
        """Train, then test."""
        options, rows, trained = self._options, self._rows, self._network
        shown = self._dataset.showing(options.model)
        made = training.train_and_test(
            trained,
            optimizer(options.model, trained, options.learning_rate, MOMENTUM),
            nn.functional.cross_entropy,
            lambda scores, labels: scores.argmax(1) == labels,
            (training.batches(rows.inputs, rows.labels, shown), len(rows.labels)),
            (training.batches(rows.test_inputs, rows.test_labels, shown), len(rows.test_labels)),
            options,
            self._ranks,
            test_rows=TEST_ROWS,
            way=self.way,
        )
        known = {
            "rows": len(rows.labels),
            "synthetic": rows.synthetic,
            "parameters": training.size(trained),
            "weights_from": self._from,
            "layers": len(tuning.layers(trained)),
            "frozen_layers": self._frozen,
        }
        self._made = {**made, "answer": {**known, **made["answer"]}}

    def answer(self) -> dict[str, Any]:
        """Sizes, how many test rows are right, losses of the epochs, norm of the weights; and their checksum."""
        return self._made


def tolerance(options: Options) -> dict[str, float]:
    """Return what may differ between two runs."""
    return named.tolerance(options, TOLERANCE)


def combine(parts: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], list[str]]:
    """The ranks' answers, which are one and the same, and lines for a person."""
    answer, said = training.combine(parts, "rows")
    kind = "synthetic rows" if answer["synthetic"] else "rows"
    begun = f"{answer['parameters']:,} weights, at first from {answer['weights_from']}"
    still = f"; {answer['frozen_layers']} of {answer['layers']} layers stay" if answer["frozen_layers"] else ""
    return answer, [f"images: {answer['rows']:,} {kind}; {begun}{still}", *said]
