"""The same networks in TensorFlow and in torch: their sizes, their rows, and one answer within the tolerance."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from launching import PROJECT, Ended, ended, free_port, python, ranks, start, weights

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import locked

from workloads.common.events import BadInput
from workloads.common.ranks import Ranks
from workloads.digits import idx
from workloads.tf_digits import networks, part, rows, with_torch

pytestmark = pytest.mark.frameworks

MODULE = ("-m", "workloads.tf_digits")
SMALL = (*MODULE, "--data=handwritten", "--epochs=2", "--seed=3")


@pytest.fixture(scope="module")
def layer() -> dict[str, str]:
    """Variables with which TensorFlow is found, as the lock of layers has it."""
    return {"PYTHONPATH": f"{PROJECT}:{locked.packages('layers')}"}


def of_tensorflow(arguments: tuple[str, ...], world: int, layer: dict[str, str], tmp_path: Path) -> list[Ended]:
    """Ranks as the adapter starts them."""
    places = [f"127.0.0.1:{free_port()}" for _ in range(world)]

    def variables(rank: int) -> dict[str, str]:
        config = {"cluster": {"worker": places}, "task": {"type": "worker", "index": rank}}
        who = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world}
        own = {"TF_CONFIG": json.dumps(config), "REGATTA_SCRATCH": str(tmp_path)}
        return {**layer, **own, **{name: str(value) for name, value in who.items()}}

    started = [start((*arguments, "--framework=tensorflow"), variables(rank)) for rank in range(world)]
    return [ended(process, 300) for process in started]


def close(one: Ended, other: Ended) -> bool:
    """Whether two answers agree as the workload says that they must."""
    (told,) = one.of("result")
    assert one.answer.keys() == other.answer.keys()
    for name, value in one.answer.items():
        if name in told["tolerance"]:
            np.testing.assert_allclose(value, other.answer[name], rtol=0, atol=told["tolerance"][name])
        else:
            assert value == other.answer[name], name
    return True


@pytest.mark.parametrize(("name", "size"), [("digits", 44_426), ("pictures", 420_802)])
def test_the_networks_have_as_many_weights_as_published(name: str, size: int) -> None:
    network = networks.NETWORKS[name]
    drawn = network.drawn(1)
    assert networks.size(drawn) == size
    shapes = [tuple(one.shape) for one in with_torch.module(network).parameters()]
    assert shapes == [one.shape for one in drawn]
    assert networks.checksum(drawn) == networks.checksum(network.drawn(1)) != networks.checksum(network.drawn(2))


def test_ranks_share_out_the_rows_that_one_process_takes() -> None:
    alone = rows.order(20, 4, 7, Ranks())
    shares = [rows.order(20, 4, 7, Ranks(rank, 3)) for rank in range(3)]
    assert [len(share) for share in shares] == [6, 6, 6]
    assert np.array_equal(np.stack(shares, 1).ravel(), alone[:18])
    assert sorted(alone) == [*range(20)] and not np.array_equal(alone, rows.order(20, 5, 7, Ranks()))


def test_pictures_depend_on_the_seed_alone_and_can_be_told_apart() -> None:
    pixels, labels = rows.drawn(24, 5)
    again, other = rows.drawn(24, 5), rows.drawn(24, 6)
    assert pixels.shape == (24, 224, 224, 3) and set(labels.tolist()) == {0, 1}
    assert np.array_equal(pixels, again[0]) and not np.array_equal(pixels, other[0])
    upright = pixels.mean((1, 3)).std(1) > pixels.mean((2, 3)).std(1)
    assert np.array_equal(upright, labels == 1)


def test_what_cannot_be_trained_on(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="only synthetic pictures: leave out --data mnist"):
        rows.made("pictures", "mnist", 1, 0)
    for name, count in (("train", 40), ("t10k", 10)):
        idx.write(tmp_path / f"{name}-images-idx3-ubyte", np.zeros((count, 28, 28), np.uint8))
        idx.write(tmp_path / f"{name}-labels-idx1-ubyte", np.zeros(count, np.uint8))
    assert len(rows.made("digits", str(tmp_path), 1, 0).labels) == 40
    file = tmp_path / "train-images-idx3-ubyte"
    file.write_bytes(file.read_bytes()[:-5])
    refused = python(*MODULE, f"--data={tmp_path}", "--library=torch")
    assert refused.status == 2 and "the header says 40 x 28 x 28" in refused.of("error")[0]["message"]
    idx.write(file, np.zeros((40, 32, 32), np.uint8))
    refused = python(*MODULE, f"--data={tmp_path}", "--library=torch")
    assert refused.status == 2 and "32 x 32 pixels, not 28 x 28" in refused.of("error")[0]["message"]
    crowd = part.Part(part.Options("digits", "generated", 2, "torch", 1, 0.1, 0, 1), Ranks(0, 3))
    with pytest.raises(BadInput, match="3 ranks for 2 rows"):
        crowd.load(None)


def test_a_run_without_tensorflow_says_so() -> None:
    refused = python(*SMALL, "--framework=tensorflow")
    assert refused.status == 2 and "tensorflow-cpu" in refused.of("error")[0]["message"]


@pytest.fixture(scope="module")
def torch(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """The training on two torch ranks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setenv("PYTHONPATH", str(PROJECT))
        runs = ranks((*SMALL, "--framework=torch"), 2, TMPDIR=str(tmp_path_factory.mktemp("torch")))
    assert [run.status for run in runs] == [0, 0], runs[0].err + runs[1].err
    return runs[0]


