"""Ids that are words: each becomes the number of its place among all words, sorted by their bytes.

So it does not depend on the order of lines, nor on who reads which part of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.uint32]


@dataclass(frozen=True)
class Words:
    """n words as UTF-8: `text` uint8, one after the other, word i from `offsets`[i] to [i + 1], int64 (n + 1,)."""

    text: NDArray[np.uint8]
    offsets: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def fault(self) -> str | None:
        """Return what is wrong with one of them, as a sentence."""
        if not np.diff(self.offsets).all():
            return "a node id is missing"
        if (control := (self.text < 32) | (self.text == 127)).any():
            place = int(np.searchsorted(self.offsets, int(np.argmax(control)), "right")) - 1
            word = self.text[self.offsets[place] : self.offsets[place + 1]].tobytes()
            return f"a control character in a node id: {word.decode('utf-8', 'backslashreplace')[:60]!r}"
        return None

    def table(self) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """All words between newlines, uint8, and where each of them ends, int64 (n,)."""
        between = np.full(len(self.text) + len(self) + 1, ord("\n"), np.uint8)
        filled = np.ones(len(between), bool)
        ends: NDArray[np.int64] = self.offsets[1:] + np.arange(1, len(self) + 1)
        filled[0] = False
        filled[ends] = False
        between[filled] = self.text
        return between, ends


NONE = Words(np.zeros(0, np.uint8), np.zeros(1, np.int64))


def encoded(values: NDArray[np.uint8], offsets: NDArray[np.int32]) -> tuple[Codes, Words]:
    """Numbers of words (k,), in the order in which they appear first, and these words; `offsets` int32 (k + 1,)."""
    import pyarrow as pa

    array = pa.BinaryArray.from_buffers(
        pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(values)]
    )
    return _encoded(array)


def of_numbers(ids: NDArray[Any]) -> tuple[Codes, Words]:
    """The same of ids as numbers, (k,): their digits are the words."""
    import pyarrow as pa

    return of_arrow(pa.array(ids).cast(pa.large_string()))


def of_arrow(array: Any) -> tuple[Codes, Words]:
    """The same of an Arrow array of text without nulls."""
    import pyarrow as pa

    return _encoded(array.cast(pa.large_string()).cast(pa.large_binary()))


def merged(parts: Sequence[Words]) -> tuple[Words, list[Codes]]:
    """All words of some parts once, sorted by their bytes, and for each part the new number of each of its words."""
    if not parts:
        return NONE, []
    import pyarrow.compute as pc

    ends = np.cumsum([0, *(len(part.text) for part in parts)])
    offsets = np.concatenate(
        [np.zeros(1, np.int64), *(part.offsets[1:] + end for part, end in zip(parts, ends, strict=False))]
    )
    codes, found = _encoded(_arrow(np.concatenate([NONE.text, *(part.text for part in parts)]), offsets))
    array = _arrow(found.text, found.offsets)
    order = _numbers(by_bytes := pc.array_sort_indices(array), np.uint64)
    places = np.empty(len(order), np.uint32)
    places[order] = np.arange(len(order), dtype=np.uint32)
    cuts = np.cumsum([len(part) for part in parts])[:-1]
    return _of_arrow(array.take(by_bytes)), np.split(places[codes], cuts)


def _encoded(array: Any) -> tuple[Codes, Words]:
    import pyarrow as pa

    found = array.dictionary_encode()
    return _numbers(found.indices, np.int32).view(np.uint32), _of_arrow(found.dictionary.cast(pa.large_binary()))


def _arrow(text: NDArray[np.uint8], offsets: NDArray[np.int64]) -> Any:
    import pyarrow as pa

    return pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(text)]
    )


def _of_arrow(array: Any) -> Words:
    _, ends, text = array.buffers()
    offsets = np.frombuffer(ends, np.int64, len(array) + 1, array.offset * 8) if len(array) else NONE.offsets
    values = np.frombuffer(text, np.uint8) if text and len(array) else NONE.text
    return Words(values[offsets[0] : offsets[-1]], offsets - offsets[0])


def _numbers(array: Any, dtype: Any) -> NDArray[Any]:
    """The same memory as numbers (`to_numpy` would import pandas, which takes a quarter of a second)."""
    size = np.dtype(dtype).itemsize
    if not len(array):
        return np.zeros(0, dtype)
    return np.frombuffer(array.buffers()[1], dtype, len(array), array.offset * size)
