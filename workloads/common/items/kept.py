"""Results as they come in, kept on the driver's host until all are there: an interrupted run can continue."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import IO

FOLDER = "items"


class Kept:
    """Lines of a file, ``[number, result]`` each; the file has the name of the work, so that no other continues it."""

    def __init__(self, folder: Path, function: str, options: str, items: Sequence[object], source: bytes) -> None:
        words = "\0".join([function, options, json.dumps([*items]), hashlib.sha256(source).hexdigest()])
        self.path = folder / FOLDER / f"{hashlib.sha256(words.encode()).hexdigest()}.jsonl"
        self._file: IO[bytes] | None = None

    def read(self) -> dict[int, str]:
        """The results that are there, by the number of their item; a line that was cut off counts for nothing."""
        found: dict[int, str] = {}
        if self.path.exists():
            for line in self.path.read_bytes().split(b"\n")[:-1]:
                number, result = json.loads(line)
                found[number] = result
        return found

    def begin(self, known: dict[int, str]) -> None:
        """Open the file for more results: with the known ones, nothing else."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        unfinished = self.path.with_suffix(f".{os.getpid()}")
        unfinished.write_bytes(b"".join(_line(*one) for one in known.items()))
        unfinished.rename(self.path)
        self._file = self.path.open("ab")

    def add(self, numbers: Sequence[int], results: Sequence[str]) -> None:
        """Keep some more, at once."""
        assert self._file is not None
        self._file.write(b"".join(map(_line, numbers, results)))
        self._file.flush()

    def end(self) -> None:
        """All is done: nothing is to be continued."""
        if self._file is not None:
            self._file.close()
        self.path.unlink(missing_ok=True)


def _line(number: int, result: str) -> bytes:
    return json.dumps([number, result]).encode() + b"\n"
