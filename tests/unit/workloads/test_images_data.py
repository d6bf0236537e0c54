"""The data of the study: PatchCamelyon and IMDB as published, synthetic rows of their shape, weights of a file."""

from __future__ import annotations

import gzip
import io
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from workloads.common.events import BadInput
from workloads.digits import idx
from workloads.images import camelyon, generate, imdb, mnist, models, tuning
from workloads.images.rows import GENERATED, Room, Rows

h5py = pytest.importorskip("h5py")

X, Y = (camelyon.FILES.format(split="train", what=what) for what in "xy")


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Files of PatchCamelyon's shape: 20 pictures to train on, 3 to test."""
    generate.write(tmp_path, 20, 4)
    (tmp_path / camelyon.NOTE).unlink()
    return tmp_path


def filled(data: object, take: int = 0, fill: Callable[[Room, str, int, int, int], None] = camelyon.fill) -> Rows:
    """Return what is in files, in memory."""
    room = Room()
    fill(room, str(data), 20, 4, take)
    return room.rows()


def same(one: Rows, other: Rows) -> None:
    """The same rows."""
    for name, array in vars(one).items():
        np.testing.assert_array_equal(array, getattr(other, name), name)


def test_pictures_there_and_back_by_ranges_or_packed(pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    made = filled(GENERATED)
    assert made.synthetic and made.inputs.shape == (20, 96, 96, 3) and made.test_labels.shape == (3,)
    read = filled(pictures)
    assert not read.synthetic
    np.testing.assert_array_equal(read.inputs, made.inputs)
    np.testing.assert_array_equal(read.test_labels, made.test_labels)
    (pictures / f"{X}.gz").write_bytes(gzip.compress((pictures / X).read_bytes()))
    (pictures / X).unlink()
    (pictures / camelyon.NOTE).touch()
    folder = tmp_path_factory.mktemp("mapped")
    camelyon.fill(Room(folder), ",".join(map(str, pictures.iterdir())), 0, 0, 7)
    mapped = Rows.open(folder)
    assert mapped.synthetic and len(mapped.labels) == 7 and len(mapped.test_labels) == 3
    np.testing.assert_array_equal(mapped.inputs, made.inputs[:7])
    assert {path.suffix for path in folder.iterdir()} == {".npy", ""}, "what was unpacked is left"


def test_what_is_no_file_of_patchcamelyon(pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    whole = (pictures / X).read_bytes()

    def refused(said: str) -> None:
        with pytest.raises(BadInput, match=said):
            filled(pictures)

    for content, said in (
        (whole[:-1000], f"{X}: .*truncated"),
        (whole[:60], f"{X}: "),
        (b"PK\3\4", "not an HDF5 file: it begins with 50 4b 03 04"),
        (b"", "it begins with nothing"),
        (gzip.compress(whole)[:-9], "damaged or truncated gzip"),
    ):
        (pictures / X).write_bytes(content)
        refused(said)
    other = tmp_path_factory.mktemp("other") / "secret.h5"
    other.write_bytes(whole)
    tables: list[tuple[Callable[[h5py.File], object], str]] = [
        (lambda file: file.create_dataset("z", data=[1]), "needs a data set x in this file; it has z"),
        (lambda file: file.create_group("x"), "needs a data set x in this file; it has x"),
        (lambda file: file.__setitem__("x", h5py.ExternalLink(other, "x")), "needs a data set x in this file"),
        (
            lambda file: file.create_dataset("x", (1, 96, 96, 3), "u1", external=[(str(other), 0, 27648)]),
            "needs a data set x in this file",
        ),
        (lambda file: file.create_dataset("x", data=1), "x is one value"),
        (
            lambda file: file.create_dataset("x", data=np.zeros((2, 96, 96, 3))),
            "x is float64 of 2 x 96 x 96 x 3; expec",
        ),
        (lambda file: file.create_dataset("x", data=np.zeros((2, 9), np.uint8)), "x is uint8 of 2 x 9; expected"),
        (lambda file: file.create_dataset("x", shape=(0, 96, 96, 3), dtype="u1"), "no pictures"),
        (lambda file: file.create_dataset("x", shape=(2, 96, 96, 3), dtype="u1"), f"{Y}: y is 20 x 1 x 1 x 1 for 2 p"),
    ]
    for make, said in tables:
        with h5py.File(pictures / X, "w") as file:
            make(file)
        refused(said)
    (pictures / X).write_bytes(whole)
    with h5py.File(pictures / Y, "r+") as file:
        file["y"][3] = 2
    refused(f"{Y}: picture 4 is of class 2; expected 0 or 1")
    (pictures / Y).unlink()
    refused(rf"needs one file {Y}, .gz or not; has camelyon")


def test_a_host_without_h5py_says_so(pictures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(BadInput, match="h5py is missing on this host; it comes with the run"):
        filled(pictures)
    assert len(filled(GENERATED).labels) == 20


def test_made_up_classes_differ_in_the_middle_alone() -> None:
    room = Room()
    camelyon.fill(room, GENERATED, 400, 1, 0)
    made = room.rows()
    middle = made.inputs[:, 32:64, 32:64].mean((1, 2, 3))
    border = made.inputs[:, :32].mean((1, 2, 3))
    tumour = made.labels == 1
    assert ((middle < (middle[tumour].mean() + middle[~tumour].mean()) / 2) == tumour).mean() > 0.95
    assert abs(border[tumour].mean() - border[~tumour].mean()) < border.std()


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    """A folder as IMDB's."""
    for part in ("train", "test"):
        for side, words in (("pos", "Good, it's GOOD<br />film"), ("neg", "bad 2 film")):
            place = tmp_path / "aclImdb" / part / side
            place.mkdir(parents=True)
            for number in range(3):
                (place / f"{number}_7.txt").write_text(f"{words} {part}{number}")
        (tmp_path / "aclImdb" / part / "unsup").mkdir()
        (tmp_path / "aclImdb" / part / "unsup" / "0_0.txt").write_text("never read")
    return tmp_path


def packed(folder: Path, to: Path, *, without: str = "-") -> Path:
    """The archive of a folder."""
    with tarfile.open(to, "w:gz") as archive:
        archive.add(folder / "aclImdb", "aclImdb", filter=lambda one: None if without in one.name else one)
    return to


def test_reviews_become_numbers_of_their_first_words(reviews: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    read = filled(reviews, fill=imdb.fill)
    assert read.inputs.shape == (6, 250) and read.labels.tolist() == [0, 1] * 3 and not read.synthetic
    # Of equal words the first by the alphabet: film (6), good (6); 2 (3), bad (3), it's (3); train0 and others (2).
    film, good, two, bad, its, first = range(2, 8)
    assert read.inputs[:2, :6].tolist() == [[bad, two, film, first, 0, 0], [good, its, good, film, first, 0]]
    assert read.test_inputs[0, :5].tolist() == [bad, two, film, imdb.UNKNOWN, 0]
    archive = packed(reviews, tmp_path_factory.mktemp("archive") / "aclImdb_v1.tar.gz")
    same(filled(archive, fill=imdb.fill), read)
    same(filled(archive.parent, fill=imdb.fill), read)
    same(filled(reviews / "aclImdb", fill=imdb.fill), read)
    assert filled(archive, 3, imdb.fill).labels.tolist() == [0, 1, 0]


def test_what_is_no_folder_of_reviews(reviews: Path, tmp_path: Path) -> None:
    def refused(data: Path, said: str) -> None:
        with pytest.raises(BadInput, match=said):
            filled(data, fill=imdb.fill)

    archive = packed(reviews, tmp_path / "x.tar.gz", without="train/pos")
    refused(archive, r"x.tar.gz: has no reviews train/pos/\*.txt; expected train/pos, train/neg")
    archive.write_bytes(packed(reviews, archive).read_bytes()[:-40])
    refused(archive, "x.tar.gz: damaged or truncated")
    archive.write_bytes(b"no archive")
    refused(archive, "x.tar.gz: damaged or truncated archive")
    with tarfile.open(archive, "w") as file:
        large = tarfile.TarInfo("aclImdb/train/pos/1_1.txt")
        large.size = imdb.MOST_BYTES + 1
        file.addfile(large, io.BytesIO(bytes(large.size)))
    refused(archive, "has 1,048,577 bytes, and is no review")
    archive.unlink()
    for path in (reviews / "aclImdb/train/pos").iterdir():
        path.unlink()
    refused(reviews, r"has no reviews train/pos/\*.txt")
    (reviews / "aclImdb/train/pos").rmdir()
    refused(reviews / "aclImdb", r"has no reviews train/pos/\*.txt")
    refused(tmp_path / "nowhere", "nowhere")


def test_digits_of_a_folder_cut_short(tmp_path: Path) -> None:
    for part, count in (("train", 30), ("t10k", 5)):
        pixels, labels = np.full((count, 28, 28), 7, np.uint8), np.arange(count, dtype=np.uint8) % 10
        idx.write(tmp_path / f"{part}-images-idx3-ubyte", pixels)
        idx.write(tmp_path / f"{part}-labels-idx1-ubyte.gz", labels)
    read = filled(tmp_path, 4, mnist.fill)
    assert (len(read.labels), len(read.test_labels), read.synthetic) == (4, 4, False)
    file = tmp_path / "train-images-idx3-ubyte"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(
        BadInput, match=r"train-images-idx3-ubyte: the header says 30 x 28 x 28, .* but there are 23535"
    ):
        filled(tmp_path, 4, mnist.fill)


def network(classes: int = 10) -> nn.Sequential:
    return models.cnn(1, 28, classes)


def saved(tmp_path: Path, content: object) -> str:
    torch.save(content, tmp_path / "weights.pt")
    return str(tmp_path / "weights.pt")


def test_weights_of_a_file(tmp_path: Path) -> None:
    given, fresh = network(), network()
    for content in (given.state_dict(), {"model": given.state_dict(), "losses": [1.0]}):
        file = saved(tmp_path, content)
        assert tuning.take(fresh, tuning.read(file), file) == file
        assert all(torch.equal(value, fresh.state_dict()[name]) for name, value in given.state_dict().items())
    other = network(3)
    kept = other.state_dict()["9.weight"].clone()
    assert tuning.take(other, tuning.read(file), file) == f"{file}, the last layer random"
    assert torch.equal(other.state_dict()["9.weight"], kept)
    assert torch.equal(other.state_dict()["7.weight"], given.state_dict()["7.weight"])


def test_weights_that_do_not_fit(tmp_path: Path) -> None:
    def refused(content: object, said: str) -> None:
        file = saved(tmp_path, content)
        with pytest.raises(BadInput, match=said):
            tuning.take(network(), tuning.read(file), file)

    state = network().state_dict()
    lenet = models.lenet(1, 28, 10).state_dict()
    refused(
        lenet, "weights.pt: not the weights .* has too many: 11.weight, 11.bias; it has other shapes: 0.weight 6 x 1"
    )
    refused(
        {name: value for name, value in state.items() if "bias" not in name}, "lacks 0.bias, 3.bias, 7.bias and 1 m"
    )
    refused(
        {**state, "0.weight": state["0.weight"][:7]}, "has other shapes: 0.weight 7 x 1 x 5 x 5, not 20 x 1 x 5 x 5"
    )
    refused({**state, "9.weight": torch.zeros(10, 4)}, "9.weight 10 x 4, not 10 x 500")
    refused({**state, "more": torch.zeros(1)}, "has too many: more")
    refused({"losses": [1.0]}, "has no weights by name")
    refused([1, 2], "has no weights by name")
    refused({**state, "0.bias": torch.zeros(20).to_sparse()}, "has no weights by name")
    refused(network(), "not a file of weights")
    (tmp_path / "weights.pt").write_bytes(b"no weights")
    with pytest.raises(BadInput, match=r"weights.pt: not a file of weights .*; expected weights by name"):
        tuning.read(str(tmp_path / "weights.pt"))
    with pytest.raises(BadInput, match="/nowhere"):
        tuning.read("/nowhere")


def test_frozen_layers() -> None:
    made = models.of_pictures("mobilenetv2", 3, 32, 10)
    every = tuning.layers(made)
    assert (len(every), tuning.freeze(made, 0.5)) == (105, 52)
    assert [weight.requires_grad for layer in every for weight in layer.parameters()] == [False] * 78 + [True] * 80
    made.train()
    assert [layer.training for layer in every if isinstance(layer, nn.BatchNorm2d)] == [False] * 26 + [True] * 26
    assert tuning.freeze(network(), 0.999) == 3 and tuning.freeze(network(), 0.5) == 2
    with pytest.raises(BadInput, match="--freeze 1 leaves nothing to train"):
        tuning.freeze(network(), 1.0)
