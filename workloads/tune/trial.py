"""A trial: the digits' network, trained with the values of a point; its accuracy is reported after each epoch."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from workloads.common import training
from workloads.common.ranks import Ranks
from workloads.common.shared import HostFolder
from workloads.digits import images, model
from workloads.digits.part import shown

STATE = "state.pt"


def train(
    learning_rate: float, momentum: float, batch: int, *, data: str, size: int, seed: int, folder: Path
) -> Iterator[dict[str, Any]]:
    """Train for as long as it is asked; yields accuracy (0 to 1) and mean loss after each epoch.

    `folder` keeps the state of the last epoch, from which it continues. It takes one thread, however many there are:
    sums of more threads differ in their last bits.
    """
    torch.set_num_threads(1)
    drawn = _images(data, size, seed)
    rows, tests = len(drawn.labels), len(drawn.test_labels)
    batch_of = training.batches(drawn.pixels, drawn.labels, shown)
    test_of = training.batches(drawn.test_pixels, drawn.test_labels, shown)
    torch.manual_seed(seed)
    trained = model.make("perceptron")
    optimizer = torch.optim.SGD(trained.parameters(), lr=learning_rate, momentum=momentum, fused=True)
    for epoch in count(_resume(folder / STATE, trained, optimizer)):
        for group in optimizer.param_groups:
            group.update(lr=learning_rate, momentum=momentum)
        trained.train()
        total = 0.0
        for chosen in training.rows_of_rank(rows, epoch, seed, Ranks()).split(batch):
            inputs, targets = batch_of(chosen)
            optimizer.zero_grad(set_to_none=True)
            loss = cross_entropy(trained(inputs), targets)
            loss.backward()
            optimizer.step()
            total += float(loss.detach()) * len(chosen)
        right, _ = training.evaluate(trained, (cross_entropy, _right), (test_of, tests), Ranks())
        _keep(folder / STATE, epoch + 1, trained, optimizer)
        yield {"accuracy": right / tests, "loss": total / rows}


def _right(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return scores.argmax(1) == labels


def _images(data: str, size: int, seed: int) -> images.Images:
    """The images, made once on a host."""
    name = hashlib.sha256(repr((data, size, seed)).encode()).hexdigest()
    folder = HostFolder(Path(os.environ["REGATTA_SCRATCH"]), 1, discard=False)
    return folder.once(f"images-{name[:16]}", lambda empty: images.of(data, size, seed).save(empty), images.Images.open)


def _resume(path: Path, trained: torch.nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Take over what was kept, if it was; gives how many epochs that has."""
    if not path.exists():
        return 0
    state = torch.load(path, weights_only=True)
    trained.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return int(state["epochs"])


def _keep(path: Path, epochs: int, trained: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    unfinished = path.with_suffix(".new")
    torch.save({"epochs": epochs, "model": trained.state_dict(), "optimizer": optimizer.state_dict()}, unfinished)
    unfinished.replace(path)
