"""The networks by their names, from pictures to scores; weights from torch's seed."""

from __future__ import annotations

from torch import nn

HIDDEN = 500


def make(name: str, colours: int, side: int, classes: int) -> nn.Module:
    """The network of a name, from float pictures (n, colours, side, side) to scores (n, classes)."""
    return {"cnn": cnn, "lenet": lenet}[name](colours, side, classes)


def cnn(colours: int, side: int, classes: int) -> nn.Sequential:
    """The study's own: convolutions of 20 and 50 channels, each pooled, and a dense layer of 500.

    431,080 weights for digits of 28 x 28. Kernels are 5 x 5 without a border.
    """
    last = ((side - 4) // 2 - 4) // 2
    return nn.Sequential(
        nn.Conv2d(colours, 20, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(20, 50, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(50 * last * last, HIDDEN),
        nn.ReLU(),
        nn.Linear(HIDDEN, classes),
    )


def lenet(colours: int, side: int, classes: int) -> nn.Sequential:
    """LeNet-5 (Y. LeCun et al., 1998) with full connections: 61,706 weights for digits, which get a border of 2."""
    last = (side // 2 - 4) // 2
    return nn.Sequential(
        nn.Conv2d(colours, 6, 5, padding=2),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * last * last, 120),
        nn.Tanh(),
        nn.Linear(120, 84),
        nn.Tanh(),
        nn.Linear(84, classes),
    )
