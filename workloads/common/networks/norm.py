"""Batch normalisation over groups of a batch, so that one process can learn what several ranks do together."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class GroupedNorm(nn.BatchNorm2d):
    """:class:`torch.nn.BatchNorm2d` whose batches are normalised in `groups`: row i with those that are i modulo that.

    Ranks normalise their own rows, rank r of w has every w-th row of a step, and at the end of an epoch they share the
    mean of what they have seen. One process that has all of these rows in w groups computes the same up to rounding
    (E. Hoffer et al., "Train longer, generalize better", 2017, call that ghost batch normalisation). Rows that do not
    fall into equal groups are one group. A group of one value a channel, which has no variance, is normalised by the
    running statistics, and leaves them alone. So is everything where it is `still`.
    """

    still = False
    """Whether it normalises in training as it does in a test: its running statistics stay as they are."""

    def __init__(self, channels: int, groups: int = 1) -> None:
        super().__init__(channels)
        self.groups = groups

    def train(self, mode: bool = True) -> GroupedNorm:
        """As :class:`torch.nn.Module`, but not into training where it is `still`."""
        super().train(mode and not self.still)
        return self

    def forward(self, input: Tensor) -> Tensor:
        """(n, channels, height, width) -> the same shape."""
        rows, channels, height, width = input.shape
        groups = self.groups if self.groups and rows % self.groups == 0 else 1
        if not self.training or (groups == 1 and rows * height * width > 1):
            return super().forward(input)
        mean, var = self.running_mean, self.running_var
        assert mean is not None and var is not None and self.num_batches_tracked is not None
        if rows // groups * height * width == 1:
            return functional.batch_norm(input, mean, var, self.weight, self.bias, False, 0.0, self.eps)
        means, variances = mean.repeat(groups), var.repeat(groups)
        made = functional.batch_norm(
            input.reshape(rows // groups, groups * channels, height, width),
            *(means, variances, self.weight.repeat(groups), self.bias.repeat(groups)),
            *(True, self.momentum or 0.0, self.eps),
        )
        with torch.no_grad():
            mean.copy_(means.view(groups, channels).mean(0))
            var.copy_(variances.view(groups, channels).mean(0))
            self.num_batches_tracked += 1
        return made.view(rows, channels, height, width)


def groups_of_rank(groups: int, meant: int, world: int) -> int:
    """In how many groups one of `world` ranks normalises its rows of a batch, where each of `meant` ranks was to do so
    in `groups`; 0: as many ranks as there are."""
    return max(1, round(groups * (meant or world) / world))
