"""Trainings of which each step is two jobs of Spark, as BigDL has them: gradients by partition, then sums by slice.

J. Dai et al., "BigDL: A Distributed Deep Learning Framework for Big Data" (SoCC 2019), section 3.3: the tasks of the
first job each compute the gradient of their rows; task n of the second takes slice n of all gradients through the
shuffle, and sums it. There it also changes slice n of the weights and broadcasts it. A task of Python cannot broadcast:
here the driver takes the sums, makes the step with the optimizer, and broadcasts the weights.
"""

from __future__ import annotations

import functools
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from workloads.common import events, training
from workloads.common.parallel.asynchronous import Worker
from workloads.common.parallel.server import flat, trained
from workloads.common.ranks import Ranks
from workloads.common.shared import HostFolder
from workloads.common.spark.carried import to_all

Floats = NDArray[np.float32]
Array = NDArray[Any]


class Shared(Protocol):
    """A part of a training whose `way` can be replaced before it computes."""

    way: training.Way

    def load(self, folder: HostFolder | None) -> None:
        """See :class:`workloads.common.part.Part`."""

    def compute(self) -> None:
        """See :class:`workloads.common.part.Part`."""


@dataclass(frozen=True)
class Step:
    """What a step begins with: its place, the weights (w,), and of each rank what it has seen of its rows."""

    epoch: int
    number: int
    weights: Floats
    buffers: list[list[Array]]


@dataclass(frozen=True)
class Made:
    """What a rank has made of its rows of a step: the gradient of their mean loss (w,), and the sum of their losses."""

    rank: int
    gradient: Floats
    loss: float
    buffers: list[Array]


