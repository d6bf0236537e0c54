"""Fine-tuning: weights that a network begins with, and first layers that stay as they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from workloads.common import storage, training
from workloads.common.events import BadInput
from workloads.common.networks.norm import GroupedNorm

RANDOM = "random"
NESTED = ("model", "state_dict")
"""The keys under which files keep weights among other things: Regatta's checkpoints, and other programs'."""
COUNTED = "num_batches_tracked"
NAMED_AT_MOST = 3


def layers(network: nn.Module) -> list[nn.Module]:
    """Those that have their own weights, in their order; a normalisation is a layer."""
    return [module for module in network.modules() if next(module.parameters(recurse=False), None) is not None]


def freeze(network: nn.Module, share: float) -> int:
    """Let the first `share` of the layers (0 to less than 1, rounded down) stay as they are; gives how many they are.

    Their weights get no gradients. A normalisation among them takes its running statistics instead of the
    batch's, and leaves them alone. Raises :class:`BadInput` where nothing is left to train.
    """
    if not 0 <= share < 1:
        raise BadInput(f"--freeze {share:g} leaves nothing to train; give a share from 0 to less than 1, as 0.9")
    every = layers(network)
    first = every[: int(share * len(every) + 1e-9)]
    for layer in first:
        layer.requires_grad_(False)
        if isinstance(layer, GroupedNorm):
            layer.still = True
    return len(first)


def read(file: str) -> dict[str, Tensor]:
    """The weights by name in a file that ``torch.save`` has written, wherever it is.

    They may be alone, or under one of NESTED. Raises :class:`BadInput` where it is missing, or has other things.
    """
    with storage.open(file) as opened:
        content = opened.read()
    meant = "weights by name, as torch.save(network.state_dict(), FILE) writes them"
    try:
        found = training.unpacked(content)
    except Exception as error:
        first = str(error).strip().partition("\n")[0]
        raise BadInput(f"{file}: not a file of weights ({first}); expected {meant}") from error
    if isinstance(found, Mapping):
        found = next((found[name] for name in NESTED if isinstance(found.get(name), Mapping)), found)
    if not isinstance(found, Mapping) or not found or not all(map(_is_weight, found.values())):
        raise BadInput(f"{file}: has no {meant}")
    return {str(name): value for name, value in found.items()}


def take(network: nn.Module, weights: dict[str, Tensor], file: str) -> str:
    """Begin with `weights` instead of random ones; gives where the network's weights are from, for people.

    Where the file is of another number of classes, the last layer stays random. Raises :class:`BadInput` where weights
    lack, are too many or of other shapes.
    """
    wanted = network.state_dict()
    last = [f"{_name(network, layers(network)[-1])}.{one}" for one in ("weight", "bias")]
    given = {name: value for name, value in weights.items() if name in wanted}
    other = {name for name in last if name in given and given[name].shape[1:] == wanted[name].shape[1:]}
    other = other if any(given[name].shape != wanted[name].shape for name in other) else set()
    faults = [
        _listed("lacks", [name for name in wanted if name not in given and not name.endswith(COUNTED)]),
        _listed("has too many:", [name for name in weights if name not in wanted]),
        _listed(
            "has other shapes:",
            [
                f"{name} {_shape(value)}, not {_shape(wanted[name])}"
                for name, value in given.items()
                if value.shape != wanted[name].shape and name not in other
            ],
        ),
    ]
    if said := "; it ".join(filter(None, faults)):
        raise BadInput(f"{file}: not the weights of this network, give others or another --model: it {said}")
    network.load_state_dict({name: value for name, value in given.items() if name not in other}, strict=False)
    return f"{file}, the last layer random" if other else file


def _is_weight(value: Any) -> bool:
    return isinstance(value, Tensor) and value.layout == torch.strided and not value.is_complex()


def _name(network: nn.Module, wanted: nn.Module) -> str:
    return str(next(name for name, module in network.named_modules() if module is wanted))


def _shape(value: Tensor) -> str:
    return " x ".join(map(str, value.shape)) or "a number"


def _listed(what: str, names: list[str]) -> str:
    if not names:
        return ""
    more = len(names) - NAMED_AT_MOST
    return f"{what} {', '.join(names[:NAMED_AT_MOST])}" + (f" and {more} more" if more > 0 else "")
