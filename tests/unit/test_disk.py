"""Finished work is on the disk, and a stopped try blocks no later one: the nodes' helper and Ansible's."""

from pathlib import Path
from types import ModuleType

import modules
import pytest

from regatta import files
from regatta.node import disk

BOTH = pytest.mark.parametrize(
    ("helper", "left"), [(disk, "{}.new"), (modules.load("disk", "module_utils/disk.py"), ".{}.new.link")]
)


@BOTH
def test_a_link_that_a_kill_has_left_blocks_nothing(tmp_path: Path, helper: ModuleType, left: str) -> None:
    link = tmp_path / "hadoop"
    for target in ("one", "two"):
        (tmp_path / left.format("hadoop")).symlink_to("half")
        helper.point(str(link), target)
        assert str(link.readlink()) == target
    assert [path.name for path in tmp_path.iterdir()] == ["hadoop"]


def test_a_file_is_replaced_whole_also_over_a_half_one(tmp_path: Path) -> None:
    (tmp_path / "list.new").write_text("a half one, longer than the next")
    disk.store(str(tmp_path / "list"), "10.0.0.1\n", 0o640)
    assert (tmp_path / "list").read_text() == "10.0.0.1\n"
    assert [(path.name, path.stat().st_mode & 0o777) for path in tmp_path.iterdir()] == [("list", 0o640)]


@BOTH
def test_what_cannot_be_written_is_an_error(tmp_path: Path, helper: ModuleType, left: str) -> None:
    helper.settle(str(tmp_path))
    with pytest.raises(FileNotFoundError):
        helper.settle(str(tmp_path / "gone"))


def test_what_a_controller_puts_in_place_is_all_that_was_made(tmp_path: Path) -> None:
    made = tmp_path / "new"
    files.make_folder(made / "deep" / "er")
    (made / "deep/er/file").write_text("whole")
    (made / "link").symlink_to("nowhere")
    files.put(made, tmp_path / "there")
    assert (tmp_path / "there/deep/er/file").read_text() == "whole"
    assert not made.exists()
