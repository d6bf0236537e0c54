"""The study of deep learning over cores and nodes: its networks, and one training under every framework."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from launching import Ended, python, ranks, weights
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from workloads.common import training
from workloads.common.events import BadInput
from workloads.common.ranks import Ranks
from workloads.images import tuning
from workloads.images.datasets import DATASETS
from workloads.images.part import Options, Part

pytestmark = pytest.mark.frameworks

IMAGES = ("-m", "workloads.images", "--seed=5", "--batch=16")
TEXT = (*IMAGES, "--dataset=imdb", "--model=text", "--size=3000", "--epochs=3")
CNN = (*IMAGES, "--size=200", "--epochs=2")
MOBILENET = (*IMAGES, "--model=mobilenetv2", "--size=64", "--epochs=2", "--batch=8", "--freeze=0.5")


@pytest.mark.parametrize(
    ("dataset", "name", "published"),
    [
        ("mnist", "cnn", 431_080),
        ("mnist", "lenet", 61_706),
        ("mnist", "mobilenetv2", 2_236_682),
        ("mnist", "resnet50", 23_528_522),
        ("patchcamelyon", "mobilenetv2", 2_226_434),
        ("patchcamelyon", "cnn", 11_053_072),
        ("patchcamelyon", "lenet", 942_606),
        ("imdb", "text", 160_306),
    ],
)
def test_networks_have_their_weights_and_take_what_they_are_shown(dataset: str, name: str, published: int) -> None:
    of = DATASETS[dataset]
    shape = {"mnist": (4, 28, 28), "patchcamelyon": (4, 96, 96, 3), "imdb": (4, 250)}[dataset]
    network = of.network(name, small=False, groups=1).eval()
    assert training.size(network) == published
    with torch.no_grad():
        assert network(of.showing(name)(torch.zeros(shape, dtype=torch.uint8))).shape == (4, of.classes)


def test_a_digit_gets_a_border_and_three_colours_for_large_networks() -> None:
    digit = torch.randint(0, 256, (2, 28, 28), dtype=torch.uint8)
    shown = DATASETS["mnist"].showing("resnet50")(digit)
    assert shown.shape == (2, 3, 32, 32) and shown[:, :, :2].unique().tolist() == [-1.0]
    for colour in range(3):
        torch.testing.assert_close(shown[:, colour, 2:30, 2:30], digit / 127.5 - 1)
    (picture,) = DATASETS["patchcamelyon"].showing("cnn")(
        torch.tensor([0, 255, 0], dtype=torch.uint8).expand(1, 96, 96, 3)
    )
    assert picture[:, 5, 7].tolist() == [-1.0, 1.0, -1.0]


def part(world: int = 1, **given: Any) -> Part:
    """The first rank, which has loaded its rows."""
    schedule = {"epochs": 1, "batch": 8, "learning_rate": 0.05, "scale_batch": None, "seed": 1, "accumulate": 1}
    kept = {"checkpoint": None, "checkpoint_every": 0, "norm_groups": 1, "take": 0, "stem": "large", "weights": None}
    rows = {"dataset": "patchcamelyon", "data": "generated", "size": 16, "model": "mobilenetv2", "freeze": 0.0}
    way = {"parallel": "sync", "staleness": 0, "microbatches": 1}
    made = Part(Options(**{**schedule, **kept, **rows, **way, **given}), Ranks(0, world))
    made.load(None)
    return made


def test_frozen_layers_stay_as_a_file_has_them_and_others_learn(tmp_path: Path) -> None:
    file = tmp_path / "weights.pt"
    given = DATASETS["mnist"].network("mobilenetv2", small=False, groups=1)
    for name, value in given.state_dict().items():
        if "running_var" in name:
            value.mul_(0.9)
    torch.save(given.state_dict(), file)
    checkpoint = tmp_path / "after.pt"
    tuned = part(freeze=0.5, weights=str(file), checkpoint=str(checkpoint), checkpoint_every=1)
    tuned.compute()
    after = torch.load(checkpoint, weights_only=True)["model"]
    first = set(tuning.layers(given)[:52])
    still = {
        f"{name}.{key}" for name, module in given.named_modules() if module in first for key in module.state_dict()
    }
    changed = {name for name, value in given.state_dict().items() if not torch.equal(value, after[name])}
    assert len(still) == 26 + 26 * 5
    assert not still & changed
    assert {name for name in after if name not in still and "classifier" not in name} <= changed
    answer = tuned.answer()["answer"]
    assert answer["weights_from"] == f"{file}, the last layer random", "ten classes in the file, two here"
    assert (answer["layers"], answer["frozen_layers"], answer["synthetic"]) == (105, 52, True)


def test_more_ranks_than_rows_are_refused() -> None:
    made = part(2, dataset="imdb", model="text", size=1)
    with pytest.raises(BadInput, match="2 ranks for 1 rows to train on"):
        made.compute()


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """The text model on two torch ranks."""
    return of_torch(TEXT, tmp_path_factory.mktemp("two"))


def of_torch(words: tuple[str, ...], folder: Path) -> Ended:
    """A training on two torch ranks, with a thread each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        runs = ranks(words, 2, TMPDIR=str(folder))
    assert [run.status for run in runs] == [0, 0], runs[0].err + runs[1].err
    return runs[0]