class Jobs(training.Way):
    """The driver's way: executors have the ranks' rows, in `partitions`; `make` gives a rank's part."""

    def __init__(self, context: Any, partitions: int, make: Callable[[Ranks], Shared]) -> None:
        self._context, self._world = context, partitions
        self._make, self._token = make, secrets.token_hex(8)

    def fit(self, work: training.Work, after: training.After | None = None) -> list[float]:
        """See :func:`training.fit`: the same rows in the same steps as of as many ranks that exchange gradients."""
        model, schedule, world = work.model, work.schedule, self._world
        ranks = Ranks(0, world, 0, 1)
        training.check_rows(work.rows, ranks)
        own = work.rows // world
        steps = -(-own // (schedule.batch * schedule.accumulate))
        times = training.growth(schedule, ranks)
        buffers = [_buffers(model)] * world
        losses = []
        for epoch in range(schedule.epochs):
            totals = np.zeros(world)
            with events.phase("epoch"):
                for number in range(steps):
                    if times > 1:
                        warm = min(1.0, epoch + min(own, (number + 1) * schedule.batch * schedule.accumulate) / own)
                        for group in work.optimizer.param_groups:
                            group["lr"] = schedule.learning_rate * (1 + (times - 1) * warm)
                    weights = flat(trained(model.parameters())).numpy()
                    gradient, sums, buffers = self._step(Step(epoch, number, weights, buffers))
                    work.optimizer.zero_grad(set_to_none=True)
                    _give(model, gradient / np.float32(world))
                    work.optimizer.step()
                    totals += sums
                buffers = [[_shared(some) for some in zip(*buffers, strict=True)]] * world
                _take_over(model, buffers[0])
                losses.append(float(totals.sum()) / (own * world))
            events.progress("epochs", epoch + 1, schedule.epochs, loss=losses[-1])
            if after is not None:
                after(epoch + 1)
        return losses

    def _step(self, step: Step) -> tuple[Floats, list[float], list[list[Array]]]:
        """The sum of all ranks' gradients, each one's losses, and its buffers: two jobs."""
        world, sent = self._world, to_all(self._context, step)
        learn = functools.partial(_learned, self._make, self._token, world, sent)
        made = self._context.parallelize(range(world), world).mapPartitions(learn).persist()
        told = sorted(made.map(_without_gradient).collect(), key=lambda one: one.rank)
        slices = made.flatMap(functools.partial(_slices, world)).groupByKey(world).mapValues(_summed).collect()
        made.unpersist()
        sent.unpersist()
        gradient = np.concatenate([slice_of for _, slice_of in sorted(slices, key=lambda one: one[0])])
        return gradient, [one.loss for one in told], [one.buffers for one in told]


class _Lent(Exception):
    """Brings out the training that a rank would begin."""

    def __init__(self, work: training.Work) -> None:
        super().__init__()
        self.work = work


class _Lending(training.Way):
    def fit(self, work: training.Work, after: training.After | None = None) -> list[float]:
        raise _Lent(work)


_WORKS: dict[tuple[str, int], training.Work] = {}
"""What this process of an executor has of a run's ranks: what it has lost, or another has, is loaded again."""


def _work(make: Callable[[Ranks], Shared], token: str, rank: int, world: int) -> training.Work:
    if (token, rank) not in _WORKS:
        events.carry(lambda _: None)
        part = make(Ranks(rank, world, 0, 1))
        part.way = _Lending()
        part.load(None)
        try:
            part.compute()
        except _Lent as lent:
            _WORKS[token, rank] = lent.work
    return _WORKS[token, rank]


def _learned(
    make: Callable[[Ranks], Shared], token: str, world: int, sent: Any, ranks: Iterable[int]
) -> Iterator[Made]:
    for rank in ranks:
        yield _of_rank(_work(make, token, rank, world), rank, world, sent.value)


def _of_rank(work: training.Work, rank: int, world: int, step: Step) -> Made:
    model, schedule = work.model, work.schedule
    worker = Worker(model, work.loss_of)
    _take_over(model, step.buffers[rank])
    model.train()
    size = schedule.batch * schedule.accumulate
    order = training.rows_of_rank(work.rows, step.epoch, schedule.seed, Ranks(rank, world, 0, 1))
    (batches,) = training.steps(work.batch_of, order[step.number * size : (step.number + 1) * size], schedule)
    loss = worker.learn(torch.from_numpy(step.weights.copy()), batches)
    return Made(rank, worker.gradient().numpy(), float(loss), _buffers(model))


def _without_gradient(made: Made) -> Made:
    return Made(made.rank, made.gradient[:0], made.loss, made.buffers)


def _slices(count: int, made: Made) -> Iterator[tuple[int, tuple[int, Floats]]]:
    for place, part in enumerate(np.array_split(made.gradient, count)):
        yield place, (made.rank, part)


def _summed(parts: Iterable[tuple[int, Floats]]) -> Floats:
    """The sum of a slice of all gradients, in the order of ranks."""
    first, *others = (part for _, part in sorted(parts, key=lambda one: one[0]))
    return functools.reduce(np.add, others, first)


def _give(model: nn.Module, gradient: Floats) -> None:
    """Have the gradient (w,) in the model's weights."""
    start = 0
    for weight in trained(model.parameters()):
        end = start + weight.numel()
        weight.grad = torch.from_numpy(gradient[start:end]).view_as(weight)
        start = end


def _buffers(model: nn.Module) -> list[Array]:
    """What the model keeps of the rows that it has seen."""
    return [buffer.numpy().copy() for buffer in model.buffers()]


def _shared(of_ranks: Sequence[Array]) -> Array:
    """The mean of a buffer over all ranks; a count is the same for all."""
    first = of_ranks[0]
    return np.asarray(np.mean(of_ranks, axis=0)) if np.issubdtype(first.dtype, np.floating) else first


def _take_over(model: nn.Module, buffers: Sequence[Array]) -> None:
    with torch.no_grad():
        for buffer, value in zip(model.buffers(), buffers, strict=True):
            buffer.copy_(torch.from_numpy(value))
