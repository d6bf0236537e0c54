"""The models: two perceptrons of three layers, and a small convolutional network."""

from __future__ import annotations

from torch import nn

from workloads.digits.images import CLASSES, SIDE

NAMES = ("perceptron", "wide", "cnn")


def make(name: str, classes: int = CLASSES) -> nn.Module:
    """The model of one of NAMES, from float images (n, 28, 28) to scores (n, classes); weights by torch's seed."""
    if name == "cnn":
        return nn.Sequential(
            nn.Unflatten(1, (1, SIDE)),
            nn.Conv2d(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(32 * 7 * 7, 64),
            nn.ReLU(),
            nn.Linear(64, classes),
        )
    if name == "wide":
        return nn.Sequential(
            nn.Flatten(),
            nn.Linear(SIDE * SIDE, 512),
            nn.ReLU(),
            nn.Linear(512, 512),
            nn.ReLU(),
            nn.Linear(512, classes),
            nn.ReLU(),
        )
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(SIDE * SIDE, 128),
        nn.ReLU(),
        nn.Linear(128, 64),
        nn.ReLU(),
        nn.Linear(64, classes),
    )
