"""PatchCamelyon (B. S. Veeling et al., 2018): pictures of 96 x 96 in three colours and two classes, in HDF5 files as
published, read by ranges; or synthetic ones of that shape."""

from __future__ import annotations

import contextlib
import fnmatch
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from workloads.common import events, storage
from workloads.common.events import BadInput
from workloads.common.storage import packed
from workloads.images import tissue
from workloads.images.rows import GENERATED, HELD_OUT, Room

SIDE, COLOURS, CLASSES = tissue.SIDE, tissue.COLOURS, 2
FILES = "camelyonpatch_level_2_split_{split}_{what}.h5"
SPLITS = {"train": "", "test": "test_"}
"""The parts that are read, and how the arrays of a room begin; the split `valid` is not."""
NOTE = "synthetic.txt"
MAGIC = b"\x89HDF\r\n\x1a\n"
BLOCK = 512
"""Pictures that are read at once: 14 MB."""
LACKING = "the Python package h5py is missing on this host; it comes with the run: --with h5py, and no --no-environment"


def fill(room: Room, data: str, size: int, seed: int, take: int) -> None:
    """Put pictures, uint8 (n, 96, 96, 3), into a room: a folder's, at most `take`, or ``generated``: `size`.

    Raises :class:`BadInput` where a file is missing, damaged, or has other things than published.
    """
    if data == GENERATED:
        room.made_up()
        tissue.drawn(room, "", size, seed)
        tissue.drawn(room, "test_", max(size // HELD_OUT, 1), seed + tissue.TEST_SEED_STEP)
        return
    files = data.split(",") if "," in data else storage.listing(data)
    if any(_name(file).startswith(NOTE) for file in files):
        room.made_up()
    for split, prefix in SPLITS.items():
        pictures, labels = (_one(data, files, FILES.format(split=split, what=what)) for what in "xy")
        _read(room, prefix, pictures, labels, take)


def _one(data: str, files: list[str], name: str) -> str:
    found = [file for file in files if fnmatch.fnmatch(_name(file).removesuffix(".gz"), name)]
    if len(found) != 1:
        names = ", ".join(sorted(map(_name, files))) or "none"
        raise BadInput(f"{data}: needs one file {name}, .gz or not; has {names}")
    return found[0]


def _name(file: str) -> str:
    return file.rpartition("/")[2]


def _read(room: Room, prefix: str, pictures: str, labels: str, take: int) -> None:
    with _array(room, pictures, "x") as found:
        if found.shape[1:] != (SIDE, SIDE, COLOURS) or found.dtype != np.uint8:
            raise BadInput(
                f"{pictures}: x is {found.dtype} of {_shape(found)}; expected uint8 of n x {SIDE} x {SIDE} x {COLOURS}"
            )
        count = len(found)
        most = min(count, take or count)
        if not most:
            raise BadInput(f"{pictures}: no pictures: download it again")
        kept = room.array(f"{prefix}inputs", (most, SIDE, SIDE, COLOURS))
        for first in range(0, most, BLOCK):
            kept[first : first + BLOCK] = found[first : min(first + BLOCK, most)]
            events.progress(f"{prefix}pictures read".replace("_", " "), min(first + BLOCK, most), most)
    with _array(room, labels, "y") as found:
        if len(found) != count or int(np.prod(found.shape)) != count:
            raise BadInput(f"{labels}: y is {_shape(found)} for {count:,} pictures; expected n, or n x 1 x 1 x 1")
        classes = np.asarray(found[:most]).reshape(most)
    wrong = np.flatnonzero((classes != 0) & (classes != 1))
    if len(wrong):
        raise BadInput(f"{labels}: picture {wrong[0] + 1:,} is of class {classes[wrong[0]]}; expected 0 or 1")
    room.array(f"{prefix}labels", (most,))[:] = classes


@contextlib.contextmanager
def _array(room: Room, file: str, key: str) -> Iterator[Any]:
    """The data set of a name in an HDF5 file; what is read of it is read from where it is, by ranges.

    A file that is packed is unpacked first, next to what is made of it.
    """
    try:
        import h5py
    except ImportError:
        raise BadInput(f"{file}: {LACKING}") from None
    try:
        with packed.damaged_said(file), _seekable(room, file) as plain:
            first = plain.read(len(MAGIC))
            if first != MAGIC:
                raise BadInput(
                    f"{file}: not an HDF5 file: it begins with {first.hex(' ') or 'nothing'}; download it again"
                )
            plain.seek(0)
            with h5py.File(plain, "r") as opened:
                found = opened.get(key)
                # A data set may name other files of the host as its content.
                own = isinstance(opened.get(key, getlink=True), h5py.HardLink) if found is not None else False
                if not own or not isinstance(found, h5py.Dataset) or found.external or found.is_virtual:
                    names = ", ".join(opened) or "none"
                    raise BadInput(f"{file}: needs a data set {key} in this file; it has {names}")
                if not found.shape:
                    raise BadInput(f"{file}: {key} is one value; expected one for each picture")
                yield found
    except (RuntimeError, KeyError, ValueError) as error:
        raise BadInput(f"{file}: damaged HDF5 file; copy it again ({error})") from error


@contextlib.contextmanager
def _seekable(room: Room, file: str) -> Iterator[BinaryIO]:
    with contextlib.ExitStack() as stack:
        with storage.open(file) as plain:
            kind = plain.read(len(MAGIC))
            if not kind.startswith((packed.GZIP, packed.ZSTD)):
                plain.seek(0)
                yield plain
                return
        beside: Path | None = room.folder
        unpacked = stack.enter_context(tempfile.TemporaryFile(dir=beside))
        stream, _ = stack.enter_context(packed.opened(file))
        shutil.copyfileobj(stream, unpacked, storage.BUFFER_BYTES)
        unpacked.seek(0)
        yield unpacked


def _shape(found: Any) -> str:
    return " x ".join(map(str, found.shape))
