"""CIFAR-10: its files, synthetic pictures, and one training under every framework."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from launching import PROJECT, Ended, python, ranks, weights
from numpy.typing import NDArray

from workloads.cifar import binary, generate, part, pictures
from workloads.common.events import BadInput
from workloads.common.ranks import Ranks

pytestmark = pytest.mark.frameworks

CIFAR = ("-m", "workloads.cifar", "--stem=large", "--seed=5", "--batch=8", "--learning-rate=0.002")
SMALL = (*CIFAR, "--size=64", "--epochs=2")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files as CIFAR's, one of them compressed."""
    made, drawn = tmp_path_factory.mktemp("cifar"), pictures.generated(20, 1)
    (made / "data_batch_1.bin").write_bytes(binary.written(drawn.pixels[:12], drawn.labels[:12]))
    (made / "data_batch_2.bin.gz").write_bytes(gzip.compress(binary.written(drawn.pixels[12:], drawn.labels[12:])))
    (made / "test_batch.bin").write_bytes(binary.written(drawn.test_pixels, drawn.test_labels))
    (made / "batches.meta.txt").write_text("airplane\n")
    return made


def test_files_there_and_back(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    read, drawn = pictures.from_files(str(folder)), pictures.generated(20, 1)
    for name in ("pixels", "labels", "test_pixels", "test_labels"):
        np.testing.assert_array_equal(getattr(read, name), getattr(drawn, name))
    assert drawn.synthetic and not read.synthetic
    assert "data_batch_2.bin.gz has 8 pictures; as published it has 10,000" in capfd.readouterr().out
    by_name = pictures.from_files(",".join(map(str, sorted(folder.iterdir(), reverse=True))))
    np.testing.assert_array_equal(by_name.pixels, drawn.pixels)


def test_the_first_byte_is_the_class_and_red_comes_first(tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(bytes([7]) + bytes([1]) * 1024 + bytes([2]) * 1024 + bytes([3]) * 1023 + b"\4")
    pixels, labels = binary.read(tmp_path / "x.bin")
    assert labels.tolist() == [7]
    assert pixels[0, :, 0, 0].tolist() == [1, 2, 3] and pixels[0, 2, 31, 31] == 4


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "0 bytes are 0 pictures and 0 bytes more; expected whole pictures of 3,073 bytes"),
        (b"\1" * 7000, "7,000 bytes are 2 pictures and 854 bytes more; .* 10,000 of them in 30,730,000 bytes"),
        (b"\0" * 3073 + b"\13" * 3073, "picture 2 is of class 11; expected 0 to 9"),
        (gzip.compress(b"\1" * 3073)[:-6], "damaged or truncated gzip"),
    ],
)
def test_what_is_no_file_of_cifar(folder: Path, tmp_path: Path, content: bytes, said: str) -> None:
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "data_batch_3.bin").write_bytes(content)
    with pytest.raises(BadInput, match=f"data_batch_3.bin: {said}"):
        pictures.from_files(str(tmp_path))


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="/nowhere"):
        pictures.from_files("/nowhere")
    (tmp_path / "data_batch_1.bin").touch()
    with pytest.raises(BadInput, match=r"needs files data_batch_\*.bin and one test_batch.bin, .* has data_"):
        pictures.from_files(str(tmp_path))


def test_a_generated_folder_says_that_it_is_made_up(tmp_path: Path) -> None:
    for name, words in (("data_batch_1.bin", []), ("test_batch.bin", []), (generate.NOTE, ["--part=note"])):
        command = [sys.executable, "-m", "workloads.cifar.generate", "--size=30", *words]
        (tmp_path / name).write_bytes(subprocess.run(command, cwd=PROJECT, capture_output=True, check=True).stdout)
    assert "not CIFAR-10" in (tmp_path / generate.NOTE).read_text()
    read = pictures.from_files(str(tmp_path))
    assert read.synthetic and len(read.labels) == 30


