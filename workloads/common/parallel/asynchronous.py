"""Asynchronous training: ranks pull weights from a parameter server and push gradients to it, each at its own pace.

The server is a thread for each other rank in rank 0's process, besides its worker. So all ranks compute, no further
process has to be placed, and rank 0's worker has the weights without the network. Torch's work and waits leave the
interpreter free, so that threads hardly hold up each other.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.utils import vector_to_parameters

from workloads.common import events, training
from workloads.common.parallel.server import Server, Stale, flat, trained
from workloads.common.ranks import Ranks

TAG = 1
"""Of messages between a worker and the server, which may be on their way with others."""


class Asynchronous(training.Way):
    """Each rank has the whole model, and the same batches as in a synchronous training.

    A gradient counts 1 / ranks of the learning rate: so all rows of an epoch together move the weights by as much as
    there. Ranks meet where the model is tested, and at the end. `staleness`: how many steps a rank may be ahead.
    """

    def __init__(self, staleness: int) -> None:
        self._staleness = staleness
        self._stale = Stale()

    def fit(self, work: training.Work, after: training.After | None = None) -> list[float]:
        """See :func:`training.fit`; a single rank needs no server. Raises RuntimeError where a rank is lost."""
        model, rows, schedule, ranks = work.model, work.rows, work.schedule, work.ranks
        if ranks.world == 1:
            return super().fit(work, after)
        training.check_rows(rows, ranks)
        steps = -(-(rows // ranks.world) // (schedule.batch * schedule.accumulate))
        times = training.growth(schedule, ranks)

        def rate(number: int) -> float:
            warm = min(1.0, (number + 1) / (steps * ranks.world))
            return schedule.learning_rate / ranks.world * (1 + (times - 1) * warm)

        _meet(model, model, ranks)
        worker = Worker(copy.deepcopy(model) if ranks.rank == 0 else model, work.loss_of)
        line: Line = Far(worker)
        if ranks.rank == 0:
            server = Server(work.optimizer, ranks.world, self._staleness, rate)
            self._stale, line = server.stale, Near(server, ranks.world)
        losses: list[float] = []
        for leg in legs(schedule):
            line.begin(len(leg) * steps)
            worker.model.train()
            totals = torch.zeros(len(leg), dtype=torch.float64)
            for place, epoch in enumerate(leg):
                with events.phase("epoch"):
                    order = training.rows_of_rank(rows, epoch, schedule.seed, ranks)
                    for step in training.steps(work.batch_of, order, schedule):
                        totals[place] += worker.learn(line.pull(), step)
                        line.push(worker.gradient())
                events.progress("epochs", epoch + 1, schedule.epochs, loss=float(totals[place]) / len(order))
            line.end()
            _meet(worker.model, model, ranks)
            dist.all_reduce(totals)
            losses += (totals / (len(order) * ranks.world)).tolist()
            if after is not None:
                after(leg[-1] + 1)
        return losses

    def answer(self) -> dict[str, Any]:
        """Return how many steps of other ranks were taken between a gradient's weights and its turn, on average and
        most.
        """
        return {"staleness": {"mean": self._stale.mean, "most": self._stale.most}}

    def said(self) -> list[str]:
        """The same in words."""
        return [f"gradients were {self._stale.mean:.2f} steps old on average, {self._stale.most} at most"]


def legs(schedule: training.Schedule) -> list[range]:
    """The epochs, from 0, between one meeting of the ranks and the next."""
    long = schedule.test_every or schedule.epochs
    return [range(first, min(first + long, schedule.epochs)) for first in range(0, schedule.epochs, long)]


class Worker:
    """Makes gradients of `model`, whose weights it changes to those that it is given."""

    def __init__(self, model: nn.Module, loss_of: Callable[[Tensor, Tensor], Tensor]) -> None:
        self.model, self._loss_of = model, loss_of
        self._weights = trained(model.parameters())

    def learn(self, weights: Tensor, step: list[tuple[Tensor, Tensor]]) -> Tensor:
        """The sum of the losses of a step's rows, (), with these weights; makes the gradient of their mean."""
        vector_to_parameters(weights.to(self._weights[0].device), self._weights)
        self.model.zero_grad(set_to_none=True)
        total = torch.zeros((), dtype=torch.float64)
        for inputs, targets in step:
            loss = self._loss_of(self.model(inputs), targets)
            (loss / len(step)).backward()
            total.add_(loss.detach().cpu(), alpha=len(targets))
        return total

    def gradient(self) -> Tensor:
        """The gradient of the last step, on the CPU, (weights,)."""
        return flat(one.new_zeros(one.shape) if one.grad is None else one.grad for one in self._weights).cpu()

    def empty(self) -> Tensor:
        """Room for all weights, (weights,)."""
        return torch.empty_like(flat(self._weights), device="cpu")


class Line(Protocol):
    """A worker's way to the server."""

    def begin(self, steps: int) -> None:
        """From here on each rank takes so many steps."""

    def pull(self) -> Tensor:
        """The weights for the next step, once it may begin."""

    def push(self, gradient: Tensor) -> None:
        """Give the gradient of that step."""

    def end(self) -> None:
        """Return when nothing is to be done any more: on the server when all ranks have taken their steps."""


class Near:
    """That of rank 0, whose process has the server. It serves the other ranks, too."""

    def __init__(self, server: Server, world: int) -> None:
        self._server, self._world = server, world
        self._steps = 0

    def begin(self, steps: int) -> None:
        """See :class:`Line`."""
        self._steps += steps
        for rank in range(1, self._world):
            threading.Thread(target=self._serve, args=(rank, steps), daemon=True).start()

    def pull(self) -> Tensor:
        """See :class:`Line`."""
        return self._server.pull(0)

    def push(self, gradient: Tensor) -> None:
        """See :class:`Line`."""
        self._server.push(0, gradient)

    def end(self) -> None:
        """See :class:`Line`."""
        self._server.wait(self._steps)

    def _serve(self, rank: int, steps: int) -> None:
        try:
            for _ in range(steps):
                weights = self._server.pull(rank)
                dist.send(weights, rank, tag=TAG)
                dist.recv(weights, rank, tag=TAG)
                self._server.push(rank, weights)
        except Exception as error:
            self._server.fail(RuntimeError(f"rank {rank}: {error}"))


class Far:
    """That of any other rank."""

    def __init__(self, worker: Worker) -> None:
        self._weights = worker.empty()

    def begin(self, steps: int) -> None:
        """See :class:`Line`."""

    def pull(self) -> Tensor:
        """See :class:`Line`."""
        dist.recv(self._weights, 0, tag=TAG)
        return self._weights

    def push(self, gradient: Tensor) -> None:
        """See :class:`Line`."""
        dist.send(gradient, 0, tag=TAG)

    def end(self) -> None:
        """See :class:`Line`."""


@torch.no_grad()
def _meet(worked: nn.Module, model: nn.Module, ranks: Ranks) -> None:
    """Give all ranks rank 0's weights, and the mean of what each has seen of its rows, in `worked` and `model`."""
    weights = flat(model.parameters()).cpu()
    dist.broadcast(weights, 0)
    training.share_buffers(worked, ranks)
    for one in {id(one): one for one in (worked, model)}.values():
        vector_to_parameters(weights.to(next(one.parameters()).device), one.parameters())
        for buffer, shared in zip(one.buffers(), worked.buffers(), strict=True):
            buffer.copy_(shared)
