"""Digits: the format, the images, and one training under every framework."""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from launching import PROJECT, Ended, python, ranks, weights

from workloads.common import training
from workloads.common.events import BadInput
from workloads.common.ranks import Ranks
from workloads.digits import idx, images, model, part

pytestmark = pytest.mark.frameworks

DIGITS = ("-m", "workloads.digits")
SMALL = ("--size=600", "--epochs=2", "--seed=5")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four IDX files, two of them compressed."""
    made = tmp_path_factory.mktemp("idx")
    drawn = images.generated(200, 1)
    idx.write(made / "emnist-digits-train-images-idx3-ubyte.gz", drawn.pixels.transpose(0, 2, 1))
    idx.write(made / "emnist-digits-train-labels-idx1-ubyte", drawn.labels)
    idx.write(made / "emnist-digits-test-images-idx3-ubyte.gz", drawn.test_pixels.transpose(0, 2, 1))
    idx.write(made / "emnist-digits-test-labels-idx1-ubyte", drawn.test_labels)
    return made


def test_idx_there_and_back(folder: Path) -> None:
    read, drawn = images.from_files(str(folder)), images.generated(200, 1)
    for name, array in vars(drawn).items():
        np.testing.assert_array_equal(getattr(read, name), array)
    by_name = images.from_files(",".join(str(path) for path in sorted(folder.iterdir())))
    np.testing.assert_array_equal(by_name.pixels, drawn.pixels)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "begins with nothing"),
        (b"PKxx....", "not an IDX file: it begins with 50 4b 78 78"),
        (b"PK\3\4....", "damaged or truncated zip"),
        (b"\0\0\x08\1\0\0\0\2ab", "is not that of images: 00 00 08 03 is"),
        (b"\0\0\x0d\3" + b"\0" * 12, "is not that of images"),
        (b"\0\0\x08\3\0\0", "ends within its header, after 6 bytes"),
        (b"\0\0\x08\3" + b"\0\0\0\2" * 3 + b"1234567", "says 2 x 2 x 2, so 24 bytes, but there are 23"),
        (gzip.compress(b"\0\0\x08\3" + b"\0\0\0\2" * 3 + b"12345678")[:-6], "damaged or truncated gzip"),
    ],
)
def test_what_is_not_idx(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "x-idx3"
    path.write_bytes(content)
    with pytest.raises(BadInput, match=said.replace("(", r"\(")):
        idx.read(path, idx.IMAGE_DIMENSIONS)


def test_files_that_do_not_fit_together(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="/nowhere"):
        images.from_files("/nowhere")
    with pytest.raises(BadInput, match=r"needs one file .*train.*images.*, has none"):
        images.from_files(str(tmp_path))
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    labels = tmp_path / "emnist-digits-train-labels-idx1-ubyte"
    idx.write(labels, np.zeros(199, np.uint8))
    with pytest.raises(BadInput, match=r"has 200 images, .* has 199 labels"):
        images.from_files(str(tmp_path))
    idx.write(labels, np.full(200, 11, np.uint8))
    with pytest.raises(BadInput, match=r"test-labels.*: label 0 is ., which no label of .* is"):
        images.from_files(str(tmp_path))


def test_generated_images_depend_on_the_seed_alone() -> None:
    one, same, other = images.generated(50, 3), images.generated(50, 3), images.generated(50, 4)
    np.testing.assert_array_equal(one.pixels, same.pixels)
    assert (one.pixels != other.pixels).any()
    assert one.pixels.shape == (50, 28, 28)
    assert 20 < one.pixels.mean() < 60


@pytest.mark.parametrize(("world", "epochs"), [(1, 1), (3, 1), (4, 2)])
def test_a_rank_alone_on_its_host_draws_what_it_is_shown(world: int, epochs: int) -> None:
    schedule = {"batch": 8, "learning_rate": 0.1, "scale_batch": None, "checkpoint": None, "checkpoint_every": 0}
    options = part.Options(epochs=epochs, seed=3, accumulate=1, data="generated", size=1201, model="cnn", **schedule)
    whole = images.generated(options.size, options.seed)
    drawn = 0
    for rank in range(world):
        one, place = part.Part(options, Ranks(rank, world, 0, 1)), Ranks(rank, world)
        one.load(None)
        own = one._found.images
        for epoch in range(epochs):
            rows = training.rows_of_rank(options.size, epoch, options.seed, place).numpy()
            np.testing.assert_array_equal(own.pixels[rows], whole.pixels[rows])
        tests = training.tests_of_rank(len(whole.test_labels), place).numpy()
        np.testing.assert_array_equal(own.test_pixels[tests], whole.test_pixels[tests])
        np.testing.assert_array_equal(own.labels, whole.labels)
        np.testing.assert_array_equal(own.test_labels, whole.test_labels)
        drawn += int(own.pixels.any(axis=(1, 2)).sum())
    assert options.size - world < drawn <= epochs * options.size


def test_handwritten_digits_are_learned() -> None:
    run = python(*DIGITS, "--data=handwritten", "--epochs=40", "--batch=16")
    assert run.status == 0, run.err
    assert (run.answer["images"], run.answer["tests"]) == (1498, 299)
    assert run.answer["accuracy"] >= 0.95
    assert run.answer["losses"][-1] < run.answer["losses"][0] / 5
    assert 0 < run.answer["test_loss"] < run.answer["losses"][0] / 5


def test_real_digits_of_mnist_are_learned(mnist: Path) -> None:
    run = python(*DIGITS, f"--data={mnist}", "--model=cnn", "--epochs=2", "--batch=32")
    assert run.status == 0, run.err
    assert (run.answer["images"], run.answer["tests"]) == (4167, 833)
    assert run.answer["accuracy"] >= 0.9


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """The training on two torch ranks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        runs = ranks([*DIGITS, *SMALL], 2, TMPDIR=str(tmp_path_factory.mktemp("two")))
    assert [run.status for run in runs] == [0, 0], runs[0].err + runs[1].err
    return runs[0]


