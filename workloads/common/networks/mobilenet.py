"""MobileNetV2 (M. Sandler et al., "Inverted residuals and linear bottlenecks", 2018), as torchvision has it.

It has no dropout: what is drawn at random in a step would differ in a training that continues from a checkpoint.
"""

from __future__ import annotations

from torch import Tensor, nn

from workloads.common.networks.norm import GroupedNorm

STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
"""Of each stage: how many times its blocks widen, the width that they give, how many they are, stride of the first."""
FIRST, LAST = 32, 1280


class Inverted(nn.Module):
    """Wider, each channel by itself, and narrow again; with a shortcut where the shape stays."""

    def __init__(self, taken: int, given: int, stride: int, times: int, groups: int) -> None:
        super().__init__()
        wide = taken * times
        layers: list[nn.Module] = [_block(taken, wide, 1, 1, groups)] if times > 1 else []
        layers.append(_block(wide, wide, 3, stride, groups, each=True))
        self.conv = nn.Sequential(*layers, nn.Conv2d(wide, given, 1, bias=False), GroupedNorm(given, groups))
        self.shortcut = stride == 1 and taken == given

    def forward(self, pictures: Tensor) -> Tensor:
        """(n, taken, h, w) -> (n, given, h / stride, w / stride)."""
        made: Tensor = self.conv(pictures)
        return pictures + made if self.shortcut else made


class Mean(nn.Module):
    """Of each channel."""

    def forward(self, pictures: Tensor) -> Tensor:
        """(n, channels, h, w) -> (n, channels)."""
        return pictures.mean((2, 3))


class MobileNetV2(nn.Module):
    """From pictures (n, 3, h, w) to scores (n, classes).

    `small`: of pictures of 32 x 32 the first two strides are left out, so that the last layers see 4 x 4, not 1.
    """

    def __init__(self, classes: int, *, small: bool, groups: int) -> None:
        super().__init__()
        layers: list[nn.Module] = [_block(3, FIRST, 3, 1 if small else 2, groups)]
        taken = FIRST
        for number, (times, given, count, stride) in enumerate(STAGES):
            for place in range(count):
                own = 1 if place or (small and number == 1) else stride
                layers.append(Inverted(taken, given, own, times, groups))
                taken = given
        layers.append(_block(taken, LAST, 1, 1, groups))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(nn.Identity(), nn.Linear(LAST, classes))
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out")
            elif isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, 0, 0.01)
                nn.init.zeros_(module.bias)

    def forward(self, pictures: Tensor) -> Tensor:
        """Scores of pictures."""
        for layer in self.layers():
            pictures = layer(pictures)
        return pictures

    def layers(self) -> list[nn.Module]:
        """All that `forward` does, one after the other."""
        return [*self.features, Mean(), *self.classifier]


def mobilenetv2(classes: int, *, small: bool, groups: int = 1) -> MobileNetV2:
    """2,226,434 weights for 2 classes, 2,236,682 for 10, `small` or not."""
    return MobileNetV2(classes, small=small, groups=groups)


def _block(taken: int, given: int, side: int, stride: int, groups: int, *, each: bool = False) -> nn.Sequential:
    """A convolution, of `each` channel by itself or of all, its normalisation, and what cuts it off at 0 and 6."""
    conv = nn.Conv2d(taken, given, side, stride, side // 2, groups=taken if each else 1, bias=False)
    return nn.Sequential(conv, GroupedNorm(given, groups), nn.ReLU6(inplace=True))
