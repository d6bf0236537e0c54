"""The data sets: where their rows come from, and how a batch of them is shown to a network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from workloads.common.events import BadInput
from workloads.images import camelyon, imdb, mnist, models
from workloads.images.rows import Room

MIDDLE = 127.5
TEXT = "text"
"""The network of texts."""


@dataclass(frozen=True)
class Dataset:
    """`fill` puts rows into a room: data, rows to generate, seed, rows to take at most (0: all). Pictures have
    `colours` and `side`; texts have `words`."""

    fill: Callable[[Room, str, int, int, int], None]
    classes: int
    colours: int = 0
    side: int = 0
    words: int = 0

    def network(self, name: str, *, small: bool, groups: int) -> nn.Module:
        """The network of a name for these rows. Raises :class:`BadInput` where they are none of its kind."""
        if (name == TEXT) != bool(self.words):
            kind = "texts: --dataset imdb" if name == TEXT else "pictures: of texts --model text"
            raise BadInput(f"--model {name} learns {kind}")
        if self.words:
            return models.text(self.words, self.classes)
        return models.of_pictures(name, self.colours, self.side, self.classes, small=small, groups=groups)

    def showing(self, name: str) -> Callable[[Tensor], Tensor]:
        """Return what makes of rows, as they are kept, what the network of a name takes.

        Pictures get values from -1 to 1, a border of 0 as far as the network needs one, and three colours that are
        alike where it needs those.
        """
        if self.words:
            return lambda words: words.long()
        colours, side, _ = models.shown(name, self.colours, self.side)
        border = (side - self.side) // 2

        def shown(pictures: Tensor) -> Tensor:
            whole = pictures[:, None] if pictures.dim() == 3 else pictures.permute(0, 3, 1, 2)
            values = (whole.float() - MIDDLE) / MIDDLE
            padded = nn.functional.pad(values, (border,) * 4, value=-1.0) if border else values
            return padded.expand(-1, colours, -1, -1).contiguous()

        return shown


DATASETS = {
    "mnist": Dataset(mnist.fill, mnist.CLASSES, mnist.COLOURS, mnist.SIDE),
    "patchcamelyon": Dataset(camelyon.fill, camelyon.CLASSES, camelyon.COLOURS, camelyon.SIDE),
    "imdb": Dataset(imdb.fill, imdb.CLASSES, words=imdb.WORDS),
}


def optimizer(name: str, network: nn.Module, learning_rate: float, momentum: float) -> torch.optim.Optimizer:
    """SGD with momentum for pictures; Adam for texts, most of whose words are rare. Of the weights that learn."""
    weights = [weight for weight in network.parameters() if weight.requires_grad]
    if name == TEXT:
        return torch.optim.Adam(weights, lr=learning_rate, fused=True)
    return torch.optim.SGD(weights, lr=learning_rate, momentum=momentum, fused=True)
