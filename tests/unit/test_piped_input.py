"""A line reports what is piped into a command: its run does not read it."""

import os
import tempfile
from pathlib import Path

import pytest

from regatta.tasks import launching


@pytest.mark.parametrize(("content", "said"), [(b"some data", True), (b"", False)])
def test_what_is_piped_in_is_spoken_of(monkeypatch: pytest.MonkeyPatch, content: bytes, said: bool) -> None:
    reading, writing = os.pipe()
    os.write(writing, content)
    os.close(writing)
    with tempfile.TemporaryFile() as file, Path(os.devnull).open() as nothing:
        file.write(content)
        file.seek(0)
        assert launching._has_input(reading) is launching._has_input(file.fileno()) is said
        assert not launching._has_input(nothing.fileno())
    os.close(reading)
