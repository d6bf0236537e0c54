"""IMDB's reviews as published (A. Maas et al., 2011): a folder ``aclImdb`` with a text file for each, or its archive;
or synthetic texts of that shape."""

from __future__ import annotations

import re
import tarfile
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, zip_longest

import numpy as np
from numpy.typing import NDArray

from workloads.common import events, storage
from workloads.common.events import BadInput
from workloads.common.storage import packed
from workloads.images.rows import GENERATED, HELD_OUT, Room

WORDS, LENGTH, CLASSES = 10_000, 250, 2
"""Distinct words, and words of a text that are read: its first ones."""
NOTHING, UNKNOWN, FIRST = 0, 1, 2
"""Numbers that are no word, a rare word, and the most frequent one."""
SIDES = ("neg", "pos")
"""Classes 0 and 1."""
PARTS = {"train": "", "test": "test_"}
ARCHIVES = (".tar.gz", ".tgz", ".tar")
MOST_BYTES = 1 << 20
"""Of a review: published ones have at most 14 KB."""
THREADS = 16
TOLD_EVERY = 2_000
LEANING, LEANS, OWN = 200, 0.1, 0.7
"""Of synthetic texts: words that lean to a class, their share of all words, and the share that leans to its own."""
_MEMBER = re.compile(r"(?:.*/)?(train|test)/(neg|pos)/([^/]+\.txt)")
_WORD = re.compile(r"[a-z0-9]+(?:'[a-z]+)?")

Texts = dict[tuple[str, str], list[str]]
"""Part and side -> its reviews, by the names of their files."""


def fill(room: Room, data: str, size: int, seed: int, take: int) -> None:
    """Put texts into a room, as numbers of their words, int32 (n, 250): at most `take` of a folder's or an archive's,
    or ``generated``: `size`. Raises :class:`BadInput` where something is missing or damaged."""
    if data == GENERATED:
        room.made_up()
        for prefix, count, own in (("", size, 0), ("test_", max(size // HELD_OUT, 1), 1)):
            room.put(prefix, *drawn(np.random.default_rng([seed, own]), count))
        return
    texts = read(data)
    vocabulary: dict[str, int] | None = None
    for part, prefix in PARTS.items():
        # One side after the other in turn, so that the first ones are of both.
        pairs = zip_longest(*([(text, label) for text in texts[part, side]] for label, side in enumerate(SIDES)))
        chosen = [pair for pair in chain.from_iterable(pairs) if pair is not None][: take or None]
        split = [_WORD.findall(text.lower().replace("<br />", " ")) for text, _ in chosen]
        vocabulary = vocabulary or numbered(split)
        labels = np.array([label for _, label in chosen], np.uint8)
        room.put(prefix, as_numbers(split, vocabulary), labels)


def numbered(texts: Iterable[Sequence[str]]) -> dict[str, int]:
    """The most frequent words by number, of equals the first by the alphabet."""
    counts = Counter(chain.from_iterable(texts))
    ordered = sorted(counts, key=lambda word: (-counts[word], word))
    return {word: number for number, word in enumerate(ordered[: WORDS - FIRST], FIRST)}


def as_numbers(texts: Sequence[Sequence[str]], vocabulary: dict[str, int]) -> NDArray[np.int32]:
    """The first words of each text, (texts, LENGTH); NOTHING where it has ended."""
    made = np.full((len(texts), LENGTH), NOTHING, np.int32)
    for row, words in zip(made, texts, strict=True):
        first = words[:LENGTH]
        row[: len(first)] = [vocabulary.get(word, UNKNOWN) for word in first]
    return made


def read(data: str) -> Texts:
    """All reviews of a folder or an archive. Raises :class:`BadInput` where a part or a side has none."""
    inside = [file for file in data.split(",") if file.endswith(ARCHIVES)]
    if not inside and "," not in data:
        inside = [file for file in storage.listing(data) if file.endswith(ARCHIVES)]
    found = _of_archive(inside[0]) if inside else _of_folder(data)
    for part in PARTS:
        for side in SIDES:
            if not found.get((part, side)):
                raise BadInput(
                    f"{inside[0] if inside else data}: has no reviews {part}/{side}/*.txt; expected "
                    "train/pos, train/neg, test/pos and test/neg, as in aclImdb_v1.tar.gz"
                )
    return found


def _of_archive(file: str) -> Texts:
    found: dict[tuple[str, str], list[tuple[str, str]]] = {}
    count = 0
    try:
        with packed.opened(file) as (stream, _), tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                named = _MEMBER.fullmatch(member.name)
                if not named or not member.isfile():
                    continue
                part, side, name = named.groups()
                if member.size > MOST_BYTES:
                    raise BadInput(f"{file}: {member.name} has {member.size:,} bytes, and is no review: remove it")
                content = archive.extractfile(member)
                assert content is not None
                found.setdefault((part, side), []).append((name, content.read().decode("utf-8", "replace")))
                count += 1
                if count % TOLD_EVERY == 0:
                    events.progress("reviews read", count, max(count, 50_000))
    except tarfile.TarError as error:
        raise BadInput(f"{file}: damaged or truncated archive; copy it again ({error})") from error
    return {place: [text for _, text in sorted(texts)] for place, texts in found.items()}


def _of_folder(data: str) -> Texts:
    if "," in data:
        raise BadInput(f"{data}: needs aclImdb_v1.tar.gz as published, or its folder in HDFS")
    inside = {file.rpartition("/")[2]: file for file in storage.listing(data)}
    root = inside.get("aclImdb", data)
    found: Texts = {}
    with ThreadPoolExecutor(THREADS) as pool:
        for part in PARTS:
            for side in SIDES:
                place = f"{root.rstrip('/')}/{part}/{side}"
                if not storage.exists(place):
                    continue
                files = [file for file in storage.listing(place) if file.endswith(".txt")]
                texts: list[str] = []
                for text in pool.map(_text, files):
                    texts.append(text)
                    if len(texts) % TOLD_EVERY == 0:
                        events.progress(f"{part}/{side} read", len(texts), len(files))
                found[part, side] = texts
    return found


def _text(file: str) -> str:
    with storage.open(file) as opened:
        content = opened.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise BadInput(f"{file}: has more than {MOST_BYTES:,} bytes, and is no review: remove it")
    return content.decode("utf-8", "replace")


def drawn(numbers: np.random.Generator, count: int) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """`count` synthetic texts, int32 (count, 250), and their classes, uint8 (count,).

    Words are as frequent as their number is small, as in a language; some of them lean to a class.
    """
    labels = numbers.integers(0, CLASSES, count, np.uint8)
    odds = 1 / np.arange(1, WORDS - FIRST + 1)
    usual = np.searchsorted(np.cumsum(odds / odds.sum()), numbers.random((count, LENGTH), np.float32)) + FIRST
    own = numbers.random((count, LENGTH), np.float32) < OWN
    side = np.where(own, labels[:, None], 1 - labels[:, None])
    leaning = WORDS - 1 - (CLASSES * numbers.integers(0, LEANING, (count, LENGTH)) + side)
    words = np.where(numbers.random((count, LENGTH), np.float32) < LEANS, leaning, np.minimum(usual, WORDS - 1))
    length = np.exp(numbers.normal(np.log(170), 0.6, count)).clip(20, LENGTH).astype(np.int32)
    return np.where(np.arange(LENGTH) < length[:, None], words, NOTHING).astype(np.int32), labels
