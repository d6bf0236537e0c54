"""A folder of HDFS that takes another one's place, on a file system that fails on request."""

from __future__ import annotations

import posixpath
import time

import pytest

from workloads.common.storage import swap
from workloads.common.storage.errors import StorageError
from workloads.common.storage.hdfs import Info


class Tree:
    """Paths with what is in them; `fails` are the numbers of the renamings that do not come about."""

    def __init__(self, *files: str) -> None:
        self.paths: set[str] = set()
        self.fails: set[int] = set()
        self.lost_answers: set[int] = set()
        self.renamed = 0
        for path in files:
            self.mkdirs(posixpath.dirname(path))
            self.paths.add(path)

    def mkdirs(self, path: str, permission: int = 0o755) -> None:
        while path != "/":
            self.paths.add(path)
            path = posixpath.dirname(path)

    def rename(self, source: str, target: str, *, overwrite: bool = False) -> None:
        self.renamed += 1
        if self.renamed in self.fails:
            raise StorageError(f"renaming {self.renamed} failed")
        assert source in self.paths and target not in self.paths and posixpath.dirname(target) in self.paths
        moved = {path for path in self.paths if (path + "/").startswith(source + "/")}
        self.paths = self.paths - moved | {target + path[len(source) :] for path in moved}
        if self.renamed in self.lost_answers:
            raise StorageError("the answer was lost")

    def find(self, path: str) -> Info | None:
        old = int((time.time() - 1000) * 1000)
        return Info(path, 0, old, True, "me", 0o755, None) if path in self.paths else None

    def listing(self, path: str) -> list[Info]:
        found = [self.find(one) for one in sorted(self.paths) if posixpath.dirname(one) == path]
        return [info for info in found if info]

    def delete(self, path: str, *, recursive: bool = False) -> bool:
        self.paths = {one for one in self.paths if not (one + "/").startswith(path + "/")}
        return True


MADE, TARGET = "/.regatta/incoming/x/tree", "/data/deep/tree"


def tree() -> Tree:
    return Tree(f"{MADE}/new", f"{TARGET}/old")


def kept(hdfs: Tree) -> list[str]:
    return [path for path in hdfs.paths if path.startswith(swap.ASIDE) and path.endswith("/old")]


def test_the_new_one_takes_the_place() -> None:
    hdfs = tree()
    swap.replace(hdfs, MADE, TARGET)  # type: ignore[arg-type]
    assert f"{TARGET}/new" in hdfs.paths and f"{TARGET}/old" not in hdfs.paths
    assert not kept(hdfs)


@pytest.mark.parametrize("fails", [1, 2])
def test_where_a_renaming_fails_the_old_one_is_there(fails: int) -> None:
    hdfs = tree()
    hdfs.fails = {fails}
    with pytest.raises(StorageError, match=f"renaming {fails} failed"):
        swap.replace(hdfs, MADE, TARGET)  # type: ignore[arg-type]
    assert f"{TARGET}/old" in hdfs.paths and f"{TARGET}/new" not in hdfs.paths
    assert not kept(hdfs)


def test_a_renaming_whose_answer_was_lost_counts() -> None:
    hdfs = tree()
    hdfs.lost_answers = {2}
    swap.replace(hdfs, MADE, TARGET)  # type: ignore[arg-type]
    assert f"{TARGET}/new" in hdfs.paths and not kept(hdfs)


def test_where_it_cannot_come_back_the_message_says_where_it_is_and_a_later_request_brings_it_back() -> None:
    hdfs = tree()
    hdfs.fails = {2, 3}
    with pytest.raises(StorageError) as found:
        swap.replace(hdfs, MADE, TARGET)  # type: ignore[arg-type]
    assert kept(hdfs) and posixpath.dirname(kept(hdfs)[0]) in str(found.value)
    swap.bring_back(hdfs, 100000)  # type: ignore[arg-type]
    assert kept(hdfs)
    swap.bring_back(hdfs, 600)  # type: ignore[arg-type]
    assert f"{TARGET}/old" in hdfs.paths and not kept(hdfs)


def test_what_has_come_to_the_path_since_stays() -> None:
    hdfs = tree()
    hdfs.fails = {2, 3}
    with pytest.raises(StorageError):
        swap.replace(hdfs, MADE, TARGET)  # type: ignore[arg-type]
    hdfs.mkdirs(f"{TARGET}/newest")
    swap.bring_back(hdfs, 600)  # type: ignore[arg-type]
    assert f"{TARGET}/newest" in hdfs.paths and not kept(hdfs) and f"{TARGET}/old" not in hdfs.paths
