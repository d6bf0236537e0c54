"""The study of deep learning over cores and nodes: its networks, its data, and one training under every framework."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from launching import Ended, python, ranks, weights

from workloads.common import training
from workloads.images import models

IMAGES = ("-m", "workloads.images", "--seed=5", "--batch=16")
SMALL = (*IMAGES, "--size=200", "--epochs=2")


@pytest.mark.parametrize(("name", "published"), [("cnn", 431_080), ("lenet", 61_706)])
def test_as_many_weights_as_published(name: str, published: int) -> None:
    with torch.device("meta"):
        network = models.make(name, 1, 28, 10)
        assert training.size(network) == published
        assert network(torch.empty(2, 1, 28, 28)).shape == (2, 10)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """The training on two torch ranks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        runs = ranks(SMALL, 2, TMPDIR=str(tmp_path_factory.mktemp("two")))
    assert [run.status for run in runs] == [0, 0], runs[0].err + runs[1].err
    return runs[0]


def test_ray_train_gives_the_same_weights_to_the_bit(two: Ended, tmp_path: Path, ray_cluster: dict[str, str]) -> None:
    run = python(*SMALL, "--framework=ray", **ray_cluster, REGATTA_WORKERS="2", REGATTA_SCRATCH=str(tmp_path))
    assert run.status == 0, run.err
    assert weights(run) == weights(two)
    assert run.answer == two.answer


def test_one_process_learns_what_the_ranks_do(two: Ended) -> None:
    alone = python(*SMALL, "--batch=32")
    assert alone.answer["losses"] == pytest.approx(two.answer["losses"], abs=0.001)
    assert alone.answer["weights"] == pytest.approx(two.answer["weights"], abs=0.001)
    assert (alone.answer["rows"], alone.answer["tests"], alone.answer["synthetic"]) == (200, 33, True)


def test_handwritten_digits_are_learned() -> None:
    run = python(*IMAGES, "--data=handwritten", "--epochs=4", "--model=cnn")
    assert run.answer["accuracy"] > 0.9 and run.answer["synthetic"] is False
