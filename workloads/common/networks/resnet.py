"""ResNet-18 and ResNet-50 (K. He et al., "Deep residual learning for image recognition", 2016), as in torchvision.

Of a block that halves its picture the 3 x 3 convolution has the stride.
"""

from __future__ import annotations

from torch import Tensor, nn

from workloads.common.networks.norm import GroupedNorm


class Basic(nn.Module):
    """Two 3 x 3 convolutions with a shortcut."""

    expansion = 1

    def __init__(self, taken: int, width: int, stride: int, groups: int) -> None:
        super().__init__()
        self.conv1 = _conv(taken, width, 3, stride)
        self.bn1 = GroupedNorm(width, groups)
        self.conv2 = _conv(width, width, 3)
        self.bn2 = GroupedNorm(width, groups)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = _shortcut(taken, width, stride, groups)

    def forward(self, pictures: Tensor) -> Tensor:
        """(n, taken, h, w) -> (n, width, h / stride, w / stride)."""
        made = self.relu(self.bn1(self.conv1(pictures)))
        made = self.bn2(self.conv2(made))
        return _relu(self.relu, made + self.downsample(pictures))


class Bottleneck(nn.Module):
    """Convolutions of 1 x 1, 3 x 3 and 1 x 1 with a shortcut."""

    expansion = 4

    def __init__(self, taken: int, width: int, stride: int, groups: int) -> None:
        super().__init__()
        self.conv1 = _conv(taken, width, 1)
        self.bn1 = GroupedNorm(width, groups)
        self.conv2 = _conv(width, width, 3, stride)
        self.bn2 = GroupedNorm(width, groups)
        self.conv3 = _conv(width, self.expansion * width, 1)
        self.bn3 = GroupedNorm(self.expansion * width, groups)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = _shortcut(taken, self.expansion * width, stride, groups)

    def forward(self, pictures: Tensor) -> Tensor:
        """(n, taken, h, w) -> (n, 4 x width, h / stride, w / stride)."""
        made = self.relu(self.bn1(self.conv1(pictures)))
        made = self.relu(self.bn2(self.conv2(made)))
        made = self.bn3(self.conv3(made))
        return _relu(self.relu, made + self.downsample(pictures))


class ResNet(nn.Module):
    """From pictures (n, 3, h, w) to scores (n, classes).

    `small`: of pictures of 32 x 32 the first convolution is 3 x 3 and nothing is pooled, as is usual for CIFAR; else it
    is 7 x 7 with a stride, and a pooling, as published for ImageNet.
    """

    def __init__(
        self, block: type[Basic | Bottleneck], depths: tuple[int, ...], classes: int, *, small: bool, groups: int
    ) -> None:
        super().__init__()
        self.conv1 = _conv(3, 64, 3) if small else _conv(3, 64, 7, 2)
        self.bn1 = GroupedNorm(64, groups)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.Identity() if small else nn.MaxPool2d(3, 2, 1)
        taken = 64
        for number, depth in enumerate(depths, 1):
            width, blocks = 32 << number, []
            for place in range(depth):
                blocks.append(block(taken, width, 2 if number > 1 and not place else 1, groups))
                taken = block.expansion * width
            self.add_module(f"layer{number}", nn.Sequential(*blocks))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(taken, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, pictures: Tensor) -> Tensor:
        """Scores of pictures."""
        for layer in self.layers():
            pictures = layer(pictures)
        return pictures

    def layers(self) -> list[nn.Module]:
        """All that `forward` does, one after the other."""
        stages = [stage for name, stage in self.named_children() if name.startswith("layer")]
        blocks = [block for stage in stages for block in stage.children()]
        return [self.conv1, self.bn1, self.relu, self.maxpool, *blocks, self.avgpool, nn.Flatten(), self.fc]


def resnet18(classes: int, *, small: bool, groups: int = 1) -> ResNet:
    """11,181,642 weights for 10 classes, 11,173,962 where `small`."""
    return ResNet(Basic, (2, 2, 2, 2), classes, small=small, groups=groups)


def resnet50(classes: int, *, small: bool, groups: int = 1) -> ResNet:
    """23,528,522 weights for 10 classes, 23,520,842 where `small`."""
    return ResNet(Bottleneck, (3, 4, 6, 3), classes, small=small, groups=groups)


def _conv(taken: int, given: int, side: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(taken, given, side, stride, side // 2, bias=False)


def _shortcut(taken: int, given: int, stride: int, groups: int) -> nn.Module:
    if stride == 1 and taken == given:
        return nn.Identity()
    return nn.Sequential(_conv(taken, given, 1, stride), GroupedNorm(given, groups))


def _relu(relu: nn.Module, made: Tensor) -> Tensor:
    rectified: Tensor = relu(made)
    return rectified