@pytest.mark.whole  # on hosts: tests/lab/test_runs.py; here: test_cifar.py
def test_ray_train_gives_the_same_weights_to_the_bit(two: Ended, tmp_path: Path, ray_cluster: dict[str, str]) -> None:
    run = python(
        *DIGITS,
        *SMALL,
        "--framework=ray",
        **ray_cluster,
        REGATTA_WORKERS="2",
        REGATTA_SCRATCH=str(tmp_path),
    )
    assert run.status == 0, run.err
    assert weights(run) == weights(two)
    assert run.answer == two.answer
    assert {event["rank"] for event in run.of("ready")} == {-1, 0, 1}


@pytest.mark.whole  # its own Ray
def test_a_training_does_not_wait_for_a_dashboard_that_its_own_ray_has_not(tmp_path: Path) -> None:
    private = str(PROJECT / "regatta/frameworks/ray/run/private_ray.py")
    with tempfile.TemporaryDirectory(prefix="rt-") as short:  # sockets
        words = (private, "2", f"{short}/r", sys.executable, *DIGITS, *SMALL, "--framework=ray")
        run = python(*words, REGATTA_WORKERS="2", REGATTA_SCRATCH=str(tmp_path))
    assert run.status == 0, run.err
    assert run.of("result") and "PlacementGroupCleaner" not in run.out + run.err


def test_one_process_with_the_same_global_batch_learns_the_same(two: Ended) -> None:
    alone = python(*DIGITS, *SMALL, "--batch=128")
    assert alone.answer["losses"] == pytest.approx(two.answer["losses"], abs=1e-4)
    assert alone.answer["tests"] == two.answer["tests"]
    assert alone.answer["test_loss"] == pytest.approx(two.answer["test_loss"], abs=1e-4)


def test_a_model_that_is_tested_on_its_way_on_two_hosts_learns_the_same(two: Ended, tmp_path: Path) -> None:
    run, _ = ranks([*DIGITS, *SMALL, "--test-every=1"], 2, TMPDIR=str(tmp_path), LOCAL_WORLD_SIZE="1")
    assert weights(run) == weights(two)
    told = [event for event in run.of("progress", 0) if event["what"] == "accuracy"]
    assert [event["done"] for event in told] == [*range(1, len(run.answer["losses"]) + 1)]
    assert told[-1]["accuracy"] == run.answer["accuracy"]


