"""The networks in torch, as plain modules under DistributedDataParallel."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from workloads.common import training
from workloads.tf_digits.networks import Network, Weights


class Trainer:
    """A network that learns by stochastic gradient descent; gradients are the mean over all ranks of the group."""

    def __init__(self, network: Network, weights: Weights, learning_rate: float, momentum: float, world: int) -> None:
        training.use_threads_of_environment()
        self._world = world
        self._module = module(network)
        with torch.no_grad():
            for parameter, weight in zip(self._module.parameters(), weights, strict=True):
                parameter.copy_(torch.from_numpy(weight))
        self._optimizer = torch.optim.SGD(self._module.parameters(), lr=learning_rate, momentum=momentum, fused=True)
        self._trained: nn.Module = self._module
        self._shape = (1, network.colours, network.side, network.side)

    def trace(self) -> None:
        """Exchange gradients once for nothing: after its first step DDP changes their order, and so their sums."""
        if self._world > 1:
            self._trained = DistributedDataParallel(self._module)
            self._trained(torch.zeros(self._shape)).sum().backward()
            self._optimizer.zero_grad(set_to_none=True)

    def learn(self, pixels: NDArray[np.uint8], labels: NDArray[np.uint8]) -> Any:
        """Take a step; gives the mean loss of these rows on this rank."""
        self._optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(self._trained(_pictures(pixels)), torch.from_numpy(labels).long())
        loss.backward()
        self._optimizer.step()
        return loss.detach()

    def evaluate(self, pixels: NDArray[np.uint8], labels: NDArray[np.uint8]) -> tuple[int, float]:
        """Of how many rows the class is found, and the sum of their losses."""
        with torch.no_grad():
            scores, wanted = self._module(_pictures(pixels)), torch.from_numpy(labels).long()
            loss = nn.functional.cross_entropy(scores, wanted, reduction="sum")
            return int((scores.argmax(1) == wanted).sum()), float(loss)

    def total(self, numbers: list[float]) -> list[float]:
        """The sums of numbers over all ranks."""
        tensor = torch.tensor(numbers, dtype=torch.float64)
        if self._world > 1:
            torch.distributed.all_reduce(tensor)
        return [float(one) for one in tensor]

    def weights(self) -> Weights:
        """As :mod:`networks` has them."""
        return [parameter.detach().numpy() for parameter in self._module.parameters()]


def module(network: Network) -> nn.Module:
    """The network, from float pictures (n, colours, side, side) to scores (n, classes); weights from torch's seed."""
    layers: list[nn.Module] = []
    before = network.colours
    for channels, kernel in network.convolutions:
        convolution = nn.Conv2d(before, channels, kernel, padding=kernel // 2 if network.same else 0)
        layers += [convolution, nn.ReLU(), nn.MaxPool2d(2)]
        before = channels
    layers.append(nn.Flatten())
    side, channels = network.last
    before = side * side * channels
    for outputs in network.dense:
        layers += [nn.Linear(before, outputs), nn.ReLU()]
        before = outputs
    return nn.Sequential(*layers[:-1])


def _pictures(pixels: NDArray[np.uint8]) -> Tensor:
    rows = torch.from_numpy(pixels if pixels.ndim == 4 else pixels[..., None]).permute(0, 3, 1, 2)
    return (rows.float() - 127.5) / 127.5