@pytest.mark.whole  # as digits and cifar do
def test_ray_train_gives_the_weights_of_torch_to_the_bit(
    torch: Ended, tmp_path: Path, ray_cluster: dict[str, str]
) -> None:
    run = python(*SMALL, "--framework=ray", **ray_cluster, REGATTA_WORKERS="2", REGATTA_SCRATCH=str(tmp_path))
    assert run.status == 0, run.err
    assert weights(run) == weights(torch) and run.answer == torch.answer


def test_one_process_learns_the_same_from_as_many_rows_a_step(torch: Ended) -> None:
    assert close(python(*SMALL, "--batch=64", "--library=torch"), torch)


@pytest.mark.whole  # TensorFlow is brought, 600 MB
def test_tensorflow_learns_the_same_in_one_process_and_in_two_ranks(
    torch: Ended, tmp_path: Path, layer: dict[str, str]
) -> None:
    alone = python(*SMALL, "--batch=64", **layer)
    assert alone.status == 0, alone.err
    assert close(alone, torch)
    both = of_tensorflow(SMALL, 2, layer, tmp_path)
    assert [run.status for run in both] == [0, 0], both[0].err + both[1].err
    assert close(both[0], torch)
    assert not both[1].of("result") and len(both[1].of("ready")) == 1


@pytest.mark.whole  # the same
def test_the_trainer_of_ray_train_gives_the_weights_of_the_ranks_to_the_bit(
    tmp_path: Path, layer: dict[str, str], ray_cluster: dict[str, str]
) -> None:
    both = of_tensorflow(SMALL, 2, layer, tmp_path)
    given = {"REGATTA_WORKERS": "2", "REGATTA_SCRATCH": str(tmp_path), "REGATTA_PORTS": "29440-29449"}
    run = python(*SMALL, "--framework=ray-tensorflow", **ray_cluster, **layer, **given)
    assert run.status == 0, run.err
    assert weights(run) == weights(both[0]) and run.answer == both[0].answer


@pytest.mark.whole  # the same
def test_real_digits_of_mnist_have_one_answer_in_both_libraries(mnist: Path, layer: dict[str, str]) -> None:
    words = (*MODULE, f"--data={mnist}", "--epochs=1")
    alone = python(*words, "--library=torch")
    assert close(python(*words, **layer), alone)
    assert alone.answer["pictures"] == 4167 and not alone.answer["synthetic"]


@pytest.mark.whole  # the same
def test_large_pictures_have_one_answer_in_both_libraries(layer: dict[str, str]) -> None:
    words = (*MODULE, "--network=pictures", "--size=16", "--batch=4", "--epochs=1")
    assert close(python(*words, **layer), python(*words, "--library=torch"))


@pytest.mark.whole  # the same
def test_weights_are_the_same_in_both_layouts(layer: dict[str, str]) -> None:
    script = (
        "import numpy as np\nfrom workloads.tf_digits import networks, with_tensorflow as one\n"
        "for network in networks.NETWORKS.values():\n"
        "    for weight in network.drawn(0):\n"
        "        assert np.array_equal(one._ours(network, one._theirs(network, weight)), weight), weight.shape\n"
    )
    done = python("-c", script, **layer)
    assert done.status == 0, done.err
