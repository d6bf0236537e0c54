"""The networks by their names, as options of workloads have them."""

from __future__ import annotations

from torch import nn

from workloads.common.networks.mobilenet import mobilenetv2
from workloads.common.networks.resnet import resnet18, resnet50

MAKERS = {"resnet18": resnet18, "resnet50": resnet50, "mobilenetv2": mobilenetv2}


def make(name: str, classes: int, *, small: bool, groups: int = 1) -> nn.Module:
    """The network of one of MAKERS, from float pictures (n, 3, h, w) to scores (n, classes); weights from torch's seed.

    `small`: for pictures of 32 x 32. `groups`: see :class:`norm.GroupedNorm`.
    """
    return MAKERS[name](classes, small=small, groups=groups)
