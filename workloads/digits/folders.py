"""Images of digits and letters as people have them on disk: IDX files, CSV, or folders of pictures by class.

The files of torchvision, Kaggle and the publishers of MNIST and EMNIST are known by their names: raw files next to
packed ones, several splits, labels from 1 on, EMNIST's pictures with rows for columns.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from workloads.common import storage
from workloads.common.events import BadInput
from workloads.common.storage import packed
from workloads.digits import idx

SIDE = 28
CLASSES = 10
HELD_OUT = 6
PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".gif")
_PACKED = (".gz", ".zst", ".bz2", ".xz", ".zip")
_LABELS = (b"label", b"class", b"y", b"target", b"digit")
_UNREAD = (".npz", ".npy", ".pkl", ".pkl.gz", ".mat", ".pt", ".parquet", ".arff", ".h5", ".hdf5")
_SPLIT = re.compile(r"emnist-(\w+)-(?:train|test)")
_PARTS = {"train": ("train", "training"), "test": ("test", "testing", "t10k", "val", "valid", "validation")}

Part = tuple[NDArray[np.uint8], NDArray[np.uint8]]
"""Pixels (n, 28, 28) and labels (n,)."""


@dataclass(frozen=True)
class Taken:
    """The data found: the images to train on and to test, how many `classes`, and what to say of it in a line."""

    train: Part
    test: Part
    classes: int
    said: str


def take(data: str, split: str | None = None) -> Taken:
    """The images of a folder, of this host or HDFS, or of files with commas between. `split`: of several the wanted.

    Raises :class:`BadInput` where a file is missing, images are not of 28 x 28 pixels, or labels do not fit them.
    """
    files = data.split(",") if "," in data else _listing(data)
    if any("idx3" in _name(file) for file in files):
        return _from_idx(data, files, split)
    if tables := [file for file in files if ".csv" in _name(file)]:
        return _from_tables(data, tables, split)
    if not storage.is_remote(data) and Path(data).is_dir() and (folder := _of_classes(Path(data))):
        return _from_pictures(folder)
    return _from_idx(data, files, split)


def _listing(data: str) -> list[str]:
    """The files of a folder; where it has none of images, those of the folders in it. Raises :class:`BadInput`."""
    if storage.is_remote(data):
        return storage.listing(data)
    if (file := Path(data)).is_file():
        unpack = ": unpack it, and give the folder" if file.suffix in (".zip", ".tar", ".gz", ".tgz") else ""
        raise BadInput(f"{data}: is a file, and a folder of images is meant{unpack}")
    files = [file for file in storage.listing(data) if Path(file).is_file()]
    if any("idx3" in _name(file) or ".csv" in _name(file) for file in files):
        return files
    patterns = ("*idx[13]*", "*.csv*")
    below = sorted(path for pattern in patterns for path in Path(data).rglob(pattern) if path.is_file())
    folders: dict[str, Path] = {}
    for path in below:
        if (other := folders.setdefault(path.name, path.parent)) != path.parent:
            raise BadInput(f"{data}: {other} and {path.parent} have a {path.name} each: give one of these folders")
    return [str(path) for path in below] or files


def _from_idx(data: str, files: Sequence[str], split: str | None) -> Taken:
    files = _of_split(data, _unpacked(files), split)
    test = "t10k" if any("t10k" in _name(file) for file in files) else "test"
    names = [
        [_one(data, files, f"*{part}*{kind}*") for kind in ("images*idx3", "labels*idx1")] for part in ("train", test)
    ]
    parts = [_pair(*pair) for pair in names]
    return _numbered(parts, [labels for _, labels in names], [images for images, _ in names])


def _pair(images: str, labels: str) -> Part:
    pixels, classes = idx.read(images, idx.IMAGE_DIMENSIONS), idx.read(labels, idx.LABEL_DIMENSIONS)
    if len(pixels) != len(classes):
        raise BadInput(
            f"{images} has {len(pixels)} images, {labels} has {len(classes)} labels: give two that go together"
        )
    if not len(pixels):
        raise BadInput(f"{images}: no images: give a file with some")
    if pixels.shape[1:] != (SIDE, SIDE):
        raise BadInput(
            f"{images}: images of {pixels.shape[1]} x {pixels.shape[2]} pixels, not {SIDE} x {SIDE}: scale them"
        )
    return pixels, classes


def _numbered(parts: Sequence[Part], labels: Sequence[str], images: Sequence[str]) -> Taken:
    """The parts with classes from 0 on, and upright; `labels`, `images`: their files. Raises BadInput."""
    (pixels, classes), (test_pixels, test_classes) = parts
    every = np.union1d(classes, test_classes)
    least, most = int(every[0]), int(every[-1])
    first = 1 if least == 1 and most >= CLASSES else 0
    missing = np.setdiff1d(test_classes, classes)
    if missing.size:
        place = int(np.argmax(np.isin(test_classes, missing)))
        raise BadInput(
            f"{labels[1]}: label {place} is {test_classes[place]}, which no label of {labels[0]} is: "
            "give the labels that belong to both"
        )
    number = max(CLASSES, most - first + 1)
    said = f"{_name(images[0])} and {_name(images[1])}"
    said += f", {number} classes" + (f", labels {least} to {most} from 0 on" if first else "")
    if all(_name(file).startswith("emnist") for file in images):
        pixels, test_pixels = (np.ascontiguousarray(part.transpose(0, 2, 1)) for part in (pixels, test_pixels))
        said += ", EMNIST's pictures turned upright"
    return Taken((pixels, classes - first), (test_pixels, test_classes - first), number, said)


def _unpacked(files: Sequence[str]) -> list[str]:
    """The files without those that are there unpacked, too, and each name once."""
    names = {_name(file) for file in files}
    chosen: dict[str, str] = {}
    for file in files:
        name = _name(file)
        if not any(name.endswith(end) and name.removesuffix(end) in names for end in _PACKED):
            chosen.setdefault(name, file)
    return list(chosen.values())


def _of_split(data: str, files: Sequence[str], split: str | None) -> list[str]:
    """The files of a split. Raises BadInput where there are several, and none is named, or it is not there."""
    splits = sorted({found[1] for file in files if (found := _SPLIT.match(_name(file)))})
    if split is None and len(splits) > 1:
        raise BadInput(f"{data}: has the splits {', '.join(splits)}: name one by --split")
    if split is not None and split not in splits:
        raise BadInput(f"{data}: has no split {split}: there is {', '.join(splits) or 'none with a name'}")
    wanted = split or (splits[0] if splits else None)
    others = [f"emnist-{name}-" for name in splits if name != wanted]
    return [file for file in files if not _name(file).startswith(tuple(others))]


def _one(data: str, files: Sequence[str], pattern: str) -> str:
    found = [file for file in files if fnmatch.fnmatch(_name(file), pattern)]
    if len(found) != 1:
        names = ", ".join(map(_name, found)) or f"none{_instead(files)}"
        raise BadInput(f"{data}: needs one file {pattern}, has {names}")
    return found[0]


def _instead(files: Sequence[str]) -> str:
    """Words for what a folder has that is not read."""
    other = [_name(file) for file in files if _name(file).endswith(_UNREAD)]
    return f"; {other[0]} is not read: IDX files, CSV and folders of pictures are" if other else ""


def _name(file: str) -> str:
    return file.rpartition("/")[2]


def _from_tables(data: str, files: Sequence[str], split: str | None) -> Taken:
    """CSV with a label and the 784 pixels a line; where no second file has labels, every sixth line is held out."""
    files = _of_split(data, _unpacked(files), split)
    train = files if len(files) == 1 else [file for file in files if "train" in _name(file)]
    if len(train) != 1:
        raise BadInput(f"{data}: needs one file *train*.csv, has {', '.join(map(_name, train)) or 'none'}")
    whole = _table(train[0])
    if whole is None:
        raise BadInput(f"{train[0]}: line 1: has no column of labels before {SIDE * SIDE} pixels: give one with labels")
    tests = [file for file in files if "test" in _name(file)]
    held_out = _table(tests[0]) if len(tests) == 1 else None
    if held_out is None:
        some = np.arange(len(whole[1])) % HELD_OUT == HELD_OUT - 1
        found = _numbered([(whole[0][~some], whole[1][~some]), (whole[0][some], whole[1][some])], train * 2, train * 2)
        why = f"{_name(tests[0])} has no labels" if tests else "there is no file *test*.csv"
        said = f"{_name(train[0])}, every sixth line held out ({why}), {found.classes} classes"
        return Taken(found.train, found.test, found.classes, said)
    return _numbered([whole, held_out], [train[0], tests[0]], [train[0], tests[0]])


def _table(path: str) -> Part | None:
    """The rows of a CSV; None where it has no labels. Raises BadInput."""
    import pyarrow as pa
    import pyarrow.csv

    text = packed.content(path)
    first = [name.strip(b'" ').lower() for name in text.partition(b"\n")[0].strip().split(b",")]
    header = not all(name.isdigit() for name in first)
    label = next((place for place, name in enumerate(first) if name in _LABELS), 0) if header else 0
    if len(first) == SIDE * SIDE:
        return None
    if len(first) != SIDE * SIDE + 1:
        raise BadInput(f"{path}: line 1: has {len(first)} columns: a label and {SIDE * SIDE} pixels are meant")
    names = [str(place) for place in range(len(first))]
    types = pa.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.uint8()), null_values=[])
    ways = pa.csv.ReadOptions(column_names=names, skip_rows=int(header), block_size=1 << 30)
    try:
        read = pa.csv.read_csv(pa.BufferReader(text), ways, convert_options=types)
    except pa.ArrowInvalid as error:
        raise BadInput(
            f"{path}: {str(error).splitlines()[0]}: a line is a label and {SIDE * SIDE} pixels, 0 to 255"
        ) from error
    values = np.stack([column.to_numpy() for column in read.columns], axis=1)
    pixels = np.delete(values, label, axis=1)
    return pixels.reshape(-1, SIDE, SIDE), np.ascontiguousarray(values[:, label])


def _of_classes(folder: Path) -> dict[str, Path] | None:
    """The folders of classes, by part; without parts the whole is `train`; None where there are no pictures."""
    inside = {path.name.lower(): path for path in sorted(folder.iterdir()) if path.is_dir()}
    parts = {part: inside[name] for part, names in _PARTS.items() for name in names[::-1] if name in inside}
    found = parts if "train" in parts else {"train": folder}
    has = any(
        file.suffix.lower() in PICTURES for one in found["train"].iterdir() if one.is_dir() for file in one.iterdir()
    )
    return found if has else None


def _from_pictures(folders: dict[str, Path]) -> Taken:
    """Folders of pictures by class; without a folder for tests, every sixth of each class is held out."""
    names = sorted((path.name for path in folders["train"].iterdir() if path.is_dir()), key=_in_order)
    if len(names) < 2:
        raise BadInput(f"{folders['train']}: has one class, {names[0]}: give a folder for each of several")
    train, held_out = _pictures(folders["train"], names), None
    said = f"{len(names)} folders of pictures ({', '.join(names[:3])}{', ...' if len(names) > 3 else ''})"
    if "test" in folders:
        others = sorted({path.name for path in folders["test"].iterdir() if path.is_dir()} - set(names))
        if others:
            raise BadInput(
                f"{folders['test']}: the class {others[0]} is not in {folders['train']}: leave it out, or add it"
            )
        held_out = _pictures(folders["test"], names)
        return Taken(train, held_out, len(names), said)
    counts = np.bincount(train[1], minlength=len(names))
    if (counts < 2).any():
        name = names[int(np.argmax(counts < 2))]
        raise BadInput(
            f"{folders['train'] / name}: one picture is too few to train and test: add some, or leave the class out"
        )
    place = np.concatenate([np.arange(count) % min(HELD_OUT, count) == min(HELD_OUT, count) - 1 for count in counts])
    parts = [(train[0][some], train[1][some]) for some in (~place, place)]
    return Taken(parts[0], parts[1], len(names), f"{said}, every sixth held out")


def _in_order(name: str) -> tuple[int, str]:
    return (int(name), "") if name.isdigit() else (1 << 30, name)


def _pictures(folder: Path, names: Sequence[str]) -> Part:
    """The pictures of some classes as grey pixels, and their labels. Raises BadInput."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise BadInput(f"{folder}: pictures need Pillow, which this Python lacks: run it with --with pillow") from None
    pixels, labels = [], []
    for label, name in enumerate(names):
        inside = folder / name
        files = sorted(inside.iterdir()) if inside.is_dir() else []
        for file in (file for file in files if file.suffix.lower() in PICTURES):
            try:
                with Image.open(file) as picture:
                    made = np.asarray(picture.convert("L"))
            except (UnidentifiedImageError, OSError) as error:
                raise BadInput(f"{file}: is no picture that can be read: leave it out ({error})") from error
            if made.shape != (SIDE, SIDE):
                size = f"{made.shape[1]} x {made.shape[0]}"
                raise BadInput(f"{file}: a picture of {size} pixels, not {SIDE} x {SIDE}: scale all to one size")
            pixels.append(made)
            labels.append(label)
    if not pixels:
        raise BadInput(f"{folder}: no pictures: give folders of {', '.join(PICTURES)}")
    return np.stack(pixels), np.array(labels, np.uint8)