def test_a_run_that_goes_on_ends_with_the_same_weights(two: Ended, tmp_path: Path) -> None:
    checkpoint = (f"--checkpoint={tmp_path / 'saved.pt'}", "--checkpoint-every=1")
    first = ranks([*DIGITS, "--size=600", "--epochs=1", "--seed=5", *checkpoint], 2, TMPDIR=str(tmp_path))
    assert [run.status for run in first] == [0, 0], first[0].err
    second = ranks([*DIGITS, *SMALL, *checkpoint], 2, TMPDIR=str(tmp_path))
    assert weights(second[0]) == weights(two)
    assert len(second[0].of("progress", 0)) == 1, "the first epoch was done again"
    other = python(*DIGITS, *SMALL, "--model=cnn", *checkpoint)
    assert other.status == 2
    assert "the checkpoint of another run: weights is" in json.dumps(other.of("error"))


def test_bad_arguments() -> None:
    for arguments, said in (
        (["--epochs=0"], "0 is less than 1"),
        (["--learning-rate=nan"], "not a positive number"),
        (["--checkpoint-every=1"], "needs --checkpoint FILE"),
        (["--model=resnet"], "invalid choice"),
    ):
        run = python(*DIGITS, *arguments)
        assert run.status == 2
        assert said in run.of("error")[0]["message"]


def test_more_ranks_than_rows() -> None:
    network = model.make("perceptron")
    schedule = training.Schedule(1, 4, 0.01, None, 0, None, 0, 1)
    work = training.Work(
        *(network, torch.optim.SGD(network.parameters()), torch.nn.functional.cross_entropy),
        *(lambda rows: (rows, rows), 1, schedule, Ranks(0, 2)),
    )
    with pytest.raises(BadInput, match="2 ranks for 1 rows"):
        training.fit(work)


def test_the_learning_rate_grows_with_the_batch_over_the_first_epoch() -> None:
    network = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.5)
    rates: list[float] = []

    def batch(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.zeros(len(rows), 1), torch.zeros(len(rows), 1)

    def loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        rates.append(optimizer.param_groups[0]["lr"])
        return torch.nn.functional.mse_loss(outputs, targets)

    for times, wanted in ((4, [0.875, 1.25, 1.625, 2.0]), (0, [0.5] * 4), (None, [0.5] * 4)):
        rates.clear()
        schedule = training.Schedule(2, 2, 0.5, times, 0, None, 0, 1)
        training.fit(training.Work(network, optimizer, loss, batch, 8, schedule, Ranks()))
        assert rates == [*wanted, *[wanted[-1]] * 4]
        optimizer.param_groups[0]["lr"] = 0.5


def test_accumulated_batches_teach_what_one_large_batch_does() -> None:
    taught = []
    exchanges = 0

    class Counting(torch.optim.SGD):
        def step(self, closure: None = None) -> None:  # type: ignore[override]
            nonlocal exchanges
            exchanges += 1
            super().step(closure)

    inputs = torch.randn(24, 3, generator=torch.Generator().manual_seed(1))
    targets = inputs.sum(1, keepdim=True)
    for size, accumulate in ((8, 1), (2, 4)):
        torch.manual_seed(0)
        network = torch.nn.Linear(3, 1)
        schedule = training.Schedule(2, size, 0.1, None, 0, None, 0, accumulate)
        optimizer = Counting(network.parameters(), lr=0.1)
        work = training.Work(
            *(network, optimizer, torch.nn.functional.mse_loss),
            *(lambda rows: (inputs[rows], targets[rows]), 24, schedule, Ranks()),
        )
        losses = training.fit(work)
        assert exchanges == 6
        exchanges = 0
        taught.append((network.weight.detach().clone(), losses))
    assert torch.allclose(taught[0][0], taught[1][0], atol=1e-6)
    assert taught[0][1] == pytest.approx(taught[1][1], rel=1e-5)


def test_a_rank_that_has_answered_does_not_fail_when_python_ends(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import atexit, os\natexit.register(os.abort)\n")
    runs = ranks([*DIGITS, "--size=200", "--epochs=1"], 2, TMPDIR=str(tmp_path), PYTHONPATH=str(tmp_path))
    assert [run.status for run in runs] == [0, 0], runs[0].err + runs[1].err
    assert runs[0].answer


def test_handwritten_digits_are_those_of_scikit_learn() -> None:
    from sklearn.datasets import load_digits

    theirs, ours = load_digits(), images.handwritten()
    held_out = np.arange(len(theirs.target)) % images.HELD_OUT == images.HELD_OUT - 1
    np.testing.assert_array_equal(ours.labels, theirs.target[~held_out])
    np.testing.assert_array_equal(ours.test_labels, theirs.target[held_out])
    np.testing.assert_array_equal(ours.pixels, images._enlarge(theirs.images[~held_out]))
