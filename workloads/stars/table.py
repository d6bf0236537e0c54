"""Reads CSV files of SDSS, packed or not, of this host or HDFS: blocks of whole lines, taken apart by threads.

A block of plain numbers is taken apart by machine code (kernels.py), any other by Arrow (csvfile.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from workloads.common import compiled
from workloads.stars import csvfile
from workloads.stars.columns import FEATURES, LABEL
from workloads.stars.csvfile import BLOCK_BYTES, REFUSE, Block

kernels = compiled.load("workloads.stars.kernels")


def blocks_of_csv(
    path: str, block_bytes: int = BLOCK_BYTES, bad: str = REFUSE, left_out: Counter[str] | None = None
) -> Iterator[Block]:
    """The rows of a file in their order, as :func:`csvfile.blocks` gives them, which also says what it raises."""
    return csvfile.blocks(path, _Table, block_bytes, bad, left_out)


class _Table(csvfile.Table):
    """The header of a file, for machine code."""

    def __init__(self, path: str, header: bytes, line: int = 1, bad: str = REFUSE) -> None:
        super().__init__(path, header, line, bad)
        places = {name: place for place, name in enumerate(FEATURES)} | {LABEL: kernels.TYPE}
        self._places = np.array([places.get(name, kernels.SKIPPED) for name in self.names], np.int64)

    def parse(self, numbered: tuple[int, bytes]) -> Block:
        """Lines -> rows."""
        line, text = numbered
        block = self._parse_plain(text, text.count(b"\n") + 1) or self._parse_any(text, line)
        return self._possible(block, numbered)

    def _parse_plain(self, text: bytes, most: int) -> Block | None:
        if self.separator != ",":
            if b"," in text:
                return None
            text = text.replace(self.separator.encode(), b",")
        features, labels = np.empty((len(FEATURES), most), np.float32), np.empty(most, np.uint8)
        count = kernels.parse(np.frombuffer(text, np.uint8), self._places, features, labels)
        return (features[:, :count], labels[:count]) if count >= 0 else None
