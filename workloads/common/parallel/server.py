"""A parameter server: it has the weights, applies gradients one by one, and holds back ranks that are too far ahead.

Stale synchronous parallel (Q. Ho et al., "More effective distributed ML via a stale synchronous parallel parameter
server", 2013): a rank begins a step when the slowest is at most so many steps behind it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector


@dataclass
class Stale:
    """The age of gradients: between the reading of its weights and its own turn, so many of other ranks were applied.

    `count` gradients, `total` of their ages, `most`: the highest.
    """

    count: int = 0
    total: int = 0
    most: int = 0

    def add(self, age: int) -> None:
        """One gradient more."""
        self.count, self.total, self.most = self.count + 1, self.total + age, max(self.most, age)

    @property
    def mean(self) -> float:
        """0 where there is none."""
        return self.total / self.count if self.count else 0.0


class Server:
    """The weights of `world` ranks, which threads ask for and change, each on behalf of a rank.

    `rate`: the learning rate of the n-th gradient of the training, from 0; `staleness`: how many steps a rank may be
    ahead of the slowest.
    """

    def __init__(
        self, optimizer: torch.optim.Optimizer, world: int, staleness: int, rate: Callable[[int], float]
    ) -> None:
        self._optimizer, self._rate, self._staleness = optimizer, rate, staleness
        self._weights = trained(weight for group in optimizer.param_groups for weight in group["params"])
        self._changed = threading.Condition()
        self._read = [0] * world
        self._steps = [0] * world
        self._error: BaseException | None = None
        self.stale = Stale()

    def push(self, rank: int, gradient: Tensor) -> None:
        """Apply the gradient of a rank's step, (weights,), made from what it has pulled last. Raises as :meth:`fail`
        was told."""
        with self._changed:
            self._check()
            for weight, part in zip(self._weights, gradient.split([one.numel() for one in self._weights]), strict=True):
                weight.grad = part.view_as(weight)
            for group in self._optimizer.param_groups:
                group["lr"] = self._rate(self.stale.count)
            self._optimizer.step()
            self.stale.add(self.stale.count - self._read[rank])
            self._steps[rank] += 1
            self._changed.notify_all()

    def pull(self, rank: int) -> Tensor:
        """The weights for a rank's next step, (weights,), once it may begin it. Raises as :meth:`fail` was told."""
        with self._changed:
            self._changed.wait_for(lambda: self._error or self._steps[rank] - min(self._steps) <= self._staleness)
            self._check()
            self._read[rank] = self.stale.count
            return flat(self._weights)

    def wait(self, steps: int) -> None:
        """Return when each rank has pushed so many gradients in all. Raises as :meth:`fail` was told."""
        with self._changed:
            self._changed.wait_for(lambda: self._error or min(self._steps) >= steps)
            self._check()

    def fail(self, error: BaseException) -> None:
        """A rank is lost: no rank waits for it any more."""
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()

    def _check(self) -> None:
        if self._error is not None:
            raise RuntimeError(f"the parameter server gave up: {self._error}") from self._error


def trained(weights: Iterable[nn.Parameter]) -> list[nn.Parameter]:
    """Those of the weights that are trained."""
    return [weight for weight in weights if weight.requires_grad]


def flat(tensors: Iterable[Tensor]) -> Tensor:
    """A copy of all of them one after the other, (weights,)."""
    with torch.no_grad():
        return parameters_to_vector(tensors)
