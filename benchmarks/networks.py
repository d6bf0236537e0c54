"""``python -m benchmarks.networks [FILE]``: our networks compared with those of transformers, of equal weights.

Needs the nodes' packages and those of requirements/networks-test.lock, which take longer to import than all other
tests of networks do. So it writes what transformers answers to a file, `tests/unit/workloads/networks.json` where none
is named, with which those tests compare; a test of `make test-whole` runs this again.

    uv pip install --python .venv-node/bin/python --no-deps --target /tmp/there -r requirements/networks-test.lock
    PYTHONPATH=/tmp/there:. .venv-node/bin/python -m benchmarks.networks
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from workloads.common.networks import named

PLACE = Path(__file__).parents[1] / "tests/unit/workloads/networks.json"
CLASSES, SIDE, PICTURES = 10, 64, 2


def fill(network: nn.Module) -> None:
    """Give a network weights that follow only from its shapes, none of them special."""
    for number, (name, tensor) in enumerate(sorted(network.state_dict().items())):
        if tensor.is_floating_point():
            wave = torch.sin(0.37 * torch.arange(tensor.numel(), dtype=torch.float64) + number)
            if tensor.dim() > 1:
                wave *= (2 / tensor[0].numel()) ** 0.5
            else:
                wave = 0.1 * wave + (1 if name.endswith(("running_var", "weight")) else 0)
            tensor.copy_(wave.view_as(tensor))


def pictures() -> Tensor:
    """(2, 3, 64, 64)."""
    places = torch.arange(PICTURES * 3 * SIDE * SIDE, dtype=torch.float64)
    return torch.cos(0.11 * places).view(PICTURES, 3, SIDE, SIDE).float()


def _theirs(name: str) -> nn.Module:
    from transformers import (
        MobileNetV2Config,
        MobileNetV2ForImageClassification,
        ResNetConfig,
        ResNetForImageClassification,
    )

    if name == "mobilenetv2":
        return MobileNetV2ForImageClassification(
            MobileNetV2Config(num_labels=CLASSES, tf_padding=False, layer_norm_eps=1e-5)
        )
    basic = name == "resnet18"
    return ResNetForImageClassification(
        ResNetConfig(
            num_labels=CLASSES,
            layer_type="basic" if basic else "bottleneck",
            depths=[2, 2, 2, 2] if basic else [3, 4, 6, 3],
            hidden_sizes=[64, 128, 256, 512] if basic else [256, 512, 1024, 2048],
        )
    )


def _ours(name: str) -> str:
    """The name in our ResNet of a weight of theirs."""
    name = re.sub(r"^resnet\.embedder\.embedder\.convolution", "conv1", name)
    name = re.sub(r"^resnet\.embedder\.embedder\.normalization", "bn1", name)
    name = re.sub(r"^classifier\.1", "fc", name)
    if found := re.match(r"resnet\.encoder\.stages\.(\d)\.layers\.(\d)\.(shortcut|layer\.\d)\.(\w+)\.(\w+)$", name):
        stage, block, place, kind, rest = found.groups()
        own = f"layer{int(stage) + 1}.{block}."
        if place == "shortcut":
            return f"{own}downsample.{int(kind == 'normalization')}.{rest}"
        return f"{own}{'conv' if kind == 'convolution' else 'bn'}{int(place[-1]) + 1}.{rest}"
    return name


def main() -> None:
    """Compare, write, and say how far they are from each other."""
    kept: dict[str, Any] = {}
    for name in named.MAKERS:
        ours, theirs = named.make(name, CLASSES, small=False).eval(), _theirs(name).eval()
        fill(ours)
        own = ours.state_dict()
        if name == "mobilenetv2":
            renamed = dict(zip(theirs.state_dict(), own.values(), strict=True))
        else:
            renamed = {other: own[_ours(other)] for other in theirs.state_dict()}
        theirs.load_state_dict(renamed)
        with torch.no_grad():
            said, meant = ours(pictures()), theirs(pictures()).logits
        count = sum(weight.numel() for weight in theirs.parameters())
        kept[name] = {"parameters": count, "scores": [[round(float(score), 6) for score in row] for row in meant]}
        largest, apart = float(meant.abs().max()), float((said - meant).abs().max())
        print(f"{name}: {count:,} weights, scores up to {largest:.4f}, apart {apart:.2e}")
    Path(sys.argv[1] if sys.argv[1:] else PLACE).write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
