"""The layers of a model, what each costs, and where to cut it into stages that cost alike."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode


@runtime_checkable
class Layered(Protocol):
    """A model that says which modules it applies, one after the other."""

    def layers(self) -> Sequence[nn.Module]:
        """All that `forward` does, in its order: each takes what the one before it gives."""


@dataclass(frozen=True)
class Layer:
    """A module with weights, and those without that follow it.

    `gives` is empty and has the shape of what it gives, with 0 rows; `cost`: floating-point operations of the forward
    pass and numbers that it gives, of one row.
    """

    modules: tuple[nn.Module, ...]
    gives: Tensor
    cost: float

    @property
    def name(self) -> str:
        """The kind of module that has its weights."""
        return type(next((one for one in self.modules if _weights(one)), self.modules[0])).__name__


def of(model: nn.Module, inputs: Tensor) -> list[Layer]:
    """The layers of a model that is :class:`Layered` or an ``nn.Sequential``; any other is one. `inputs`: a row, (1,
    ...).

    Raises ValueError where some of its weights are in no layer, or in two.
    """
    groups: list[list[nn.Module]] = []
    for module in _in_turn(model):
        if groups and not (_weights(module) and any(map(_weights, groups[-1]))):
            groups[-1].append(module)
        else:
            groups.append([module])
    held = [id(weight) for group in groups for module in group for weight in _weights(module)]
    if sorted(held) != sorted(map(id, _weights(model))):
        raise ValueError(f"{type(model).__name__}: its layers do not have each of its weights once")
    training = model.training
    model.eval()
    made = []
    with torch.no_grad():
        for group in groups:
            with FlopCounterMode(display=False) as counted:
                for module in group:
                    inputs = module(inputs)
            cost = counted.get_total_flops() + inputs.numel()
            made.append(Layer(tuple(group), inputs.new_empty((0, *inputs.shape[1:])), float(cost)))
    model.train(training)
    return made


def cut(costs: Sequence[float], stages: int) -> list[range]:
    """The layers of each stage, at least one: so that the dearest stage costs as little as can be.

    Raises ValueError for more stages than layers.
    """
    if not 1 <= stages <= len(costs):
        raise ValueError(f"{stages} stages of {len(costs)} layers")

    @cache
    def best(first: int, left: int) -> tuple[float, tuple[int, ...]]:
        """The dearest stage of the layers from `first` on in `left` stages, and where these end."""
        if left == 1:
            return math.fsum(costs[first:]), (len(costs),)
        found = []
        for end in range(first + 1, len(costs) - left + 2):
            dearest, ends = best(end, left - 1)
            found.append((max(math.fsum(costs[first:end]), dearest), (end, *ends)))
        return min(found)

    ends = best(0, stages)[1]
    return [range(first, end) for first, end in zip((0, *ends), ends, strict=False)]


def _in_turn(model: nn.Module) -> Iterator[nn.Module]:
    if isinstance(model, Layered):
        yield from model.layers()
    elif type(model) is nn.Sequential:
        for module in model:
            yield from _in_turn(module)
    else:
        yield model


def _weights(module: nn.Module) -> list[nn.Parameter]:
    return list(module.parameters())
