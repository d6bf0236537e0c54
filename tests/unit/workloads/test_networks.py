"""The networks of the literature: published sizes, scores of transformers' with the same weights, and groups."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch
from launching import PROJECT, python
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import locked

from benchmarks.networks import CLASSES, fill, pictures
from workloads.common.networks import named
from workloads.common.networks.norm import GroupedNorm

WRITTEN = json.loads(Path(__file__).with_name("networks.json").read_text())
"""Parameters and scores of transformers' networks: benchmarks/networks.py writes it."""


def size(network: nn.Module) -> int:
    return sum(weight.numel() for weight in network.parameters())


@pytest.mark.parametrize(
    ("name", "classes", "small", "published"),
    [
        ("resnet18", 10, False, 11_181_642),
        ("resnet18", 10, True, 11_173_962),
        ("resnet50", 10, False, 23_528_522),
        ("mobilenetv2", 2, False, 2_226_434),
        ("mobilenetv2", 10, True, 2_236_682),
    ],
)
def test_as_many_weights_as_published(name: str, classes: int, small: bool, published: int) -> None:
    with torch.device("meta"):
        assert size(named.make(name, classes, small=small)) == published


@pytest.mark.parametrize("name", named.MAKERS)
def test_the_same_scores_as_those_of_transformers(name: str) -> None:
    network = named.make(name, CLASSES, small=False).eval()
    fill(network)
    with torch.no_grad():
        scores = network(pictures())
    assert size(network) == WRITTEN[name]["parameters"]
    torch.testing.assert_close(scores, torch.tensor(WRITTEN[name]["scores"]), rtol=1e-4, atol=1e-4)


@pytest.mark.whole  # transformers is brought, 190 MB, and takes longer to import than all other tests here
def test_what_is_kept_of_transformers_is_what_it_answers(tmp_path: Path) -> None:
    kept = tmp_path / "networks.json"
    paths = f"{PROJECT}:{locked.packages('networks-test')}"
    done = python("-m", "benchmarks.networks", str(kept), PYTHONPATH=paths, HF_HUB_OFFLINE="1")
    assert done.status == 0, done.err
    again = json.loads(kept.read_text())
    assert again.keys() == WRITTEN.keys()
    for name, found in WRITTEN.items():
        assert again[name]["parameters"] == found["parameters"]
        torch.testing.assert_close(*(torch.tensor(one["scores"]) for one in (again[name], found)), rtol=1e-4, atol=1e-4)


def test_groups_are_normalised_as_ranks_would_and_their_statistics_are_the_mean() -> None:
    rows = torch.randn(6, 3, 4, 4, generator=torch.Generator().manual_seed(1)) * 5 + 2
    whole, ranks = GroupedNorm(3, 2), [GroupedNorm(3), GroupedNorm(3)]
    made = whole(rows)
    for number, rank in enumerate(ranks):
        torch.testing.assert_close(made[number::2], rank(rows[number::2]))
    for name in ("running_mean", "running_var"):
        mean = (getattr(ranks[0], name) + getattr(ranks[1], name)) / 2
        torch.testing.assert_close(getattr(whole, name), mean)
    assert whole.num_batches_tracked == 1
    torch.testing.assert_close(whole(rows[:5]), GroupedNorm(3)(rows[:5]))


@pytest.mark.parametrize("groups", [1, 2])
def test_a_group_of_one_value_is_normalised_by_what_was_seen_before(groups: int) -> None:
    norm = GroupedNorm(3, groups)
    rows = torch.randn(groups, 3, 1, 1)
    torch.testing.assert_close(norm(rows), rows, rtol=1e-4, atol=1e-4)
    assert norm.running_mean is not None and not norm.running_mean.any()
