"""The bytes of long transfers, from the step that makes them to the words that a person sees."""

import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from regatta.provisioning import archive, progress


def seen(transfers: progress.Transfers, wanted: str) -> bool:
    end = time.monotonic() + 10
    while time.monotonic() < end:
        if str(transfers) == wanted:
            return True
        time.sleep(0.01)
    return False


def test_what_steps_transfer_is_added_up_until_they_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "EACH_SECONDS", 0.01)
    growing, sent = tmp_path / "growing", [0]
    growing.write_bytes(bytes(3_000_000))
    with progress.Transfers(lambda: sent[0]) as transfers:
        monkeypatch.setenv(progress.FOLDER, str(transfers.folder))
        with progress.telling(lambda: ("wheels", progress.size(growing), 8_000_000)):
            assert seen(transfers, "wheels 3 of 8 MB")
            growing.write_bytes(bytes(5_000_000))
            assert seen(transfers, "wheels 5 of 8 MB")
            (transfers.folder / "another.json").write_text('["wheels", 1000000, 8000000]')
            sent[0] = 2_000_000
            assert seen(transfers, "Debian packages 2 MB, wheels 6 of 16 MB")
            transfers.begin()
            assert seen(transfers, "wheels 6 of 16 MB"), "the packages of an earlier task"
        (transfers.folder / "another.json").unlink()
        assert str(transfers) == ""


def test_without_a_listener_nothing_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(progress.FOLDER, raising=False)
    with progress.telling(lambda: pytest.fail("no one listens")):
        pass


def test_rsyncs_own_line_says_how_much_is_copied(tmp_path: Path) -> None:
    source = tmp_path / "env.tar.zst"
    source.write_bytes(bytes(3_000_000))
    words = ["rsync", *archive.TELLING, str(source), str(tmp_path / "there")]
    with tempfile.TemporaryFile() as said:
        assert archive.copied(said.fileno(), str(source)) == ("copying env.tar.zst", 0, 3_000_000)
        subprocess.run(words, stdout=said, check=True)
        assert archive.copied(said.fileno(), str(source)) == ("copying env.tar.zst", 3_000_000, 3_000_000)
        assert archive.copied(said.fileno(), "NODE:/opt/env.tar.zst") == ("copying env.tar.zst", 3_000_000, None)