def test_texts_are_learned_by_ranks_and_alone(two: Ended) -> None:
    assert two.answer["accuracy"] > 0.8 and two.answer["weights_from"] == "random"
    alone = python(*TEXT, "--batch=32")
    assert [event["name"] for event in alone.of("phase")][:2] == ["read", "load"]
    assert alone.answer["losses"] == pytest.approx(two.answer["losses"], abs=0.001)
    assert alone.answer["weights"] == pytest.approx(two.answer["weights"], abs=0.01)


@pytest.mark.whole  # as cifar's: test_cifar.py
@pytest.mark.parametrize("words", [CNN, MOBILENET, TEXT], ids=["cnn", "mobilenetv2", "text"])
def test_ray_train_gives_the_same_weights_to_the_bit(
    words: tuple[str, ...], tmp_path: Path, ray_cluster: dict[str, str]
) -> None:
    first = of_torch(words, tmp_path)
    run = python(*words, "--framework=ray", **ray_cluster, REGATTA_WORKERS="2", REGATTA_SCRATCH=str(tmp_path / "ray"))
    assert run.status == 0, run.err
    assert weights(run) == weights(first)
    assert run.answer == first.answer


@pytest.mark.whole
def test_groups_with_frozen_layers_learn_what_two_ranks_do() -> None:
    """In float64: in float32 rounding grows with each step where the last layers normalise eight values."""
    whole, *apart = (tuned(groups) for groups in (2, 1, 1))
    steps = [torch.optim.SGD(filter(requires_grad, one.parameters()), lr=0.01) for one in (whole, *apart)]
    random = torch.Generator().manual_seed(1)
    for _ in range(3):
        rows = torch.randint(0, 256, (16, 28, 28), dtype=torch.uint8, generator=random)
        classes = torch.randint(0, 10, (16,), generator=random)
        pictures = DATASETS["mnist"].showing("mobilenetv2")(rows).double()
        alone = cross_entropy(whole(pictures), classes)
        ranks = [cross_entropy(one(pictures[rank::2]), classes[rank::2]) for rank, one in enumerate(apart)]
        assert float(alone.detach()) == pytest.approx(float(sum(ranks).detach()) / 2, abs=1e-9)
        for step in steps:
            step.zero_grad()
        alone.backward()
        sum(ranks).backward()
        for first, second in zip(*(filter(requires_grad, one.parameters()) for one in apart), strict=True):
            first.grad = (first.grad + second.grad) / 2
            second.grad = first.grad.clone()
        for step in steps:
            step.step()


def tuned(groups: int) -> nn.Module:
    """MobileNetV2 in float64, half of it frozen."""
    torch.manual_seed(5)
    made = DATASETS["mnist"].network("mobilenetv2", small=False, groups=groups)
    tuning.freeze(made, 0.5)
    return made.train().double()


def requires_grad(weight: Tensor) -> bool:
    """Whether a weight learns."""
    return weight.requires_grad


@pytest.mark.whole
def test_real_digits_of_mnist_are_learned(mnist: Path) -> None:
    run = python(*IMAGES, f"--data={mnist}", "--epochs=2", "--test-every=1")
    assert run.answer["accuracy"] > 0.9 and run.answer["synthetic"] is False
    assert [event["done"] for event in run.of("progress") if event["what"] == "accuracy"] == [1, 2]


@pytest.mark.whole
def test_a_tuning_goes_on_from_its_checkpoint_with_as_many_layers(tmp_path: Path) -> None:
    checkpoint = (f"--checkpoint={tmp_path / 'kept.pt'}", "--checkpoint-every=1", "--freeze=0.5")
    whole = python(*CNN, "--freeze=0.5")
    assert python(*CNN, *checkpoint, "--epochs=1").status == 0
    assert weights(python(*CNN, *checkpoint)) == weights(whole)
    other = python(*CNN, *checkpoint[:2])
    assert other.status == 2 and "optimizer is SGD of 4 of 8 weights, here SGD" in other.of("error")[0]["message"]
