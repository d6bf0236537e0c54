"""A training whose ranks have some of the layers each: rows go through them in parts, and gradients back."""

from __future__ import annotations

import hashlib
import math

import torch
from torch import nn

from workloads.common import events, training
from workloads.common.events import BadInput
from workloads.common.parallel.stage import Stage
from workloads.common.ranks import Ranks


class Pipeline(training.Way):
    """Rank r has the r-th stage of the layers and forgets the others; a step has the rows that a single process takes.

    `microbatches`: in so many parts a step goes through the stages, row i in part i modulo that; where its rows do not
    divide (the last of an epoch), in one. The weights are those of a single process up to rounding. Batch normalisation
    looks at one part: a single process does the same in so many groups (:class:`networks.norm.GroupedNorm`).
    """

    def __init__(self, microbatches: int) -> None:
        self._microbatches = microbatches
        self._stage: Stage | None = None

    def fit(self, work: training.Work, after: training.After | None = None) -> list[float]:
        """See :func:`training.fit`; a single rank has all layers. Raises :class:`BadInput` for more ranks than layers,
        and for a step that does not divide into microbatches."""
        optimizer, batch_of, rows, schedule, ranks = work.optimizer, work.batch_of, work.rows, work.schedule, work.ranks
        check(schedule, ranks, self._microbatches)
        if ranks.world == 1:
            return super().fit(work, after)
        self._stage = stage = Stage(work.model, batch_of(torch.zeros(1, dtype=torch.int64))[0], optimizer, ranks)
        whole, times = schedule.batch * ranks.world, training.growth(schedule, ranks)
        losses: list[float] = []
        for epoch in range(schedule.epochs):
            with events.phase("epoch"):
                order = training.rows_of_rank(rows, epoch, schedule.seed, Ranks())
                total = torch.zeros((), dtype=torch.float64)
                begun = 0
                for chosen in order.split(whole):
                    begun += len(chosen)
                    warm = min(1.0, epoch + begun / len(order))
                    for group in optimizer.param_groups:
                        group["lr"] = schedule.learning_rate * (1 + (times - 1) * warm)
                    optimizer.zero_grad(set_to_none=True)
                    total += stage.learn(chosen, self._parts(len(chosen)), batch_of, work.loss_of)
                    optimizer.step()
                losses.append(training.summed(total, ranks) / len(order))
            events.progress("epochs", epoch + 1, schedule.epochs, loss=losses[-1])
            if after is not None:
                after(epoch + 1)
        return losses

    def evaluate(
        self,
        model: nn.Module,
        measures: tuple[training.Loss, training.Right],
        test: tuple[training.Batch, int],
        ranks: Ranks,
        at_once: int,
    ) -> tuple[int, float]:
        """See :func:`training.evaluate`: the rows go through all stages, and the last one counts."""
        if self._stage is None:
            return super().evaluate(model, measures, test, ranks, at_once)
        (loss_of, right_of), (batch_of, rows) = measures, test
        found = torch.zeros(2, dtype=torch.float64)
        for chosen in torch.arange(rows).split(at_once):
            scores = self._stage.scores(chosen, batch_of)
            if scores is not None:
                targets = batch_of(chosen)[1]
                found[0] += right_of(scores, targets).sum().cpu()
                found[1] += loss_of(scores, targets).cpu() * len(chosen)
        right, loss = training.summed_all(found, ranks)
        return round(right), loss / rows

    def weighed(self, model: nn.Module) -> tuple[float, str]:
        """See :class:`training.Way`: each rank is shown each tensor by the one that has it."""
        if self._stage is None:
            return super().weighed(model)
        squares, seal = 0.0, hashlib.sha256()
        for name, tensor in self._stage.shown(model):
            seal.update(name.encode())
            seal.update(tensor.numpy().tobytes())
            squares += float(tensor.double().square().sum()) if tensor.is_floating_point() else 0.0
        return math.sqrt(squares), seal.hexdigest()

    def said(self) -> list[str]:
        """Which layers are where."""
        return [] if self._stage is None else self._stage.said

    def _parts(self, rows: int) -> int:
        return self._microbatches if rows % self._microbatches == 0 else 1


def check(schedule: training.Schedule, ranks: Ranks, microbatches: int) -> None:
    """Raise :class:`BadInput` for a step that a pipeline cannot take."""
    whole = schedule.batch * ranks.world
    if whole % microbatches:
        raise BadInput(
            f"--microbatches {microbatches}: a step has {whole} rows (--batch {schedule.batch}, {ranks.world} ranks), "
            f"which do not fall into {microbatches} equal parts; take a number that divides them"
        )
    if schedule.accumulate > 1:
        raise BadInput(
            f"--accumulate {schedule.accumulate}: under --parallel pipeline a step has --microbatches instead"
        )
