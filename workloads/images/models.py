"""The networks by their names, from what they are shown to scores; weights from torch's seed."""

from __future__ import annotations

from torch import nn

from workloads.common.networks import named

HIDDEN = 500
EMBEDDED = 16
LEAST_SIDE = 32
"""Of pictures for the networks of `named`: smaller ones get a border. Keras's applications refuse them."""


def of_pictures(name: str, colours: int, side: int, classes: int, *, small: bool = False, groups: int = 1) -> nn.Module:
    """The network of a name, from float pictures (n, :func:`shown`) to scores (n, classes).

    `small` and `groups` are for those of :mod:`named`.
    """
    if name in named.MAKERS:
        return named.make(name, classes, small=small, groups=groups)
    return {"cnn": cnn, "lenet": lenet}[name](colours, side, classes)


def shown(name: str, colours: int, side: int) -> tuple[int, int, int]:
    """The shape of a picture, (colours, side, side), as a network takes it."""
    if name in named.MAKERS:
        return 3, max(side, LEAST_SIDE), max(side, LEAST_SIDE)
    return colours, side, side


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


def text(words: int, classes: int) -> nn.Sequential:
    """The mean of what words are embedded as, and a dense layer; from numbers of words (n, length), 0 where there is
    none, to scores (n, classes).

    160,306 weights for 10,000 words and two classes.
    """
    return nn.Sequential(
        nn.EmbeddingBag(words, EMBEDDED, mode="mean", padding_idx=0),
        nn.Linear(EMBEDDED, EMBEDDED),
        nn.ReLU(),
        nn.Linear(EMBEDDED, classes),
    )