def test_generated_pictures_depend_on_the_seed_alone() -> None:
    one, same, other = (pictures.generated(300, seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one.pixels, same.pixels)
    assert (one.pixels != other.pixels).any() and (one.pixels[:60] != one.test_pixels).any()
    assert one.pixels.shape == (300, 3, 32, 32) and set(one.labels.tolist()) == set(range(10))


def test_pictures_are_the_same_however_many_are_drawn_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    in_blocks = pictures.generated(150, 3)
    monkeypatch.setattr(generate, "_AT_ONCE", 1000)
    np.testing.assert_array_equal(in_blocks.pixels, pictures.generated(150, 3).pixels)


def test_generated_pictures_can_be_told_apart_wherever_their_pattern_lies() -> None:
    drawn = pictures.generated(600, 2)

    def seen(pixels: NDArray[np.uint8]) -> NDArray[np.float64]:
        return np.abs(np.fft.fft2(pixels)[:, :, :4, :4]).reshape(len(pixels), -1)[:, 1:]

    known, asked = seen(drawn.pixels), seen(drawn.test_pixels)
    means = np.array([known[drawn.labels == label].mean(0) for label in range(10)])
    nearest = np.abs(asked[:, None] - means).sum(2).argmin(1)
    assert (nearest == drawn.test_labels).mean() > 0.9


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """The training on two torch ranks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        runs = ranks(SMALL, 2, TMPDIR=str(tmp_path_factory.mktemp("two")))
    assert [run.status for run in runs] == [0, 0], runs[0].err + runs[1].err
    return runs[0]


def test_the_answer_says_what_was_trained_on(two: Ended) -> None:
    assert (two.answer["pictures"], two.answer["tests"], two.answer["synthetic"]) == (64, 12, True)
    assert two.answer["parameters"] == 11_181_642


def test_ray_train_gives_the_same_weights_to_the_bit(two: Ended, tmp_path: Path, ray_cluster: dict[str, str]) -> None:
    run = python(*SMALL, "--framework=ray", **ray_cluster, REGATTA_WORKERS="2", REGATTA_SCRATCH=str(tmp_path))
    assert run.status == 0, run.err
    assert weights(run) == weights(two)
    assert run.answer == two.answer


def test_one_process_that_normalises_as_the_ranks_do_learns_the_same(two: Ended) -> None:
    alone = python(*SMALL, "--batch=16", "--norm-groups=2")
    assert alone.answer["losses"] == pytest.approx(two.answer["losses"], abs=0.02)
    assert alone.answer["weights"] == pytest.approx(two.answer["weights"], abs=0.1)
    otherwise = python(*SMALL, "--batch=16")
    assert abs(otherwise.answer["losses"][0] - two.answer["losses"][0]) > abs(
        alone.answer["losses"][0] - two.answer["losses"][0]
    )


@pytest.mark.whole  # as digits do: test_digits.py
def test_a_run_that_goes_on_ends_with_the_same_weights(two: Ended, tmp_path: Path) -> None:
    checkpoint = (f"--checkpoint={tmp_path / 'saved.pt'}", "--checkpoint-every=1")
    first = ranks([*SMALL, "--epochs=1", *checkpoint], 2, TMPDIR=str(tmp_path))
    assert [run.status for run in first] == [0, 0], first[0].err
    second = ranks([*SMALL, *checkpoint], 2, TMPDIR=str(tmp_path))
    assert weights(second[0]) == weights(two)
    assert len(second[0].of("progress", 0)) == 1, "the first epoch was done again"
    other = python(*SMALL, "--model=mobilenetv2", *checkpoint)
    assert other.status == 2
    assert "the checkpoint of another run: weights is" in json.dumps(other.of("error"))


def test_fewer_ranks_normalise_in_more_groups() -> None:
    def asked(elastic: int, groups: int) -> part.Options:
        schedule = (1, 8, 0.1, None, 0, None, 0, 1)
        return part.Options(*schedule, "generated", 1, "resnet18", "small", 0.0, groups, elastic=elastic)

    assert [part.groups(asked(4, 1), Ranks(0, world)) for world in (1, 2, 4, 8)] == [4, 2, 1, 1]
    assert part.groups(asked(0, 3), Ranks(0, 1)) == 3
