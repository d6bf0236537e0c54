"""Images as torchvision, Kaggle and the publishers of MNIST and EMNIST leave them on disk."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from launching import python
from PIL import Image

from workloads.common.events import BadInput
from workloads.digits import folders, idx, images

PIXELS = np.random.default_rng(1).integers(0, 256, (52, 28, 28), np.uint8)
LETTERS = (np.arange(52) % 26 + 1).astype(np.uint8)


def written(
    folder: Path, name: str, labels: np.ndarray, ends: tuple[str, ...] = ("", ".gz"), turned: bool = False
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    pixels = PIXELS[: len(labels)].transpose(0, 2, 1) if turned else PIXELS[: len(labels)]
    for end in ends:
        for part in ("train", "test" if turned else "t10k"):
            idx.write(folder / f"{name}{part}-images-idx3-ubyte{end}", pixels)
            idx.write(folder / f"{name}{part}-labels-idx1-ubyte{end}", labels)


def test_raw_files_beside_packed_ones_in_torchvisions_folders(tmp_path: Path) -> None:
    written(tmp_path / "MNIST" / "raw", "", LETTERS % 10)
    found = folders.take(str(tmp_path))
    np.testing.assert_array_equal(found.train[0], PIXELS)
    assert (found.classes, found.said) == (10, "train-images-idx3-ubyte and t10k-images-idx3-ubyte, 10 classes")


def test_letters_begin_at_one_and_are_turned(tmp_path: Path) -> None:
    written(tmp_path, "emnist-letters-", LETTERS, turned=True)
    found = folders.take(str(tmp_path))
    assert (found.classes, int(found.train[1].min()), int(found.train[1].max())) == (26, 0, 25)
    np.testing.assert_array_equal(found.test[0], PIXELS)
    assert "labels 1 to 26 from 0 on, EMNIST's pictures turned upright" in found.said
    with pytest.raises(BadInput, match="has 26 classes, and 10 are meant here"):
        images.of(str(tmp_path), 0, 0)


def test_one_of_several_splits(tmp_path: Path) -> None:
    written(tmp_path, "emnist-letters-", LETTERS, turned=True)
    written(tmp_path, "emnist-balanced-", np.arange(47, dtype=np.uint8), turned=True)
    with pytest.raises(BadInput, match="has the splits balanced, letters: name one by --split"):
        folders.take(str(tmp_path))
    with pytest.raises(BadInput, match="has no split digits: there is balanced, letters"):
        folders.take(str(tmp_path), "digits")
    assert folders.take(str(tmp_path), "balanced").classes == 47


def table(path: Path, labels: np.ndarray | None, header: bool) -> None:
    flat = PIXELS.reshape(52, -1)
    rows = flat if labels is None else np.column_stack([labels, flat])
    names = [*([] if labels is None else ["label"]), *(f"pixel{place}" for place in range(784))]
    text = [",".join(names)] * header + [",".join(map(str, row)) for row in rows.tolist()]
    path.write_text("\n".join(text) + "\n")


def test_tables_of_kaggle(tmp_path: Path) -> None:
    table(tmp_path / "train.csv", LETTERS % 10, header=True)
    table(tmp_path / "test.csv", None, header=True)
    found = folders.take(str(tmp_path))
    assert (len(found.train[1]), len(found.test[1])) == (44, 8)
    assert found.said == "train.csv, every sixth line held out (test.csv has no labels), 10 classes"
    np.testing.assert_array_equal(found.train[0][:5], PIXELS[:5])
    for name in ("train", "test"):
        (tmp_path / f"{name}.csv").unlink()
        table(tmp_path / f"emnist-letters-{name}.csv", LETTERS, header=False)
    found = folders.take(str(tmp_path))
    assert (found.classes, len(found.train[1])) == (26, 52)
    np.testing.assert_array_equal(found.train[0], PIXELS.transpose(0, 2, 1))


def test_the_label_is_the_column_that_the_header_says(tmp_path: Path) -> None:
    rows = np.column_stack([PIXELS.reshape(52, -1), LETTERS % 10])
    names = [*(f"pixel{place}" for place in range(1, 785)), '"class"']
    text = [",".join(names), *(",".join(map(str, row)) for row in rows.tolist())]
    (tmp_path / "mnist_784.csv").write_text("\n".join(text) + "\n")
    found = folders.take(str(tmp_path))
    np.testing.assert_array_equal(found.train[0][:5], PIXELS[:5])
    np.testing.assert_array_equal(found.train[1][:5], LETTERS[:5] % 10)


def test_files_in_folders_of_their_names(tmp_path: Path) -> None:
    for part in ("train", "t10k"):
        for kind, values in (("images-idx3", PIXELS), ("labels-idx1", LETTERS % 10)):
            name = f"{part}-{kind}-ubyte"
            (tmp_path / name).mkdir()
            idx.write(tmp_path / name / name, values)
    nested = folders.take(str(tmp_path))
    np.testing.assert_array_equal(nested.train[0], PIXELS)
    for path in [*tmp_path.glob("*/*")]:
        (tmp_path / path.name.replace("-idx", ".idx")).write_bytes(path.read_bytes())
    assert folders.take(str(tmp_path)).said == "train-images.idx3-ubyte and t10k-images.idx3-ubyte, 10 classes"


def test_what_is_no_folder_of_one_set(tmp_path: Path) -> None:
    for name in ("MNIST", "FashionMNIST"):
        written(tmp_path / name / "raw", "", LETTERS % 10, ends=("",))
    with pytest.raises(BadInput, match=r"/FashionMNIST/raw and .*/MNIST/raw have a .* each: give one"):
        folders.take(str(tmp_path))
    other = tmp_path / "other"
    other.mkdir()
    (other / "mnist.npz").write_bytes(b"")
    with pytest.raises(BadInput, match=r"has none; mnist.npz is not read: IDX files, CSV and folders"):
        folders.take(str(other))
    with pytest.raises(BadInput, match=r"mnist.npz: is a file, and a folder of images is meant"):
        folders.take(str(other / "mnist.npz"))


def pictures(folder: Path, classes: int, each: int) -> None:
    for number in range(classes):
        (folder / str(number)).mkdir(parents=True)
        for place in range(each):
            Image.fromarray(PIXELS[number * each + place]).save(folder / str(number) / f"{place}.png")


def test_folders_of_pictures_by_class(tmp_path: Path) -> None:
    pictures(tmp_path / "training", 3, 4)
    pictures(tmp_path / "testing", 3, 2)
    found = folders.take(str(tmp_path))
    assert (found.classes, len(found.train[1]), len(found.test[1])) == (3, 12, 6)
    np.testing.assert_array_equal(found.train[0], PIXELS[:12])
    held_out = folders.take(str(tmp_path / "training"))
    assert (len(held_out.train[1]), np.bincount(held_out.test[1]).tolist()) == (9, [1, 1, 1])
    assert held_out.said == "3 folders of pictures (0, 1, 2), every sixth held out"


def test_pictures_that_do_not_fit(tmp_path: Path) -> None:
    pictures(tmp_path, 2, 2)
    (tmp_path / "1" / "0.png").unlink()
    with pytest.raises(BadInput, match="/1: one picture is too few"):
        folders.take(str(tmp_path))
    Image.fromarray(PIXELS[0][:20]).save(tmp_path / "1" / "0.png")
    with pytest.raises(BadInput, match=r"1/0.png: a picture of 28 x 20 pixels, not 28 x 28: scale"):
        folders.take(str(tmp_path))
    (tmp_path / "1" / "0.png").write_bytes(b"no picture")
    with pytest.raises(BadInput, match=r"1/0.png: is no picture"):
        folders.take(str(tmp_path))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("label,pixel0\n1,2\n", "train.csv: line 1: has 2 columns"),
        (",".join(["1"] * 785) + "\n" + ",".join(["1"] * 700), "train.csv: .*a line is a label and 784 pixels"),
        (",".join(["1"] * 785) + "\n" + ",".join(["256"] * 785), "train.csv: .*a line is a label and 784 pixels"),
    ],
)
def test_tables_that_are_none(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "train.csv").write_text(text)
    with pytest.raises(BadInput, match=said):
        folders.take(str(tmp_path))
    (tmp_path / "train.csv.gz").write_bytes(gzip.compress(text.encode())[:-9])
    (tmp_path / "train.csv").unlink()
    with pytest.raises(BadInput, match="damaged or truncated gzip"):
        folders.take(str(tmp_path))


def test_letters_are_trained_and_what_was_taken_is_said(tmp_path: Path) -> None:
    written(tmp_path, "emnist-letters-", LETTERS, ("",), turned=True)
    for network in ("perceptron", "cnn"):
        run = python("-m", "workloads.digits", f"--data={tmp_path}", "--epochs=1", f"--model={network}")
        assert run.status == 0, run.err
        assert "digits: 52 images of emnist-letters-train-images-idx3-ubyte" in run.out
