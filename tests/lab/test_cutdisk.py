"""Disks whose power can be cut: what was synced is there afterwards, and nothing of the disks is left."""

import os
import subprocess
from pathlib import Path

import pytest

from lab import cutdisk
from lab.system import mounts_below


def write(path: Path, *, sync: bool) -> None:
    with path.open("wb") as file:
        file.write(b"x" * 1_000_000)
        file.flush()
        if sync:
            os.fsync(file.fileno())


def test_a_cut_keeps_what_was_synced_and_a_failure_leaves_nothing(lab_possible: None, tmp_path: Path) -> None:
    if lacking := cutdisk.problems():
        pytest.skip("; ".join(lacking))
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
        (folder / "old").write_text("old")
    with pytest.raises(ZeroDivisionError), cutdisk.Disks(tmp_path / "work", folders) as disks:
        for folder in folders:
            write(folder / "synced", sync=True)
            write(folder / "not", sync=False)
        disks.cut()
        disks.come_back()
        for folder in folders:
            sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
            assert sizes["old"] == 3 and sizes["synced"] == 1_000_000 and not sizes.get("not")
        raise ZeroDivisionError
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["old", "old", "one", "two"]
    assert not mounts_below(tmp_path)
    assert str(tmp_path) not in subprocess.run(["losetup", "--all"], capture_output=True, text=True, check=True).stdout
